"""Probed: stochastic Gauss-Newton steps on the model's quadratic majoriser, curvature from probes.

On a batch with residual rows r_i and weights w_i the convex model is majorised by a quadratic with
the exact sub-gradient and the curvature C = (1/B) sum_i J_i^T diag(w_i) J_i. For random signs e the
vector v = J^T (sqrt(w) * e) / sqrt(B) has E[v v^T] = C and costs one backward pass. Large nets take
steps that ask nothing of C.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from proxlin._checks import (
    check_choice,
    check_count,
    check_interval,
    check_positive,
    check_share,
)
from proxlin.linearize import has_products
from proxlin.methods.contract import Budget, Step, settings_by_name
from proxlin.methods.curvature import DenseCurvature, curvature_for
from proxlin.methods.probed.batch_probe import BatchProbe, probe_batch
from proxlin.methods.probed.batch_size import fitting_batch_size, gradient_noise
from proxlin.methods.probed.collapse import RESTARTED
from proxlin.methods.probed.curvature_move import averaged_move, whole_data_move
from proxlin.methods.probed.normed_step import take_normed_step
from proxlin.methods.probed.state import LOSS_RATE, ProbedState
from proxlin.methods.probed.trial import new_trial
from proxlin.methods.probed.trust_region import TrustRegion, exact_region
from proxlin.problem import Problem
from proxlin.problem.rows import Shuffler
from proxlin.problem.shards import LocalBatch
from proxlin.problem.target_units import target_units
from proxlin.terms.layout import Layout

_PREPARATION = 8  # batches that give the first probes
_PREPARATION_SHARE = 0.02  # of the budget that they may take
_PENDING_NUMBERS = 2**24  # of probes that wait to be averaged
_EPSILON = sys.float_info.epsilon
_RARELY = 4  # renewals of a costly curvature are that much rarer
_SHORTER = 0.3  # times the rate of careful steps, where others have ended at a constant output
_ASTRAY = 3.0  # times the last good loss: the run has gone wrong
_NEARLY_ALL = 0.9  # of the parameters


@settings_by_name
@dataclass(frozen=True, kw_only=True)
class Probed:
    """theta <- argmin over C of gradient . s + 1/(2 length) s^T (C + damping) s + g(theta + s).

    Nothing needs tuning: the trust region and the damping follow from how well the quadratic
    predicts the change of the batch loss, which is measured every few steps. Where all rows fit
    into one batch, g is smooth and C at most a box, conjugate gradients on that batch's own
    curvature make each step a Newton step.
    """

    batch_size: int | None = None  # None: from the activations of a row and the slopes' noise
    length: float = 0.3  # of a step, in Newton steps; a cosine takes it to 0 over the budget
    momentum: float = 0.9
    steps: str = "auto"  # "curvature", or normed ones in nets beyond 1,500 parameters
    curvature: str = "auto"  # "dense", "layered", or chosen by the number of parameters
    window: int = 300  # steps whose probes the curvature averages over in the long run
    floor: float = 1e-2  # |r| below this part of its scale is rounded off; it falls with the budget
    renewal: int = 5  # steps from one factorisation, and one check of the prediction, to the next
    restarts: int = 3  # at most, from the start point, where the output became a constant
    measures_stationarity: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            check_count("Probed(batch_size=...)", self.batch_size)
        check_interval("Probed(length=...)", self.length, 1e-6, 100)
        check_share("Probed(momentum=...)", self.momentum)
        check_choice("Probed(steps=...)", self.steps, ("auto", "curvature"))
        check_choice("Probed(curvature=...)", self.curvature, ("auto", "dense", "layered"))
        check_count("Probed(window=...)", self.window)
        check_positive("Probed(floor=...)", self.floor)
        check_count("Probed(renewal=...)", self.renewal)
        check_count("Probed(restarts=...)", self.restarts, minimum=0)

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> ProbedState:
        """Begin at theta; the curvature is probed in the first step, which knows the budget."""
        found = target_units(problem, theta)
        if found is None:
            return self._begin(problem, theta, generator)
        units, start = found
        state = self._begin(units.inside(problem), start, generator)
        state.units = units
        return state

    def _begin(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> ProbedState:
        curvature = curvature_for(problem, self.curvature)
        size = self.batch_size or fitting_batch_size(problem)
        fixed = self.batch_size is not None or size >= problem.n_rows
        size = min(size, problem.n_rows)
        exact = problem.penalty.is_quadratic or problem.penalty.box is not None
        whole = exact and size == problem.n_rows and not (problem.noisy or problem.streamed)
        whole = whole and has_products(problem, theta, problem.example)
        # A dense matrix misses nothing of the curvature, averaged blocks little of that of a nearly
        # linear model, and normed steps know smooth terms only.
        known = isinstance(curvature, DenseCurvature) or _nearly_linear(problem.layout)
        settled = known or not problem.penalty.is_quadratic
        return ProbedState(
            theta=theta,
            batches=Shuffler(problem.n_rows, size, generator),
            batch_size=size,
            noise=None if fixed else gradient_noise(size, problem.n_rows, curvature),
            whole=whole,
            region=exact_region() if whole else TrustRegion(),
            generator=generator,
            curvature=curvature,
            gradient=torch.zeros_like(theta),
            dual=torch.zeros_like(theta),
            # A mean of sparse points is not sparse, so with a non-smooth g there is none.
            average=theta.clone() if problem.penalty.rest.regularizer is None else None,
            good=theta.clone(),
            start=theta.clone(),
            trial=None if settled or self.steps == "curvature" else new_trial(theta, whole),
        )

    def prepare(self, problem: Problem, state: ProbedState, budget: Budget) -> None:
        """Probe the curvature where the run begins, for a small share of the time at most."""
        began = budget.progress
        for _ in range(_PREPARATION):
            self._probe(problem, state, self._next_batch(problem, state))
            budget.renew()
            if budget.progress - began > _PREPARATION_SHARE:
                break
        self._absorb(state)
        self._factor(problem, state)

    def step(self, problem: Problem, state: ProbedState, budget: Budget) -> Step:
        """One batch: a step, or one that finds out how long the steps of this net may be."""
        problem = problem if state.units is None else state.units.inside(problem)
        with problem.dropping(state.generator):
            if state.trying:
                self._try(problem, state, budget)
                return Step(tentative=True)
            self._advance(problem, state, budget)
        steps = state.steps if state.normed is None else state.normed.steps
        if state.restarts < self.restarts and state.watch.collapsed(problem, state.theta, steps):
            self._restart(problem, state)
            return Step(remarks=(RESTARTED,), tentative=True)
        return Step()

    def _try(self, problem: Problem, state: ProbedState, budget: Budget) -> None:
        """A step of the length whose turn it is, or one of the batches that compare them."""
        trial = state.trial
        assert trial is not None
        if trial.comparing:
            batch = self._next_batch(problem, state)
            losses = problem.losses(trial.start, batch.tensors)
            ends = [entrant.theta for entrant in trial.players]
            trial.compare([problem.mean_change(trial.start, end, batch, losses) for end in ends])
            if trial.decided:
                state.go_on_from(trial.decide())
            return
        trial.begin_step(budget)
        self._advance(problem, state, budget)
        if not trial.over and trial.turn_is_over(budget, state.loss):
            trial.end_turn(state.theta, budget)
            state.go_on_from(trial.start)

    def _restart(self, problem: Problem, state: ProbedState) -> None:
        """Begin anew from the start point with other batches, after a trial with careful steps."""
        fresh = self._begin(problem, state.start, state.generator)
        fresh.units = state.units
        fresh.restarts, fresh.normed_rows = state.restarts + 1, state.normed_rows
        if fresh.trial is not None:
            # These may stay near a constant output for long before they leave it: no look again.
            fresh.trial.go_carefully(_SHORTER)
            fresh.restarts = self.restarts
        for name in (item.name for item in fields(state)):
            setattr(state, name, getattr(fresh, name))

    def _advance(self, problem: Problem, state: ProbedState, budget: Budget) -> None:
        if state.normed is not None:
            take_normed_step(problem, state, state.normed, budget, self.batch_size)
        else:
            self._take_curvature_step(problem, state, budget)

    def _take_curvature_step(self, problem: Problem, state: ProbedState, budget: Budget) -> None:
        """Probe one batch, then take one damped Newton step within the trust region."""
        state.floor = self._floor(budget, state.whole)
        if not state.probes:
            self.prepare(problem, state, budget)
        measuring = state.cautious or (state.steps + 1) % self.renewal == 0
        costly = state.curvature.costly and not state.whole
        # Where averaging costs more than a step, it is done every fifth step first, then rarely.
        rarely = self.renewal * (1 if state.cautious else _RARELY)
        renewing = (state.steps + 1) % rarely == 0 if costly else measuring
        probing = renewing or not (costly or (state.layered and state.steps % 2))
        batch = self._next_batch(problem, state)
        probe = self._probe(problem, state, batch, probing=probing)
        if state.astray(probe.mean_loss, _ASTRAY):
            state.go_back()
            return
        state.keep_good(state.steps)
        state.steps += 1
        if renewing:
            self._absorb(state)
            self._factor(problem, state)
        before = state.theta
        if state.whole:
            state.loss = probe.typical_loss + float(problem.penalty.value(before))
            move, form = whole_data_move(problem, state, probe)
        else:
            length = self.length * 0.5 * (1.0 + math.cos(math.pi * budget.progress))
            move, form = averaged_move(problem, state, length)
            if renewing and length > 0 and not state.cautious:
                self._resize(state, probe, form / length**2)
        move, form = state.region.shortened(move, form, state.loss)
        state.theta = before + move
        if problem.penalty.box is not None:  # the sum of a point and a move may be off by a bit
            state.theta = problem.penalty.project(state.theta)
        if measuring:
            held = self._prediction_held(problem, state, probe, before=before, move=move, form=form)
            state.theta = state.theta if held else before
        state.average_in(state.steps)

    def _prediction_held(
        self,
        problem: Problem,
        state: ProbedState,
        probe: BatchProbe,
        *,
        before: Tensor,
        move: Tensor,
        form: float,
    ) -> bool:
        """Adapt the trust region to the change on the batch; False says to take the step back."""
        # Damping is no curvature of the loss: its share of the form predicts nothing. That of
        # averaged steps is as old as their factor, and taking it out there gained nothing.
        damped = state.damping * float(move @ move) if state.whole else 0.0
        predicted = float(probe.gradient @ move) + 0.5 * (form - damped)
        ridge = problem.penalty.quadratic.to(move) * (before + 0.5 * move)
        actual = problem.mean_change(before, state.theta, probe.batch, probe.losses)
        actual += float(ridge @ move)
        rounding = 0.0 if problem.affine_in_output else _EPSILON * probe.mean_loss
        return state.region.judge(predicted, actual, form, state.loss, rounding)

    def candidates(self, state: ProbedState) -> list[Tensor]:
        """The present point and the average of the latest ones."""
        points = [state.theta] if state.average is None else [state.theta, state.average]
        return points if state.units is None else list(map(state.units.outside, points))

    def _floor(self, budget: Budget, whole: bool) -> float:
        """Round off kinks generously first and little at the end, by more where steps are exact."""
        decades, progress = (2.0 if whole else 1.0), (budget.progress if budget.bounded else 0.5)
        return float(self.floor * 10 ** (decades * (0.5 - progress)))

    def _probe(
        self, problem: Problem, state: ProbedState, batch: LocalBatch, *, probing: bool = True
    ) -> BatchProbe:
        """Take the batch's loss and sub-gradient into the averages, and keep its probes."""
        whole = state.whole or problem.undivided or not probing
        probe = probe_batch(
            problem, state.theta, batch, state.floor, state.generator,
            parts=1 if whole else state.parts,
            probes_a_part=0 if not probing else state.parts if whole else 1,
        )  # fmt: skip
        state.pending += probe.probes
        if math.isfinite(probe.mean_loss):
            if len(state.pending) * state.theta.numel() > _PENDING_NUMBERS:
                self._absorb(state)
            penalty = float(problem.penalty.value(state.theta))
            state.track(probe.typical_loss + penalty, max(LOSS_RATE, 1.0 / (state.steps + 1)))
            state.gradient.lerp_(probe.gradient, 1 - self.momentum)
            state.gradient_weight += (1 - self.momentum) * (1 - state.gradient_weight)
        return probe

    def _absorb(self, state: ProbedState) -> None:
        """Move the pending probes into the curvature; its memory grows with the steps taken."""
        if not state.pending:
            return
        count = len(state.pending)
        memory = self.window if not state.steps else max(50.0, min(self.window, state.steps / 4))
        state.probes = min(state.probes + count, max(state.parts * memory, count))
        state.curvature.add(torch.stack(state.pending), count / state.probes)
        state.pending.clear()

    def _factor(self, problem: Problem, state: ProbedState) -> None:
        """Renew the factor; a term it cannot hold brings its ADMM penalty into it."""
        without = state.whole or problem.penalty.is_quadratic
        split = 0.0 if without else state.curvature.scale
        state.split = max(split, torch.finfo(state.theta.dtype).tiny)
        extra = problem.penalty.quadratic.to(state.theta.device) + split
        state.curvature.factor(state.region.damping, extra)

    def _resize(self, state: ProbedState, probe: BatchProbe, signal: float) -> None:
        """Fit the batch size to the noise of the slopes, where it is free."""
        error = probe.gradient_error
        if state.noise is not None and error is not None:
            noise = float(error @ state.curvature.solve(error))
            state.batch_size = state.noise.batch_size(state.batch_size, noise, signal)

    def _next_batch(self, problem: Problem, state: ProbedState) -> LocalBatch:
        """All rows as they lie where they are one batch, else the next of this round."""
        whole = slice(0, problem.n_rows)
        return problem.take(whole if state.whole else state.batches.next(state.batch_size))


def _nearly_linear(layout: Layout) -> bool:
    """Whether the last matrix holds nearly all parameters: what comes before it hardly bends."""
    sizes = [math.prod(shape) for shape in layout.shapes if len(shape) > 1]
    return bool(sizes) and sizes[-1] > _NEARLY_ALL * layout.size
