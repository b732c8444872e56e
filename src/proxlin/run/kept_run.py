"""What a run of a method remembers, and how a checkpoint keeps it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from proxlin.errors import CheckpointError
from proxlin.methods.contract import Budget, Status
from proxlin.problem import Problem
from proxlin.problem.rows import evenly_spread
from proxlin.run.checkpoint import (
    CheckpointWriter,
    Serialized,
    check_course,
    check_objective,
    restore,
    still_over,
)
from proxlin.run.held_out import HeldOut
from proxlin.run.loop import Loop
from proxlin.run.result import Callback

_REMEMBERED = (
    "start", "best", "best_theta", "stationarity", "stationarity_rows", "steps_since", "cost",
    "evaluated_rows", "evaluated_at", "stale", "history", "remarks", "held_out", "state",
)  # fmt: skip


class KeptRun(Loop):
    """A loop on a problem that can stand where an earlier one stood."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        callbacks: tuple[Callback, ...],
        held_out: HeldOut | None,
        writer: CheckpointWriter | None,
    ) -> None:
        super().__init__(budget, callbacks, problem.communicator)
        self.problem = problem
        self.held_out = held_out
        self.writer = writer
        self.best_theta = torch.empty(0)
        self.start = torch.empty(0)
        self.stationarity: float | None = None  # of the last point whose model was solved,
        self.stationarity_rows = 0  # measured on so many rows,
        self.steps_since = 0  # so many steps before the best point
        self.cost = 0.0  # seconds of the latest evaluation
        self.evaluated_rows = problem.n_rows  # on which the objective is measured, evenly spread
        self.evaluated_at = (0, 0.0)  # iteration and seconds of the latest evaluation
        self.state: Any = None  # the method's
        self.stale = 0  # evaluations since the best objective last fell noticeably

    def memory(self, status: Status | None) -> dict[str, Any]:
        """All that changes while a run goes on, and how it ended if it did."""
        budget = self.budget
        return {
            "used": [budget.iteration, budget.seconds, budget.reserve],
            "limits": [budget.max_iter, budget.max_seconds],
            "status": None if status is None else status.name,
            **{name: getattr(self, name) for name in _REMEMBERED},
        }

    def recall(self, kept: Serialized, tol: float | None) -> Status | None:
        """Stand where the run stood that was kept; its status if it was over and still is."""
        fresh = {**self.memory(None), "limits": [None, None]}  # any budget may follow another
        memory = restore(fresh, kept, self.problem.device)
        if not isinstance(memory, dict):
            raise CheckpointError("the checkpoint is empty. Choose another checkpoint folder.")
        empty = [name for name in fresh if memory[name] is None and fresh[name] is not None]
        judge = memory["held_out"]
        if judge is not None and not (isinstance(judge, HeldOut) and judge.fits(self.start)):
            empty.append("what the rows held out said")
        if empty:
            raise CheckpointError(
                f"the checkpoint does not hold {empty[0]}. Choose another checkpoint folder."
            )
        check_course(memory)
        for name in _REMEMBERED:
            setattr(self, name, memory[name])
        try:
            if math.isfinite(self.best):
                first = self.history.records[0]["objective"]
                check_objective(self.measured(self.best_theta), self.best, first)
            self.budget.go_on(*memory["used"])
            return still_over(memory, self.budget, tol)
        except (LookupError, TypeError) as cause:
            raise CheckpointError(
                f"the checkpoint does not tell how far the run was ({type(cause).__name__})."
                " Choose another checkpoint folder, or empty this one to begin anew."
            ) from cause

    def keep(self, status: Status | None = None) -> bool:
        """Keep the run where it is over, was asked to stop or is due; whether it has to stop."""
        writer, step = self.writer, self.budget.iteration
        if writer is None:
            return False
        if writer.asked_to_stop and status is None:
            status = Status.INTERRUPTED
        if status is not None or writer.due(step):
            now = self.memory(status)
            for trouble in writer.keep(step, now, wait=status is not None):
                self.remark(trouble)
        return status is not None

    def measured(self, theta: Tensor) -> float:
        """The objective at theta, on the rows that stand for all."""
        rows = self.problem.n_rows
        index = evenly_spread(rows, self.evaluated_rows) if self.evaluated_rows < rows else None
        return self.problem.objective(theta, index)
