"""run_cell: train the net of one cell, measure it, and put everything into one record."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import torch

from proxlin.methods.contract import Status
from proxlin.models import paper_autoencoder, paper_regressor
from proxlin.paper.grid import PAPER_EXPONENTS, Cell, has_images, method_settings
from proxlin.paper.metrics import LOSSES, measure
from proxlin.paper.store import Record, pack
from proxlin.paper.traced import Traced
from proxlin.paper.workload import REGULARIZER, fresh_net, workload
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent
from proxlin.run.minimize import minimize
from proxlin.run.result import Callback, History

_COLUMNS = ("iteration", "seconds", "objective", "best")
_LONGEST = 500  # records of a curve


def run_cell(cell: Cell, callbacks: Iterable[Callback] = ()) -> Record:
    """The record of the cell. Ctrl-C raises: a cell is finished or it is not.

    Memory: the data set, a copy of its training rows with the outliers, and what `minimize` takes.
    """
    _warm_up(cell.method, has_images(cell.dataset))
    work = workload(cell)
    net = fresh_net(cell)
    problem = work.problem(net, cell.p)
    method = Traced(method_settings(cell.method, has_images(cell.dataset)))
    result = minimize(
        problem,
        method,
        max_seconds=cell.seconds,
        max_iter=cell.steps,
        seed=cell.seed,
        callbacks=callbacks,
    )
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    exponents: tuple[Exponent, ...] = (cell.p,) if cell.p != "mse" else ("mse", *PAPER_EXPONENTS)
    return {
        "config": cell.config(),
        "metrics": {str(p): measure(work, problem, result.theta, p) for p in exponents},
        "seconds": result.seconds,
        "iterations": result.iterations,
        "status": str(result.status),
        "remarks": list(result.remarks),
        "stationarity": result.certificate and result.certificate.value,
        "rows": {
            "train": len(work.mask),
            "outliers": int(work.mask.sum()),
            "test": len(work.test[0]),
        },
        "history": _curve(result.history),
        "trace": method.trace,
        "theta": pack(result.theta),
        "versions": provenance(),
    }


@cache
def _warm_up(method: str, images: bool) -> None:
    """Take one step on made-up rows: the first in a process loads parts of torch for seconds."""
    generator = torch.Generator().manual_seed(0)
    size = (16, 1, 8, 8) if images else (16, 8)
    x = torch.rand(size, generator=generator)
    with torch.random.fork_rng(devices=[]):
        net = paper_autoencoder() if images else paper_regressor(8, 2)
    problem = Problem(
        net, x if images else (x, x[:, :2]), "mse" if method == "mse" else 1.0,
        regularizer=REGULARIZER,
    )  # fmt: skip
    minimize(problem, method_settings(method, images), max_seconds=None, max_iter=1)


def figures(record: Record, p: Exponent) -> dict[str, float]:
    """F_OBJ, F_NOUTL and F_TEST of a record in the p-norm."""
    losses = record["metrics"][str(p)]
    return {name: float(losses[name]) for name in LOSSES}


def _curve(history: History) -> list[dict[str, float]]:
    """The evaluations that made the objective lowest so far, the first and the last; thinned."""
    records = history.records
    kept = [
        {name: record[name] for name in _COLUMNS}
        for place, record in enumerate(records)
        if place in (0, len(records) - 1) or record["objective"] <= record["best"]
    ]
    if len(kept) <= _LONGEST:
        return kept
    places = torch.linspace(0, len(kept) - 1, _LONGEST).long().tolist()
    return [kept[place] for place in places]


def provenance() -> dict[str, Any]:
    """What the figures were made with, and when."""
    return {
        "proxlin": version("proxlin"),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
