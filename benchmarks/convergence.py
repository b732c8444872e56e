"""Objective over time on the MNIST autoencoder: every method side by side, equal seconds.

    python -m benchmarks.convergence --seconds 120 --p 2 --outliers 0

MBO runs at the settings of the paper's App. F. On the way the objective is estimated on 2,048 rows,
the same for all; the column "full" is the objective over all 60,000 at the end. The last line says
when `mbo-sadm` reached what the paper reports for this cell (2.51 at p = 2 without outliers).
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from proxlin import MBO, SADM, SGD, Adam, Armijo, Problem, Ridge, Subgradient, minimize
from proxlin.data import add_outliers, load_dataset
from proxlin.errors import DataError
from proxlin.methods import Probed, Step
from proxlin.methods.contract import Budget
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


class Watched:
    """A method that notes the objective on a sample of rows while it runs."""

    def __init__(self, method: Any, every: float) -> None:
        self.method = method
        self.every = every  # seconds
        self.notes: list[tuple[float, float]] = []  # seconds, estimated objective
        self.measures_stationarity = False

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> Any:
        """Begin as the method does."""
        return self.method.init(problem, theta, generator)

    def step(self, problem: Problem, state: Any, budget: Budget) -> Step:
        """Step as the method does, then take a note if one is due."""
        step: Step = self.method.step(problem, state, budget)
        if not self.notes or budget.seconds - self.notes[-1][0] >= self.every:
            rows = torch.linspace(0, problem.n_rows - 1, 2048).long()
            estimate = problem.objective(self.method.candidates(state)[0], rows)
            self.notes.append((budget.seconds, estimate))
        return step

    def candidates(self, state: Any) -> list[Tensor]:
        """Those of the method."""
        found: list[Tensor] = self.method.candidates(state)
        return found

    def lowest_until(self, seconds: float) -> str:
        """The lowest estimate up to then, or a dash."""
        seen = [objective for when, objective in self.notes if when <= seconds * 1.02]
        return f"{min(seen):.4g}" if seen else "-"


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
    for heading in ("method", *(f"{mark:.0f} s" for mark in marks), "full", "steps"):
        table.add_column(heading, justify="right")
    reached: float | None = None
    target = PAPER.get((options.p, options.outliers))
    for name in options.methods.split(","):
        torch.manual_seed(options.seed)
        problem = Problem(paper_autoencoder(), x, options.p, regularizer=Ridge(1e-3))
        watched = Watched(METHODS[name], every=options.seconds / 50)
        result = minimize(problem, watched, max_seconds=options.seconds, seed=options.seed)
        estimates = [watched.lowest_until(mark) for mark in marks]
        table.add_row(name, *estimates, f"{result.objective:.4g}", str(result.iterations))
        frame = result.history.frame()
        if name == "mbo-sadm" and target is not None:
            below = frame.loc[frame["objective"] <= target, "seconds"]
            reached = float(below.iloc[0]) if len(below) else None
    console.print(table)
    if "mbo-sadm" in options.methods and target is not None:
        when = "not in this time" if reached is None else f"after {reached:.0f} s"
        console.print(f"mbo-sadm reached the paper's {target:g} {when}.", highlight=False)


if __name__ == "__main__":
    main()
