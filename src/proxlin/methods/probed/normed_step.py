"""A normed step on one batch: its slope, the rate of the schedule, and the point they lead to.

The slope is that of the norm with its kinks rounded off, widely at first and ever less. Signs of
residuals alone draw every output to the median of its targets, which is the same for all rows where
most targets are alike (labels as zeros and ones, dark pixels), and there learning ends; a loss that
is round in the middle still tells those rows apart. A row never pulls harder than by the norm.

A move has its length whether slopes agree or not, so noise takes weights far away, where units are
saturated and moves of that length change little. A pull back to the start holds against it, weaker
as the run goes on and with what has been learnt, which needs the weights where they are. Held so,
steps can stay long for longer. Only outputs that are compared with targets tell how much has been
learnt; with derivatives inside the residual a net needs weights that a pull would not let grow.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from proxlin.linearize import Linearization, linearize_local
from proxlin.methods.contract import Budget
from proxlin.methods.probed.collapse import outputs_and_targets, spread
from proxlin.methods.probed.normed import NormedMemory
from proxlin.methods.probed.normed_rows import applied_rows, settle_rows
from proxlin.methods.probed.state import LOSS_RATE, ProbedState
from proxlin.problem import Problem
from proxlin.problem.scales import clipped_mean, scales_of
from proxlin.problem.shards import LocalBatch

_ASTRAY = 10.0  # times the last good loss: the run has gone wrong
_WIDEST, _DECADES = 10.0, 4.0  # rounding in typical residuals: at first, and how far it falls
_DECADES_OF_P = 10.0  # how far it falls from p = 1 to p = 2
_LONGER = 1.0  # share by which steps may be longer when everything is learnt
_PULL = 0.6  # back to the start, of the way gone, in a first step of rate 1
_TABLES = nn.Embedding, nn.EmbeddingBag
_SIZED = 10  # steps between two looks at that size


def take_normed_step(
    problem: Problem,
    state: ProbedState,
    memory: NormedMemory,
    budget: Budget,
    batch_size: int | None,
) -> None:
    """One batch, one step; where the loss has run away, go on from the last good point instead."""
    assert state.trial is not None
    settle_rows(problem, state, memory, budget, batch_size)
    batch = problem.take(state.batches.next(state.normed_rows))
    if not memory.rows:
        memory.rows = applied_rows(problem, state.theta, batch)
    model = linearize_local(problem, state.theta, batch)
    losses = problem.loss(model.residual)
    if memory.steps % _SIZED == 0:
        (scales,) = scales_of([batch], [model.residual], [losses], clip=problem.loss.bounded_slope)
        state.residual_size = float(scales.size)
        state.first_size = state.first_size or _untrained_size(problem, state)
    rounding = rounding_width(problem, state, budget)
    mean_loss, typical_loss, slope = batch_slope(problem, model, batch, losses, rounding)
    if math.isfinite(mean_loss):
        state.track(typical_loss, LOSS_RATE)
    if state.astray(mean_loss, _ASTRAY):
        state.go_back()
        memory.begin(state.theta)
        memory.rate /= 3
        return
    if state.trial.led_nowhere(state.loss):
        state.go_on_from(state.trial.go_back())
        return
    state.keep_good(memory.steps)
    progress = budget.progress
    length, pull = 1.0 - progress, 0.0
    if state.trial.over and problem.output_sign:
        left = _size_left(state)
        pull = _PULL * length * left * left
        length = min(1.0, length * (1.0 + _LONGER * (1.0 - left)))
    rate = memory.rate * length * state.trial.length(budget)
    move = memory.direction(slope, problem.layout, progress)
    before, state.theta = state.theta, state.theta.add(move, alpha=rate)
    if pull:
        for part in _held(problem):
            state.theta[part].add_(state.start[part] - before[part], alpha=rate * pull)
    state.average_in(memory.steps)


def _untrained_size(problem: Problem, state: ProbedState) -> float:
    """The typical residual of a net that has learnt nothing: the present one or, if that is less,
    that of the best constant output.

    Signs of residuals soon draw outputs to a constant, and the residuals become smaller by it.
    """
    known = problem.output_sign
    target = spread(outputs_and_targets(problem, state.theta)[1]) if known else 0.0
    return min(state.residual_size, target or math.inf)


def _size_left(state: ProbedState) -> float:
    """Of the typical residual of an untrained net, what is left, at most 1."""
    return min(1.0, state.residual_size / state.first_size) if state.first_size else 1.0


def _held(problem: Problem) -> list[slice]:
    """Where the matrices lie that are held near the start.

    Tables of embeddings are not: what an entry stands for is learnt from the few rows that have it.
    """
    if "held" not in problem.cache:
        layout, modules = problem.layout, problem.network.named_modules()
        tables = {f"{name}.weight" for name, part in modules if isinstance(part, _TABLES)}
        problem.cache["held"] = [
            layout.slice(name)
            for name in layout.names
            if len(layout.shape(name)) > 1 and name not in tables
        ]
    held: list[slice] = problem.cache["held"]
    return held


def rounding_width(problem: Problem, state: ProbedState, budget: Budget) -> float:
    """Below which |r| the kinks are round: ten typical residuals at first, and ever less.

    It falls with the budget, and faster than the residuals: a net that learns does not need it, and
    wrong rows, whose pull is not rounded, would count for more than others. Beyond p = 1 it falls
    with p as well: there the slope of an entry goes to 0 with it, which is no kink.
    """
    if not state.first_size:
        return 0.0
    progress = budget.progress if budget.bounded else 0.5
    left = _size_left(state)
    exponent = problem.loss.p
    beyond = exponent - 1.0 if isinstance(exponent, float) else 0.0
    decades = _DECADES * progress + _DECADES_OF_P * beyond
    return _WIDEST * math.pow(10.0, -decades) * left * state.residual_size


def batch_slope(
    problem: Problem, model: Linearization, batch: LocalBatch, losses: Tensor, rounding: float
) -> tuple[float, float, Tensor]:
    """Mean loss, typical loss and slope of a batch, of which `model` and `losses` are our rows.

    The slope is that of the loss with its kinks rounded off below |r| = `rounding`.
    """
    gradient = problem.penalty.quadratic.to(model.anchor) * model.anchor
    if not batch.communicator.leads:
        gradient.zero_()  # what belongs to no row counts once
    slopes = problem.loss.quadratic(model.residual, model.residual.new_tensor(rounding))[0]
    gradient += model.adjoint(slopes / batch.n_rows)
    # All rows of the batch, before any is clipped: one process may hold mostly wrong ones.
    losses, gradient = batch.communicator.sum_together([batch.spread(losses), gradient])
    mean = losses.mean()
    typical = clipped_mean(losses) if problem.loss.bounded_slope else mean
    return float(mean), float(typical), gradient
