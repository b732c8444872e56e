"""One run of a method on a problem: when to evaluate, and what is best."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from proxlin.errors import CheckpointError, InvalidInputError, ProxlinError
from proxlin.methods import Method, Step
from proxlin.methods.contract import Budget, Status
from proxlin.problem import Problem
from proxlin.problem.parallel import check_same_point
from proxlin.problem.rows import evenly_spread
from proxlin.run.checkpoint import CheckpointWriter
from proxlin.run.held_out import HeldOut
from proxlin.run.kept_run import KeptRun
from proxlin.run.result import Callback, Certificate, Result

_EVALUATION_SHARE = 0.05  # of a time budget goes into evaluating the objective
_DEAR = 0.1  # share of a time budget that one pass over all rows may cost, else it is on a sample
_SAMPLE_SHARE = 0.01  # of a time budget for a pass over that sample, unless it has too few rows
_EVALUATIONS = 20  # of a budget of steps: evaluate after every twentieth of it
_SAMPLE = 2048  # rows that choose between the candidates at the end, the least of a sample
_PATIENCE = 8  # evaluations without progress that end a run without a budget
GRADIENT = "a gradient of the loss"
_PROGRESS = 1e-3  # relative decrease of the best objective that counts as progress
# What a step raises whose memory does not fit it.
_MISFITS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class MethodRun(KeptRun):
    """One call of minimize: the best point, and when to evaluate and to stop."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        budget: Budget,
        tol: float | None,
        callbacks: tuple[Callback, ...],
        *,
        held_out: HeldOut | None = None,
        writer: CheckpointWriter | None = None,
        sampled: bool = True,
    ) -> None:
        super().__init__(problem, budget, callbacks, held_out, writer)
        self.method = method
        self.tol = tol
        # Whether a sample of rows may stand for all. Steps that solve models measure on all.
        self.may_sample = sampled and not method.measures_stationarity
        self.reweighted: tuple[float, Problem] | None = None  # a limit, the problem with it

    def carry_out(self, generator: torch.Generator, keep_start: bool) -> Result:
        """Run from the module's parameters and write the best ones into it."""
        problem = self.problem
        self.start = problem.communicator.broadcast(problem.theta())
        theta = problem.penalty.project(self.start)
        self.best_theta = theta.clone()
        kept = None if self.writer is None else self.writer.newest()
        if kept is None:
            self._begin(theta)
        over: Status | None = None  # why the kept run was over before
        resumed_at = math.inf  # steps before this call; infinite: none is taken yet

        def work() -> Status:
            nonlocal over, resumed_at
            self.state = self.method.init(problem, theta.clone(), generator)
            if kept is None and self.held_out is not None:
                # The method may begin elsewhere, in units of its own.
                self.held_out.look([*self.method.candidates(self.state), theta], 0)
            over = None if kept is None else self.recall(kept, self.tol)
            if self.writer is not None:
                self.writer.begin(self.budget.iteration, self.memory(None))
            resumed_at = self.budget.iteration
            try:
                return over or self._take_steps()
            except ProxlinError:
                raise
            except _MISFITS as cause:
                if kept is None or self.budget.iteration > resumed_at:
                    raise
                raise CheckpointError(
                    f"the step after the checkpoint failed ({type(cause).__name__}: {cause}): its"
                    " content does not fit this run. Choose another checkpoint folder."
                ) from cause

        try:
            status = self.guarded(work)
            if self.held_out is not None and not over:
                status = self._return_best_held_out(self.held_out, theta, status)
            if math.isinf(self.best):  # ended before the first full evaluation
                latest = theta if self.state is None else self.method.candidates(self.state)[0]
                for point in (latest, theta):
                    if math.isinf(self.best):
                        self._evaluate(point, Step())
        except BaseException as cause:
            if self.budget.iteration > resumed_at:
                self._leave_best(cause)
            raise
        if over:
            self.remark(
                "The run in the checkpoint folder was over; its result was read from there."
            )
        problem.assign(self.best_theta)
        if status is not Status.INTERRUPTED and not over:
            self.keep(status)
        return Result(
            status=status,
            objective=self.best,
            certificate=self._certificate(),
            seconds=self.budget.seconds,
            iterations=self.budget.iteration,
            history=self.history,
            theta=self.best_theta,
            start=self.start if keep_start else None,
            remarks=tuple(self.remarks),
        )

    def _leave_best(self, cause: BaseException) -> None:
        """Write the best point so far into the module, where an error ends the run."""
        theta = None if self.held_out is None else self.held_out.theta
        if theta is None:
            known = math.isfinite(self.best)
            theta = self.best_theta if known else self.method.candidates(self.state)[0]
        if bool(torch.isfinite(theta).all()):
            self.problem.assign(theta)
            steps = self.budget.iteration
            cause.add_note(f"proxlin: the module holds the best parameters of {steps} steps.")

    def _begin(self, theta: Tensor) -> None:
        """Evaluate the start, or a part of it where a full pass would eat into the time budget."""
        start = self.start
        if not torch.equal(theta, start) and bool(torch.isfinite(start).all()):
            self.remark("The start point was outside the constraint and has been projected on it.")
        if self.problem.streamed:
            rows = self.problem.n_rows
            self.remark(f"The data are a stream: the objective is that of its first {rows:,} rows.")
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
        expected, bad = self.communicator.largest([expected, bad])
        finite = not bad
        if limit is not None and self.may_sample:
            expected *= self._sampled(expected, limit)
        if finite and limit is not None and expected > 0.5 * _EVALUATION_SHARE * limit:
            self._expect(expected)
        elif not finite or self._evaluate(theta, Step()) is Status.NON_FINITE:
            raise InvalidInputError(
                "the objective must be finite at the start point; got NaN or infinity."
                " Scale the data or start from smaller parameters."
            )

    def _sampled(self, cost: float, limit: float) -> float:
        """The share of the rows that the objective is measured on, where all cost too much."""
        rows = self.problem.n_rows
        if cost > _DEAR * limit and rows > _SAMPLE:
            self.evaluated_rows = max(_SAMPLE, int(rows * _SAMPLE_SHARE * limit / cost))
            self.remark(
                f"The objective is that of {self.evaluated_rows:,} rows, evenly spread over all"
                f" {rows:,}, which would take more than a tenth of the time."
            )
        return self.evaluated_rows / rows

    def _take_steps(self) -> Status:
        status = self.run(self._advance)
        if status in (Status.CONVERGED, Status.INTERRUPTED):
            return status
        candidates = self.method.candidates(self.state)
        # A method with one candidate may have had it evaluated just now.
        evaluated = self.history.records and self.evaluated_at[0] == self.budget.iteration
        if self.held_out is not None:
            self.held_out.look(candidates, self.budget.iteration)
        elif status in (Status.TIME, Status.ITERATIONS) and not (
            evaluated and len(candidates) == 1
        ):
            status = self._evaluate(self._choice(candidates), Step()) or status
        return status

    def _advance(self) -> Status | None:
        """One step of the method, and all that may follow from it."""
        state, status = self.state, None
        before = None if self.tol is None else self.method.candidates(state)[0].clone()
        step = self.method.step(self._seen(), state, self.budget)
        self.budget.iteration += 1
        for remark in step.remarks:
            self.remark(remark)
        if step.stationarity is not None:  # of the point before the step
            self.stationarity, self.steps_since = step.stationarity, 0
            self.stationarity_rows = step.stationarity_rows or self.problem.n_rows
            if before is not None and self.tol and step.stationarity <= self.tol:
                return self._go_back(before) or Status.CONVERGED
        if step.objective is not None and self.evaluated_rows == self.problem.n_rows:
            status = self._take(self.method.candidates(state)[0], step.objective, step)
        elif step.objective is not None or self._due():  # that of all rows is not that of a sample
            status = self._evaluate(self.method.candidates(state)[0], step)
        if self.held_out is not None and step.tentative:
            self.held_out.settled_at = self.budget.iteration
        status = status or step.status or self._check_held_out()
        if status is None and self.keep():
            return Status.INTERRUPTED
        return status

    def _seen(self) -> Problem:
        """What a step sees: the problem, or that whose far rows have lost their weight."""
        judge = self.held_out
        if judge is None or not judge.reweight:
            return self.problem
        if math.isinf(judge.limit):
            return self.problem
        if self.reweighted is None or self.reweighted[0] != judge.limit:
            self.reweighted = judge.limit, self.problem.redescending(judge.limit)
        return self.reweighted[1]

    def _go_back(self, theta: Tensor) -> Status | None:
        """Make a point the one to return: the one whose stationarity was measured."""
        status = None
        if math.isinf(self.best) or not torch.equal(theta, self.best_theta):
            self.best = math.inf
            status = self._evaluate(theta, Step())
        self.steps_since = 0
        return status

    def _check_held_out(self) -> Status | None:
        """Judge the points by the rows held out, if there are any and it is time."""
        judge, iteration = self.held_out, self.budget.iteration
        if judge is None or not judge.due(iteration):
            return None
        judge.look(self.method.candidates(self.state), iteration)
        return Status.HELD_OUT if judge.stalled(iteration) else None

    def _return_best_held_out(self, judge: HeldOut, start: Tensor, status: Status) -> Status:
        """Go to the best point by the rows held out, whatever its objective."""
        theta = start if judge.theta is None else judge.theta
        if not torch.equal(theta, self.best_theta):
            self.stationarity = None  # of another point
            status = Status.HELD_OUT if status is Status.CONVERGED else status
        self.best = math.inf
        self._evaluate(theta, Step())
        return status

    def _choice(self, candidates: list[Tensor]) -> Tensor:
        """The best of the method's candidates by a sample of rows, the same for all of them."""
        if len(candidates) == 1:
            return candidates[0]
        rows = evenly_spread(self.problem.n_rows, _SAMPLE)
        return min(candidates, key=lambda theta: self.problem.objective(theta, rows))

    def _due(self) -> bool:
        """Whether the objective is worth a look now: by time, or by steps without a clock."""
        iteration, seconds = self.evaluated_at
        if self.budget.max_seconds is not None:
            return self.budget.seconds - seconds >= self.cost / _EVALUATION_SHARE
        if self.budget.max_iter is not None:
            every = math.ceil(self.budget.max_iter / _EVALUATIONS)
        else:
            every = math.ceil(self.problem.n_rows / 64)
        return self.budget.iteration - iteration >= every

    def _evaluate(self, theta: Tensor, step: Step) -> Status | None:
        self.budget.renew()
        before = self.budget.seconds
        objective = self.measured(theta)
        self.budget.renew()
        self._expect(self.budget.seconds - before)
        return self._take(theta, objective, step)

    def _expect(self, cost: float) -> None:
        """Keep time back for the last evaluation, which costs about as much as this one."""
        self.cost = cost
        self.budget.hold_back(cost)

    def _take(self, theta: Tensor, objective: float, step: Step) -> Status | None:
        """Report an evaluated point, and keep it if it is the best."""
        check_same_point(self.communicator, theta)
        self.evaluated_at = (self.budget.iteration, self.budget.seconds)
        if not math.isfinite(objective):
            return Status.NON_FINITE
        self.stale = 0 if objective < self.best - _PROGRESS * abs(self.best) else self.stale + 1
        if objective < self.best:
            self.best_theta = theta.clone()
            self.steps_since += 1
        details = dict(step.details)
        if step.stationarity is not None:
            details["stationarity"] = step.stationarity
        if self.held_out is not None:
            details["held_out"] = self.held_out.latest
        certificate = None if step.stationarity is None else self._certificate()
        stopped = self.report(objective, theta.clone, certificate=certificate, details=details)
        if stopped is None and not self.budget.bounded and self.stale >= _PATIENCE:
            return Status.NO_DECREASE
        return stopped

    def _certificate(self) -> Certificate | None:
        if self.stationarity is None:
            return None
        return Certificate(
            "stationarity", self.stationarity, GRADIENT, self.stationarity_rows, self.steps_since
        )
