"""The one loop: it owns budgets, evaluations, callbacks, non-finite values and interruption."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from torch import Tensor

from proxlin.errors import InvalidInputError, NonFiniteError
from proxlin.methods import Method, Step
from proxlin.methods.contract import Budget, Status
from proxlin.problem import Problem
from proxlin.problem.parallel import SharedInterrupt, check_same_point
from proxlin.problem.rows import evenly_spread
from proxlin.run.checkpoint import Keeper, Parts, check_objective, put_together, still_over
from proxlin.run.held_out import HeldOut
from proxlin.run.progress import Callback, Progress
from proxlin.run.result import History, Result

_LOG = logging.getLogger("proxlin")

_EVALUATION_SHARE = 0.1  # of a time budget goes into evaluating the full objective
_EVALUATIONS = 20  # of a budget of steps: evaluate after every twentieth of it
_SAMPLE = 2048  # rows that choose between the candidates at the end
_PATIENCE = 8  # evaluations without progress that end a run without a budget
_PROGRESS = 1e-3  # relative decrease of the best objective that counts as progress
_REMEMBERED = (
    "start", "best", "best_theta", "stationarity", "cost", "evaluated_at", "stale", "history",
    "remarks", "held_out", "state",
)  # fmt: skip


class Run:
    """One call of minimize: the best point, the history, and when to look and to stop."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        budget: Budget,
        tol: float | None,
        callbacks: tuple[Callback, ...],
        *,
        held_out: HeldOut | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.problem = problem
        self.method = method
        self.budget = budget
        self.tol = tol
        self.callbacks = callbacks
        self.held_out = held_out
        self.keeper = keeper
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
        self.start = problem.communicator.broadcast(problem.theta())
        theta = problem.penalty.project(self.start)
        self.best_theta = theta.clone()
        kept = None if self.keeper is None else self.keeper.newest()
        if kept is None:
            self._begin(theta)
        over: Status | None = None
        try:
            self.state = self.method.init(problem, theta.clone(), generator)
            over = None if kept is None else self._recall(kept)
            if self.keeper is not None:
                self.keeper.begin(self.budget.iteration, self._memory(None))
            status = over or self._loop(self.state)
        except KeyboardInterrupt as interrupt:
            if problem.communicator.size > 1 and not isinstance(interrupt, SharedInterrupt):
                raise  # on this process alone: the others are elsewhere, no sum can follow
            status = Status.INTERRUPTED
        except NonFiniteError as error:
            sentence = str(error)
            self._remark(sentence[:1].upper() + sentence[1:])
            status = Status.NON_FINITE
        if self.held_out is not None and over is None:
            self._settle(self.held_out, theta)
        if math.isinf(self.best):  # ended before the first full evaluation
            latest = theta if self.state is None else self.method.candidates(self.state)[0]
            for point in (latest, theta):
                if math.isinf(self.best):
                    self._evaluate(point, Step())
        problem.assign(self.best_theta)
        if status is not Status.INTERRUPTED and not over:
            self._keep(status)
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

    def _memory(self, status: Status | None) -> dict[str, Any]:
        """All that changes while a run goes on, and how it ended if it did."""
        budget = self.budget
        return {
            "used": [budget.iteration, budget.seconds, budget.reserve],
            "limits": [budget.max_iter, budget.max_seconds],
            "status": None if status is None else status.name,
            **{name: getattr(self, name) for name in _REMEMBERED},
        }

    def _recall(self, kept: Parts) -> Status | None:
        """Stand where the run stood that was kept; its status if it was over and still is."""
        memory = put_together(self._memory(None), kept, self.problem.device)
        for name in _REMEMBERED:
            setattr(self, name, memory[name])
        if math.isfinite(self.best):
            first = self.history.records[0]["objective"]
            check_objective(self.problem, self.best_theta, self.best, first)
        self.budget.go_on(*memory["used"])
        return still_over(memory, self.budget, self.tol)

    def _keep(self, status: Status | None = None) -> bool:
        """Keep the run where it is over, was asked to stop or is due; whether it has to stop."""
        keeper, step = self.keeper, self.budget.iteration
        if keeper is None:
            return False
        if keeper.asked_to_stop and status is None:
            status = Status.INTERRUPTED
        if status is not None or keeper.due(step):
            now = self._memory(status)
            for trouble in keeper.keep(step, now, wait=status is not None):
                self._remark(trouble)
        return status is not None

    def _begin(self, theta: Tensor) -> None:
        """Evaluate the start, or a part of it where a full pass would eat into the time budget."""
        start = self.start
        if not torch.equal(theta, start) and bool(torch.isfinite(start).all()):
            self._remark("The start point was outside the constraint and has been projected on it.")
        limit = self.budget.max_seconds
        chunk = next(self.problem.chunks(), self.problem.example)
        with torch.no_grad():
            self.problem.losses(theta, chunk)  # the first call of a net takes much longer
            self.budget.renew()
            before = self.budget.seconds
            part = self.problem.losses(theta, chunk)
        self.budget.renew()
        expected = (self.budget.seconds - before) * self.problem.shards.most / len(part)
        bad = float(not torch.isfinite(part).all())
        expected, bad = self.problem.communicator.largest([expected, bad])
        finite = not bad
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
            status = status or step.status or self._look_aside(self.method.candidates(state))
            if status is not None:
                break
            if self._keep():
                return Status.INTERRUPTED
        # A method with one candidate may have had it evaluated just now.
        known = self.history.records and self.evaluated_at[0] == self.budget.iteration
        if self.held_out is not None:
            self.held_out.look(self.method.candidates(state), self.budget.iteration)
        elif status in (Status.TIME, Status.ITERATIONS) and not (
            known and len(self.method.candidates(state)) == 1
        ):
            status = self._evaluate(self._choice(state), Step()) or status
        return status

    def _look_aside(self, candidates: list[Tensor]) -> Status | None:
        """Judge the points by the rows held out, if there are any and it is time."""
        judge, iteration = self.held_out, self.budget.iteration
        if judge is None or not judge.due(iteration):
            return None
        judge.look(candidates, iteration)
        return Status.HELD_OUT if judge.hopeless(iteration) else None

    def _settle(self, judge: HeldOut, start: Tensor) -> None:
        """Return the best point by the rows held out, whatever its objective."""
        theta = start if judge.theta is None else judge.theta
        self.best = math.inf
        self._evaluate(theta, Step())

    def _choice(self, state: Any) -> Tensor:
        """The best of the method's candidates by a sample of rows, the same for all of them."""
        candidates = self.method.candidates(state)
        if len(candidates) == 1:
            return candidates[0]
        rows = evenly_spread(self.problem.n_rows, _SAMPLE)
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
        self.budget.renew()
        before = self.budget.seconds
        objective = self.problem.objective(theta)
        self.budget.renew()
        self._expect(self.budget.seconds - before)
        return self._take(theta, objective, step)

    def _expect(self, cost: float) -> None:
        """Keep time back for the last evaluation, which costs about as much as this one."""
        self.cost = cost
        self.budget.hold_back(cost)

    def _take(self, theta: Tensor, objective: float, step: Step) -> Status | None:
        """Record an evaluated point, keep it if it is the best, tell the callbacks."""
        budget = self.budget
        check_same_point(self.problem.communicator, theta)
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
        if self.held_out is not None:
            record["held_out"] = self.held_out.latest
        self.history.add(record)
        told = Progress(
            budget.iteration, budget.seconds, objective, self.best, step.stationarity,
            budget.progress, theta,
        )  # fmt: skip
        # Every callback hears of the point, also when an earlier one asks to stop.
        asked = [callback(told) is True for callback in self.callbacks]
        if any(self.problem.communicator.largest([float(any(asked))])):
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
