"""The figures of a cell: F_OBJ, F_NOUTL and F_TEST (Sec. 5), and the time to reach an objective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from proxlin.paper.workload import Workload
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent

LOSSES = ("f_obj", "f_noutl", "f_test")


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
