"""Whether a checkpoint belongs to this run, is of the same problem, and was over."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from proxlin.errors import CheckpointError
from proxlin.methods import Method
from proxlin.methods.contract import Budget, Status
from proxlin.problem import Problem
from proxlin.run.checkpoint.serialize import is_count
from proxlin.run.held_out import HeldOut

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object that does not print its settings
_LONGEST = 160  # characters of a value that a message shows
_COUNTS = ("stationarity_rows", "steps_since", "stale", "evaluated_rows")
_SAME, _ROUNDING = 1e-3, 1e-6  # of the objective there and of the first one


def owner_of(
    problem: Problem, method: Method, seed: int, held_out: HeldOut | None
) -> dict[str, Any]:
    """What tells one run from another, as JSON gives it back; budgets are free to change."""
    layout = problem.layout
    return {
        "parameters": [[n, list(s)] for n, s in zip(layout.names, layout.shapes, strict=True)],
        "type": str(problem.dtype).removeprefix("torch."),
        "rows": problem.n_rows,
        "rows held out": None if held_out is None else held_out.problem.n_rows,
        "outputs": problem.n_outputs,
        "p": repr(problem.loss) if problem.p == "pinball" else str(problem.p),
        "terms": problem.penalty.describe(),
        "method": _ADDRESS.sub("", repr(method)),
        "seed": seed,
        "reweighted": held_out is not None and held_out.reweight,
    }


def first_difference(owner: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """A sentence on the first thing that differs, None if the two are the same."""
    for name, mine in owner.items():
        theirs = other.get(name)
        if theirs == mine:
            continue
        if name == "parameters" and isinstance(theirs, list):
            pairs = zip_longest(mine, theirs, fillvalue="nothing")
            mine, theirs = next((a, b) for a, b in pairs if a != b)  # noqa: PLW2901
        return f"it is of another run: its {name}: {_brief(theirs)}; here: {_brief(mine)}"
    return None


def _brief(value: Any) -> str:
    text = "none" if value is None else f"{value}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def check_objective(value: float, objective: float, first: float) -> None:
    """Refuse other data: the best point must have the objective that it had."""
    if not abs(value - objective) <= _SAME * abs(objective) + _ROUNDING * abs(first):
        raise CheckpointError(
            f"the checkpoint must be of the same problem: its best objective is {objective:.6g},"
            f" but at that point it is {value:.6g} here. The data or the residual have changed;"
            " choose another checkpoint folder."
        )


def check_course(memory: Mapping[str, Any]) -> None:
    """Refuse a run that cannot have been where it says: no budget would end it in time."""
    try:
        iteration, seconds, reserve = memory["used"]
        at_step, at_second = memory["evaluated_at"]
        counts = iteration, at_step, *(memory[name] for name in _COUNTS)
        times = seconds, reserve, at_second, memory["cost"]
        best, measured = memory["best"], memory["stationarity"]
        honest = (
            all(is_count(count) for count in counts)
            and all(0 <= second < math.inf for second in times)
            and at_step <= iteration
            and memory["evaluated_rows"] > 0
            and best > -math.inf
            and (measured is None or float(measured) >= 0)
        )
    except (ArithmeticError, TypeError, ValueError):
        honest = False
    if not honest:
        raise CheckpointError(
            "the checkpoint must tell how far the run was: its steps, seconds, evaluations and"
            " best objective are no such numbers. Choose another checkpoint folder, or empty this"
            " one to begin anew."
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


def _raised(limit: float | None, before: float | None) -> bool:
    return limit is None or before is None or limit > before
