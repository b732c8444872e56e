"""Probed: stochastic Gauss-Newton steps on the model's quadratic majoriser, curvature from probes.

On a batch with residual rows r_i and weights w_i the convex model is majorised by a quadratic with
the exact sub-gradient and the curvature C = (1/B) sum_i J_i^T diag(w_i) J_i. For random signs e the
vector v = J^T (sqrt(w) * e) / sqrt(B) has E[v v^T] = C and costs one backward pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from proxlin._checks import check_choice, check_count, check_positive, check_share
from proxlin.budget import Budget
from proxlin.curvature import Curvature, curvature_for
from proxlin.linearize import linearize
from proxlin.methods.base import Step
from proxlin.methods.sizes import fitting_batch_size
from proxlin.problem import Problem
from proxlin.rows import Batch, Shuffler

_FIRST_RADIUS, _LEAST_RADIUS, _MOST_RADIUS = 1e-7, 1e-9, 0.05
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-2, 1e-7, 1.0
_GOOD, _BAD = 0.25, 0.75  # error of the prediction, relative to it, that widens or narrows
_PREPARATION = 0.05  # share of the budget that goes into the first probes
_PARTS = 4  # of a batch, each with a probe of its own
_PENDING_NUMBERS = 2**24  # of probes that wait to be averaged
_CAUTIOUS = 50  # first steps, after each of which the prediction is looked at
_PROXIMAL_STEPS = 10  # ADMM steps for a term that the factor cannot hold


@dataclass
class ProbedState:
    """Memory of a probed run."""

    theta: Tensor  # (d,) present point, always in C
    batches: Shuffler
    generator: torch.Generator
    curvature: Curvature
    gradient: Tensor  # (d,) running average of the sub-gradients, shrunk by `gradient_weight`
    dual: Tensor  # (d,) scaled multiplier of the proximal step, kept from step to step
    average: Tensor | None  # (d,) running average of the latest points, where it keeps its zeros
    good: Tensor  # (d,) the point to return to after a bad stretch
    good_loss: float = math.inf  # average batch loss when `good` was kept
    gradient_weight: float = 0.0
    radius: float = _FIRST_RADIUS  # the step's quadratic form may be this share of the loss
    damping: float = _FIRST_DAMPING  # added to C, relative to the mean of its diagonal
    loss: float = math.nan  # running average of the batch losses
    pending: list[Tensor] = field(default_factory=list)  # probes not yet in the curvature
    probes: float = 0.0  # how many probes the curvature averages over
    split: float = 1.0  # penalty of the proximal step's ADMM
    steps: int = 0


@dataclass(frozen=True)
class _Move:
    step: Tensor  # (d,)
    form: float  # s^T (C + damping) s
    bound: bool  # whether the trust region shortened it


@dataclass(frozen=True, kw_only=True)
class Probed:
    """theta <- argmin over C of gradient . s + 1/(2 length) s^T (C + damping) s + g(theta + s).

    Nothing needs tuning: the trust region and the damping follow from how well the quadratic
    predicts the change of the batch loss, which is measured every few steps.
    """

    batch_size: int | None = None  # None: from the number of activations of one row
    length: float = 0.3  # of a step, in Newton steps; a cosine takes it to 0 over the budget
    momentum: float = 0.9
    curvature: str = "auto"  # "dense", "layered", or chosen by the number of parameters
    window: int = 300  # steps whose probes the curvature averages over in the long run
    floor: float = 1e-2  # |r| below this share of its mean counts as that
    renewal: int = 5  # steps from one factorisation, and one look at the prediction, to the next
    measures_stationarity: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            check_count("Probed(batch_size=...)", self.batch_size)
        check_positive("Probed(length=...)", self.length)
        check_share("Probed(momentum=...)", self.momentum)
        check_choice("Probed(curvature=...)", self.curvature, ("auto", "dense", "layered"))
        check_count("Probed(window=...)", self.window)
        check_positive("Probed(floor=...)", self.floor)
        check_count("Probed(renewal=...)", self.renewal)

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> ProbedState:
        """Begin at theta; the curvature is probed in the first step, which knows the budget."""
        size = self.batch_size or fitting_batch_size(problem)
        return ProbedState(
            theta=theta,
            batches=Shuffler(problem.n_rows, size, generator),
            generator=generator,
            curvature=curvature_for(problem, self.curvature),
            gradient=torch.zeros_like(theta),
            dual=torch.zeros_like(theta),
            # A mean of sparse points is not sparse, so with a non-smooth g there is none.
            average=theta.clone() if problem.penalty.rest.regularizer is None else None,
            good=theta.clone(),
        )

    def prepare(self, problem: Problem, state: ProbedState, budget: Budget) -> None:
        """Probe the curvature where the run begins, for a small share of the time at most."""
        for _ in range(math.ceil(self.window / 4)):
            self._look(problem, state, problem.rows.take(state.batches.next()))
            if budget.progress > _PREPARATION:
                break
        self._absorb(state)
        self._factor(problem, state)

    def step(self, problem: Problem, state: ProbedState, budget: Budget) -> Step:
        """One batch: its sub-gradient and one probe, then one damped Newton step."""
        if not state.probes:
            self.prepare(problem, state, budget)
        batch = problem.rows.take(state.batches.next())
        cautious = state.steps < _CAUTIOUS
        renewing = cautious or (state.steps + 1) % self.renewal == 0
        probing = renewing or not state.curvature.costly
        loss, gradient = self._look(problem, state, batch, probing=probing)
        if not self._healthy(state, loss):
            return Step()
        state.steps += 1
        if renewing:
            self._absorb(state)
            self._factor(problem, state)
        length = self.length * 0.5 * (1.0 + math.cos(math.pi * budget.progress))
        move = self._move(problem, state, length)
        before = state.theta
        state.theta = before + move.step
        if renewing:
            change = float(problem.losses(state.theta, batch).mean()) - loss
            if not self._trust(state, move, change, float(gradient @ move.step)):
                state.theta = before
        if state.average is not None:
            state.average.lerp_(state.theta, 1.0 / min(200.0, 1.0 + 0.1 * state.steps))
        return Step()

    def candidates(self, state: ProbedState) -> list[Tensor]:
        """The present point and the average of the latest ones."""
        return [state.theta] if state.average is None else [state.theta, state.average]

    def _look(
        self, problem: Problem, state: ProbedState, batch: Batch, *, probing: bool = True
    ) -> tuple[float, Tensor]:
        """Take the batch's loss and data sub-gradient into the averages, and keep its probes.

        Each part of the batch gives a probe of its own: as many backward passes over the batch as
        one probe of the whole would need, and several directions instead of one.
        """
        rows = batch[0].shape[0]
        size = math.ceil(rows / _PARTS) if probing else rows
        loss, gradient = 0.0, torch.zeros_like(state.theta)
        for first in range(0, rows, size):
            part = tuple(tensor[first : first + size] for tensor in batch)
            share = part[0].shape[0] / rows
            part_loss, part_gradient = self._differentiate(problem, state, part, probing=probing)
            loss += share * part_loss
            gradient.add_(part_gradient, alpha=share)
        if math.isfinite(loss):
            if len(state.pending) * state.theta.numel() > _PENDING_NUMBERS:
                self._absorb(state)
            rate = max(0.05, 1.0 / (state.steps + 1))
            state.loss = loss if math.isnan(state.loss) else state.loss + rate * (loss - state.loss)
            whole = gradient + problem.penalty.quadratic.to(gradient) * state.theta
            state.gradient.lerp_(whole, 1 - self.momentum)
            state.gradient_weight += (1 - self.momentum) * (1 - state.gradient_weight)
        return loss, gradient

    def _differentiate(
        self, problem: Problem, state: ProbedState, batch: Batch, *, probing: bool
    ) -> tuple[float, Tensor]:
        """Mean loss and its sub-gradient; a probe v with E[v v^T] = C joins the pending ones."""
        model = linearize(problem, state.theta, batch)
        losses, slopes = problem.loss.value_and_slope(model.residual)
        if probing:
            weights = problem.loss.curvature_weights(model.residual, self.floor)
            state.pending.append(model.probes(weights, 1, state.generator)[0])
        return float(losses.mean()), model.adjoint(slopes / len(losses))

    def _absorb(self, state: ProbedState) -> None:
        """Move the pending probes into the curvature; its memory grows with the steps taken."""
        if not state.pending:
            return
        count = len(state.pending)
        memory = self.window if not state.steps else max(50.0, min(self.window, state.steps / 4))
        state.probes = min(state.probes + count, max(_PARTS * memory, count))
        state.curvature.add(torch.stack(state.pending), count / state.probes)
        state.pending.clear()

    def _factor(self, problem: Problem, state: ProbedState) -> None:
        """Renew the factor; a term it cannot hold brings its ADMM penalty into it."""
        split = 0.0 if problem.penalty.is_quadratic else state.curvature.scale
        state.split = max(split, torch.finfo(state.theta.dtype).tiny)
        extra = problem.penalty.quadratic.to(state.theta.device) + split
        state.curvature.factor(state.damping, extra)

    def _move(self, problem: Problem, state: ProbedState, length: float) -> _Move:
        """The damped Newton step, shortened to the trust region."""
        mean = state.gradient / state.gradient_weight
        if problem.penalty.is_quadratic:
            step = -length * state.curvature.solve(mean)
            form = -length * float(mean @ step)  # s^T A s = length^2 m^T A^{-1} m
        else:
            step = self._proximal_step(problem, state, length * mean, length)
            form = self._form(problem, state, step)
        allowed = state.radius * state.loss
        if form <= allowed:
            return _Move(step, form, bound=False)
        # A point between two of C lies in C.
        return _Move(step * math.sqrt(allowed / form), allowed, bound=True)

    def _proximal_step(
        self, problem: Problem, state: ProbedState, slope: Tensor, length: float
    ) -> Tensor:
        """argmin_s slope . s + 1/2 s^T A s + length * rest(theta + s) by ADMM on the same factor.

        The last step is the proximal one, so that zeros and bounds hold exactly.
        """
        split, rest = state.split, problem.penalty.rest
        move = torch.zeros_like(slope)
        for _ in range(_PROXIMAL_STEPS):
            free = state.curvature.solve(split * (move - state.dual) - slope)
            target = state.theta + free + state.dual
            move = rest.prox(target, length / split) - state.theta
            state.dual = state.dual + free - move
        return move

    def _form(self, problem: Problem, state: ProbedState, move: Tensor) -> float:
        """s^T (C + damping + quadratic part of g) s."""
        ridge = problem.penalty.quadratic.to(move.device)
        shift = ridge + state.damping * state.curvature.scale
        return state.curvature.quadratic(move) + float((shift * move.double().square()).sum())

    def _trust(self, state: ProbedState, move: _Move, actual: float, slope: float) -> bool:
        """Adapt region and damping to how well the change was told; False takes the step back.

        A loss that fell far more than foreseen counts as badly told too: the quadratic does not
        hold there, and such leaps end in dead units.
        """
        predicted = slope + 0.5 * move.form
        scale = max(abs(predicted), 0.5 * move.form)
        if scale < 1e-5 * abs(state.loss):
            return True  # below the rounding of the losses
        error = abs(actual - predicted) / scale
        if error > _BAD:
            used = min(state.radius, move.form / state.loss)
            state.radius = max(used / 2, _LEAST_RADIUS)
            state.damping = min(state.damping * 1.5, _MOST_DAMPING)
            return actual <= 0
        if error < _GOOD and move.bound:
            state.radius = min(state.radius * 1.5, _MOST_RADIUS)
        elif error < _GOOD:
            state.damping = max(state.damping / 1.3, _LEAST_DAMPING)
        return True

    def _healthy(self, state: ProbedState, loss: float) -> bool:
        """Keep a good point now and then; go back to it when the loss has run away."""
        if not math.isfinite(loss) or state.loss > 3 * state.good_loss:
            state.theta = state.good.clone()
            state.gradient.zero_()
            state.gradient_weight = 0.0
            state.loss = state.good_loss if math.isfinite(state.good_loss) else math.nan
            state.radius = max(state.radius / 4, _LEAST_RADIUS)
            state.damping = min(state.damping * 4, _MOST_DAMPING)
            state.pending.clear()
            return False
        if state.steps % 50 == 0 and state.loss < state.good_loss:
            state.good, state.good_loss = state.theta.clone(), state.loss
        return True
