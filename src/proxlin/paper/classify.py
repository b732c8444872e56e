"""How much of the classes the codes of a trained autoencoder keep: a logistic regression on them.

The classifier (App. G) is multinomial with an l2 penalty at C = 0.01, 0.1 and 1, fitted by L-BFGS
on the encoder's output for the training rows that are no outliers; the best test accuracy counts.
Each code number is put to mean 0 first, which changes nothing but the intercept and saves L-BFGS
many steps. It is not divided by its standard deviation: that would change what a C means, and make
up for codes that hardly vary. Each C starts where the one before ended.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proxlin.models import Autoencoder
from proxlin.paper.cell import provenance
from proxlin.paper.grid import Cell
from proxlin.paper.store import Record, unpack
from proxlin.paper.workload import fresh_net, workload
from proxlin.run.result import Callback, Progress

STRENGTHS = (0.01, 0.1, 1.0)  # C: the smaller, the stronger the penalty
STEPS = 100  # of L-BFGS for each C
_CHUNK = 1000  # images encoded at once


@dataclass(frozen=True)
class Classified:
    """The job of classifying the codes of one trained cell."""

    cell: Cell
    theta: str  # the trained parameters, as the record of the cell has them

    @property
    def name(self) -> str:
        """That of the cell."""
        return self.cell.name

    def config(self) -> dict[str, Any]:
        """The cell, its parameters and the classifier."""
        return {
            "cell": self.cell.config(),
            "theta": hashlib.sha256(self.theta.encode()).hexdigest(),
            "strengths": list(STRENGTHS),
            "steps": STEPS,
            "codes": "centred",
        }


def classify(job: Classified, callbacks: tuple[Callback, ...] = ()) -> Record:
    """The record of the job: accuracy at each C, and the best. MNIST's codes take 0.65 GB."""
    cell = job.cell
    work = workload(cell)
    net = fresh_net(cell)
    assert isinstance(net, Autoencoder)  # the catalogue admits only images
    nn.utils.vector_to_parameters(unpack(job.theta), net.parameters())
    clean = (~work.mask).nonzero().squeeze(1)
    train = _codes(net, work.train[0], clean)
    test = _codes(net, work.test[0], torch.arange(len(work.test[0])))
    _centre(train, test)
    labels, test_labels = (part.numpy() for part in work.labels)
    by_strength, steps = _accuracies(train, labels[clean.numpy()], test, test_labels, callbacks)
    return {
        "config": job.config(),
        "accuracy": max(by_strength.values()),
        "by_strength": by_strength,
        "steps": steps,
        "rows": {"train": len(train), "test": len(test), "features": train.shape[1]},
        "versions": provenance(),
    }


def _codes(net: Autoencoder, images: Tensor, rows: Tensor) -> NDArray[np.float32]:
    """The encoder's output, softplus included, one row for each image."""
    with torch.no_grad():
        width = net.encoder(images[:1]).numel()
        codes = np.empty((len(rows), width), dtype=np.float32)
        for first in range(0, len(rows), _CHUNK):
            part = rows[first : first + _CHUNK]
            codes[first : first + len(part)] = net.encoder(images[part]).flatten(1).numpy()
    return codes


def _centre(train: NDArray[np.float32], test: NDArray[np.float32]) -> None:
    """Subtract the mean of the training rows from both, in place."""
    mean = train.mean(axis=0, dtype=np.float64).astype(np.float32)
    for codes in (train, test):
        np.subtract(codes, mean, out=codes)


def _accuracies(
    train: NDArray[np.float32],
    labels: NDArray[np.int64],
    test: NDArray[np.float32],
    test_labels: NDArray[np.int64],
    callbacks: tuple[Callback, ...],
) -> tuple[dict[str, float], list[int]]:
    # Imported here: they take long and only this experiment needs them.
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    model = LogisticRegression(solver="lbfgs", max_iter=STEPS, warm_start=True)
    by_strength: dict[str, float] = {}
    steps = []
    for place, strength in enumerate(STRENGTHS):
        model.set_params(C=strength)
        with warnings.catch_warnings():
            # The accuracy settles long before the last digit of the weights; the steps are kept.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(train, labels)
        by_strength[str(strength)] = float(model.score(test, test_labels))
        steps.append(int(model.n_iter_.max()))
        share = (place + 1) / len(STRENGTHS)
        errors = [1.0 - value for value in by_strength.values()]
        progress = Progress(place + 1, 0.0, errors[-1], min(errors), None, share, torch.empty(0))
        for callback in callbacks:
            callback(progress)
    return by_strength, steps
