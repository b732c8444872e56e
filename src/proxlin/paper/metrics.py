"""The figures of a cell: F_OBJ, F_NOUTL, F_TEST (Sec. 5), T*; which run speaks for a method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from proxlin.paper.grid import Cell, family
from proxlin.paper.store import Record
from proxlin.paper.workload import Workload
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent

LOSSES = ("f_obj", "f_noutl", "f_test")
Group = tuple[str, float, object, int, str]  # dataset, outliers, p, seed, family


def measure(work: Workload, problem: Problem, theta: Tensor, p: Exponent) -> dict[str, float]:
    """How good theta is in the p-norm, whatever it was trained with.

    - f_obj: (1/n) sum_i ||F(theta; x_i)||_p + g(theta) over all training rows, outliers included;
    - f_noutl: the mean of ||F(theta; x_i)||_p over the training rows that are no outliers;
    - f_test: the same over the test rows, none of which is an outlier.
    """
    train = problem if p == problem.p else work.problem(problem.module, p)
    test = work.problem(problem.module, p, test=True)
    losses = train.row_losses(theta).double()
    return {
        "f_obj": float(losses.mean()) + float(train.penalty.value(theta)),
        "f_noutl": float(losses[~work.mask].mean()),
        "f_test": test.data_term(theta),
    }


def seconds_to_reach(history: Iterable[Mapping[str, Any]], objective: float) -> float | None:
    """T*: when the full objective was first measured to be at most `objective`; None: never."""
    for record in history:
        if record["objective"] <= objective:
            return float(record["seconds"])
    return None


def group(cell: Cell) -> Group:
    """What the cells share of which the best is shown: of Adam, those of all learning rates."""
    return (cell.dataset, cell.outliers, cell.p, cell.seed, family(cell.method))


def best_runs(cells: Iterable[Cell], records: Mapping[str, Record]) -> list[Cell]:
    """Of the finished cells of each group the one with the lowest F_OBJ, in the order given."""
    best: dict[Group, Cell] = {}
    for cell in cells:
        if cell.name in records:
            rival = best.setdefault(group(cell), cell)
            if objective(records[cell.name], cell) < objective(records[rival.name], rival):
                best[group(cell)] = cell
    return list(best.values())


def objective(record: Record, cell: Cell) -> float:
    """F_OBJ in the loss that the cell trained with."""
    return float(record["metrics"][str(cell.p)]["f_obj"])
