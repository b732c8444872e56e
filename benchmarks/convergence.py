"""Objective over time on the MNIST autoencoder: every method side by side, equal seconds.

    python -m benchmarks.convergence --seconds 120 --p 2 --outliers 0

MBO runs at the settings of the paper's App. F. The last line says when `mbo-sadm` reached the
objective that the paper reports for this cell (2.51 at p = 2 without outliers).
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from proxlin import MBO, SADM, SGD, Adam, Armijo, Problem, Ridge, Subgradient, minimize
from proxlin.data import add_outliers, load_dataset
from proxlin.errors import DataError
from proxlin.methods import Probed
from proxlin.models import paper_autoencoder

PAPER = {(2.0, 0.0): 2.51, (1.5, 0.0): 2.63, (1.0, 0.0): 3.47}  # F_OBJ of mbo-sadm, MNIST

# App. F, with the line search of the published experiment.
_SEARCH = Armijo(first=0.95, shrink=0.95, slope=0.1, max_trials=250)
METHODS: dict[str, Any] = {
    "probed": Probed(),
    "mbo-sadm": MBO(solver=SADM(batch_size=8, max_steps=200, tolerance=0.1), search=_SEARCH),
    "mbo-sgd": MBO(solver=Subgradient(learning_rate=1e-5, max_steps=500), search=_SEARCH),
    "sgd": SGD(learning_rate=1e-6, batch_size=8),
    "adam": Adam(learning_rate=3e-3),
}


def main(arguments: list[str] | None = None) -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--p", type=float, default=2.0)
    parser.add_argument("--outliers", type=float, default=0.0)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    console = Console()
    try:
        x = load_dataset("mnist").x_train
    except DataError as error:
        console.print(f"skipped: {error}", highlight=False)
        return
    x, _ = add_outliers(x, options.outliers, seed=options.seed)
    marks = [options.seconds * share for share in (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)]
    table = Table(title=f"MNIST autoencoder, p = {options.p:g}, outliers {options.outliers:g}")
    for heading in ("method", *(f"{mark:.0f} s" for mark in marks), "steps", "status"):
        table.add_column(heading, justify="right")
    reached: float | None = None
    target = PAPER.get((options.p, options.outliers))
    for name in options.methods.split(","):
        torch.manual_seed(options.seed)
        problem = Problem(paper_autoencoder(), x, options.p, regularizer=Ridge(1e-3))
        result = minimize(problem, METHODS[name], max_seconds=options.seconds, seed=options.seed)
        frame = result.history.frame()
        best = [frame.loc[frame["seconds"] <= mark * 1.02, "objective"].min() for mark in marks]
        table.add_row(
            name, *(f"{value:.4g}" for value in best), str(result.iterations), result.status.name
        )
        if name == "mbo-sadm" and target is not None:
            below = frame.loc[frame["objective"] <= target, "seconds"]
            reached = float(below.iloc[0]) if len(below) else None
    console.print(table)
    if "mbo-sadm" in options.methods and target is not None:
        when = "not in this time" if reached is None else f"after {reached:.0f} s"
        console.print(f"mbo-sadm reached the paper's {target:g} {when}.", highlight=False)


if __name__ == "__main__":
    main()
