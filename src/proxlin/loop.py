"""The one loop: it owns budgets, evaluations, callbacks, non-finite values and interruption."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proxlin.budget import Budget
from proxlin.errors import InvalidInputError, NonFiniteError
from proxlin.methods import Method, Step
from proxlin.problem import Problem
from proxlin.result import History, Result, Status

_LOG = logging.getLogger("proxlin")

_EVALUATION_SHARE = 0.1  # of a time budget goes into evaluating the full objective
_EVALUATIONS = 20  # of a budget of steps: evaluate after every twentieth of it
_MOST_RESERVE = 0.3  # of a time budget that is kept back for the last evaluation
_SAMPLE = 2048  # rows that choose between the candidates at the end
_PATIENCE = 8  # evaluations without progress that end a run without a budget
_PROGRESS = 1e-3  # relative decrease of the best objective that counts as progress
_REMEMBERED = (
    "start", "best", "best_theta", "stationarity", "cost", "evaluated_at", "stale", "history",
    "remarks", "state",
)  # fmt: skip


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each evaluation of the full objective."""

    iteration: int
    seconds: float
    objective: float  # at the point just evaluated
    best: float  # lowest so far
    stationarity: float | None
    share: float  # of the budget used, in [0, 1]
    theta: Tensor  # (d,) the point just evaluated; do not change it


Callback = Callable[[Progress], bool | None]


class Run:
    """One call of minimize: the best point, the history, and when to look and to stop."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        budget: Budget,
        tol: float | None,
        callbacks: tuple[Callback, ...],
    ) -> None:
        self.problem = problem
        self.method = method
        self.budget = budget
        self.tol = tol
        self.callbacks = callbacks
        self.history = History()
        self.remarks: list[str] = []
        self.best = math.inf
        self.best_theta = torch.empty(0)
        self.start = torch.empty(0)
        self.stationarity: float | None = None  # at the last point whose model was solved
        self.cost = 0.0  # seconds of the latest evaluation
        self.evaluated_at = (0, 0.0)  # iteration and seconds of the latest evaluation
        self.state: Any = None  # the method's
        self.stale = 0  # evaluations since the best objective last fell noticeably

    def carry_out(self, generator: torch.Generator, keep_start: bool) -> Result:
        """Run from the module's parameters and write the best ones into it."""
        problem = self.problem
        start = self.start = problem.theta()
        theta = problem.penalty.project(start)
        if not torch.equal(theta, start) and bool(torch.isfinite(start).all()):
            self._remark("The start point was outside the constraint and has been projected on it.")
        self.best_theta = theta.clone()
        self._begin(theta)
        try:
            self.state = self.method.init(problem, theta.clone(), generator)
            status = self._loop(self.state)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except NonFiniteError as error:
            sentence = str(error)
            self._remark(sentence[:1].upper() + sentence[1:])
            status = Status.NON_FINITE
        if math.isinf(self.best):  # ended before the first full evaluation
            latest = theta if self.state is None else self.method.candidates(self.state)[0]
            for point in (latest, theta):
                if math.isinf(self.best):
                    self._evaluate(point, Step())
        problem.assign(self.best_theta)
        return Result(
            status=status,
            objective=self.best,
            stationarity=self.stationarity,
            stationarity_rows=None if self.stationarity is None else problem.n_rows,
            seconds=self.budget.seconds,
            iterations=self.budget.iteration,
            history=self.history,
            theta=self.best_theta,
            start=self.start if keep_start else None,
            remarks=tuple(self.remarks),
        )

    def memory(self) -> dict[str, Any]:
        """All that changes while a run goes on, so that another can go on from it."""
        budget = self.budget
        used = {
            "iteration": budget.iteration, "seconds": budget.seconds, "reserve": budget.reserve,
        }  # fmt: skip
        return {"budget": used} | {name: getattr(self, name) for name in _REMEMBERED}

    def recall(self, memory: dict[str, Any]) -> None:
        """Stand where the run stood that had this memory."""
        for name in _REMEMBERED:
            setattr(self, name, memory[name])
        self.budget.go_on(**memory["budget"])

    def _begin(self, theta: Tensor) -> None:
        """Evaluate the start, or a part of it where a full pass would eat into the time budget."""
        limit = self.budget.max_seconds
        chunk = next(self.problem.chunks())
        with torch.no_grad():
            self.problem.losses(theta, chunk)  # the first call of a net takes much longer
            before = self.budget.seconds
            part = self.problem.losses(theta, chunk)
        expected = (self.budget.seconds - before) * self.problem.n_rows / len(part)
        finite = bool(torch.isfinite(part).all())
        if finite and limit is not None and expected > 0.5 * _EVALUATION_SHARE * limit:
            self._expect(expected)
        elif not finite or self._evaluate(theta, Step()) is Status.NON_FINITE:
            raise InvalidInputError(
                "the objective must be finite at the start point; got NaN or infinity."
                " Scale the data or start from smaller parameters."
            )

    def _loop(self, state: Any) -> Status:
        while (status := self.budget.exhausted()) is None:
            step = self.method.step(self.problem, state, self.budget)
            self.budget.iteration += 1
            for remark in step.remarks:
                self._remark(remark)
            if self.tol is not None and _at_most(step.stationarity, self.tol):
                self.stationarity = step.stationarity
                return Status.CONVERGED  # measured before the step: the point stays as it was
            if step.objective is not None:
                status = self._take(self.method.candidates(state)[0], step.objective, step)
            elif self._due():
                status = self._evaluate(self.method.candidates(state)[0], step)
            status = status or step.status
            if status is not None:
                break
        # A method with one candidate may have had it evaluated just now.
        known = self.history.records and self.evaluated_at[0] == self.budget.iteration
        if status in (Status.TIME, Status.ITERATIONS) and not (
            known and len(self.method.candidates(state)) == 1
        ):
            status = self._evaluate(self._choice(state), Step()) or status
        return status

    def _choice(self, state: Any) -> Tensor:
        """The best of the method's candidates by a sample of rows, the same for all of them."""
        candidates = self.method.candidates(state)
        if len(candidates) == 1:
            return candidates[0]
        rows = torch.linspace(0, self.problem.n_rows - 1, min(self.problem.n_rows, _SAMPLE)).long()
        return min(candidates, key=lambda theta: self.problem.objective(theta, rows))

    def _due(self) -> bool:
        """Whether the full objective is worth a look now: by time, or by steps without a clock."""
        iteration, seconds = self.evaluated_at
        if self.budget.max_seconds is not None:
            return self.budget.seconds - seconds >= self.cost / _EVALUATION_SHARE
        if self.budget.max_iter is not None:
            every = math.ceil(self.budget.max_iter / _EVALUATIONS)
            return self.budget.iteration - iteration >= every
        every = math.ceil(self.problem.n_rows / 64)
        return self.budget.iteration - iteration >= every

    def _evaluate(self, theta: Tensor, step: Step) -> Status | None:
        before = self.budget.seconds
        objective = self.problem.objective(theta)
        self._expect(self.budget.seconds - before)
        return self._take(theta, objective, step)

    def _expect(self, cost: float) -> None:
        """Keep time back for the last evaluation, which costs about as much as this one.

        Never most of the budget: a machine that was busy for a moment must not end the run.
        """
        self.cost = cost
        limit = self.budget.max_seconds
        self.budget.reserve = (
            1.2 * cost if limit is None else min(1.2 * cost, _MOST_RESERVE * limit)
        )

    def _take(self, theta: Tensor, objective: float, step: Step) -> Status | None:
        """Record an evaluated point, keep it if it is the best, tell the callbacks."""
        budget = self.budget
        self.evaluated_at = (budget.iteration, budget.seconds)
        if not math.isfinite(objective):
            return Status.NON_FINITE
        improved = objective < self.best
        self.stale = 0 if objective < self.best - _PROGRESS * abs(self.best) else self.stale + 1
        if step.stationarity is not None:
            self.stationarity = step.stationarity
        if improved:
            self.best, self.best_theta = objective, theta.clone()
        record = {
            "iteration": budget.iteration,
            "seconds": budget.seconds,
            "objective": objective,
            "best": self.best,
            **step.details,
        }
        if step.stationarity is not None:
            record["stationarity"] = step.stationarity
        self.history.add(record)
        told = Progress(
            budget.iteration, budget.seconds, objective, self.best, step.stationarity,
            budget.progress, theta,
        )  # fmt: skip
        # Every callback hears of the point, also when an earlier one asks to stop.
        asked = [callback(told) is True for callback in self.callbacks]
        if any(asked):
            return Status.STOPPED
        if not budget.bounded and self.stale >= _PATIENCE:
            return Status.NO_DECREASE
        return None

    def _remark(self, remark: str) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)
            _LOG.warning(remark)


def _at_most(measured: float | None, bound: float) -> bool:
    return measured is not None and measured <= bound
