"""What is asked of a recalled run: that the problem is still the same, and whether it was over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from proxlin.errors import CheckpointError
from proxlin.methods.contract import Budget, Status
from proxlin.problem import Problem

_SAME, _ROUNDING = 1e-3, 1e-6  # of the objective there and of the first one


def check_objective(problem: Problem, theta: Tensor, objective: float, first: float) -> None:
    """Refuse other data: the best point must have the objective that it had."""
    found = problem.objective(theta)
    if not abs(found - objective) <= _SAME * abs(objective) + _ROUNDING * abs(first):
        raise CheckpointError(
            f"the checkpoint must be of the same problem: its best objective is {objective:.6g},"
            f" but at that point it is {found:.6g} here. The data or the residual have changed;"
            " choose another checkpoint folder."
        )


def still_over(memory: Mapping[str, Any], budget: Budget, tol: float | None) -> Status | None:
    """How the recalled run ended, or None if it was cut short or may now go further."""
    if memory["status"] is None:
        return None
    status = Status[memory["status"]]
    max_iter, max_seconds = memory["limits"]
    stationarity = memory["stationarity"]
    goes_on = {
        Status.INTERRUPTED: True,
        Status.ITERATIONS: _raised(budget.max_iter, max_iter),
        Status.TIME: _raised(budget.max_seconds, max_seconds),
        Status.CONVERGED: tol is None or stationarity is None or stationarity > tol,
    }
    return None if goes_on.get(status) else status


def _raised(limit: float | None, before: float) -> bool:
    return limit is None or limit > before
