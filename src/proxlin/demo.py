"""The demonstration: one autoencoder, digits with outliers among them, squared error against l1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from proxlin.data import add_outliers, load_dataset
from proxlin.loss import Exponent
from proxlin.minimize import Callback, minimize
from proxlin.models import mlp_autoencoder
from proxlin.problem import Problem
from proxlin.result import Result
from proxlin.terms import Ridge

LOSSES: dict[str, Exponent] = {
    "squared error": "mse",
    "l2 norm": 2.0,
    "l1 norm": 1.0,
}


@dataclass(frozen=True)
class DemoRow:
    """One trained autoencoder and how far its reconstructions are from the images."""

    name: str
    result: Result
    clean_error: float  # mean |pixel error| on the training rows that are no outliers
    test_error: float  # the same on images never seen, none of them an outlier
    reconstructions: Tensor  # (k, 1, 8, 8) of the first test images
    outlier_recall: float  # share of the outliers among the rows that fit worst


@dataclass(frozen=True)
class Demo:
    """The whole demonstration: rows of the table and the images of the picture."""

    rows: list[DemoRow]
    ratio: float
    images: Tensor  # (k, 1, 8, 8) test images
    outliers: Tensor  # (k, 1, 8, 8) some of the outliers it was trained with


def run_demo(
    *,
    ratio: float = 0.2,
    seconds: float = 15.0,
    seed: int = 0,
    watch: Callable[[str], tuple[Callback, ...]] = lambda _name: (),
) -> Demo:
    """Train the same net with each loss on digits of which a share `ratio` are outliers.

    `watch(name)` gives the callbacks for the run called `name`.
    """
    data = load_dataset("digits")
    corrupted, mask = add_outliers(data.x_train, ratio, seed=seed)
    shown = slice(0, 10)
    rows = []
    for name, p in LOSSES.items():
        torch.manual_seed(seed)
        net = mlp_autoencoder((64, 32, 16), image=(1, 8, 8))
        problem = Problem(net, corrupted, p, regularizer=Ridge(1e-4))
        result = minimize(problem, max_seconds=seconds, seed=seed, callbacks=watch(name))
        with torch.no_grad():
            rows.append(
                DemoRow(
                    name=name,
                    result=result,
                    clean_error=_pixel_error(net, data.x_train[~mask]),
                    test_error=_pixel_error(net, data.x_test),
                    reconstructions=net(data.x_test[shown]),
                    outlier_recall=_recall(problem.row_losses(result.theta), mask),
                )
            )
    return Demo(rows, ratio, data.x_test[shown], corrupted[mask][shown])


def _pixel_error(net: torch.nn.Module, x: Tensor) -> float:
    return float((net(x) - x).abs().mean())


def _recall(losses: Tensor, mask: Tensor) -> float:
    worst = losses.topk(int(mask.sum())).indices
    return float(mask[worst].float().mean())


def draw(demo: Demo, path: Path) -> None:
    """Save a picture: outliers, test images, and what each net makes of them."""
    strips = [("some outliers\nit trained with", demo.outliers), ("never seen", demo.images)]
    strips += [
        (f"{row.name}\n{row.test_error:.3f} a pixel", row.reconstructions) for row in demo.rows
    ]
    columns = demo.images.shape[0]
    figure = Figure(figsize=(0.9 * columns + 1.8, 0.95 * len(strips) + 0.5), layout="constrained")
    axes = figure.subplots(len(strips), columns)
    for strip, (label, images) in zip(axes, strips, strict=True):
        for axis, image in zip(strip, images, strict=False):
            axis.imshow(image[0].numpy(), cmap="gray_r", vmin=0, vmax=1)
            axis.set_xticks([])
            axis.set_yticks([])
        strip[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
    figure.suptitle(f"Autoencoders trained on digits with {demo.ratio:.0%} outliers", fontsize=11)
    figure.savefig(path, dpi=130)
