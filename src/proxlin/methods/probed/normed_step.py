"""A normed step on one batch: its slope, the rate of the schedule, and the point they lead to.

The slope is that of the norm with its kinks rounded off, widely at first and ever less. Signs of
residuals alone draw every output to the median of its targets, which is the same for all rows where
most targets are alike (labels as zeros and ones, dark pixels), and there learning ends; a loss that
is round in the middle still tells those rows apart. A row never pulls harder than by the norm.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from proxlin.linearize import Linearization, linearize_local
from proxlin.linearize.torch_modes import quietly
from proxlin.methods.contract import Budget
from proxlin.methods.probed.normed import NormedMemory, turned_sides
from proxlin.methods.probed.state import LOSS_RATE, ProbedState
from proxlin.problem import Problem
from proxlin.problem.scales import clipped_mean, scales_of
from proxlin.problem.shards import LocalBatch
from proxlin.terms.layout import Layout

_ROWS = 64, 1024  # of a batch, at least and at most
_TIMED_STEPS = 9  # that tell how many there is time for
_CHEAP = 4  # times the work of turning the sides is less than that of the rows
_STEPS = 500  # of a run, beyond which larger batches lead further than more steps
_ENOUGH = 700  # of a run, below which smaller batches lead further where rows are what they cost
_ASTRAY = 10.0  # times the last good loss: the run has gone wrong
_WIDEST, _DECADES = 10.0, 4.0  # rounding in typical residuals: at first, and how far it falls
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
    if not state.normed_rows:
        least, most = _ROWS
        state.normed_rows = batch_size or min(max(state.batch_size, least), most)
    elif state.trial.timed_steps == _TIMED_STEPS and budget.max_seconds and not batch_size:
        steps = state.trial.steps_of_a_run(budget)
        _take_rows(state, memory, rows_of_a_run(state.normed_rows, steps))
        if steps < _ENOUGH and rows_cost_most(problem.layout, memory.rows):
            _take_rows(state, memory, _ROWS[0])
    elif state.trial.slow:
        state.trial.slow = False
        if not batch_size and rows_cost_most(problem.layout, memory.rows):
            _take_rows(state, memory, _ROWS[0])
    batch = problem.take(state.batches.next(state.normed_rows))
    if not memory.rows:
        memory.rows = applied_rows(problem, state.theta, batch)
    model = linearize_local(problem, state.theta, batch)
    losses = problem.loss(model.residual)
    if memory.steps % _SIZED == 0:
        (scales,) = scales_of([batch], [model.residual], [losses], clip=problem.loss.bounded_slope)
        state.residual_size = float(scales.size)
        state.first_size = state.first_size or state.residual_size
    rounding = rounding_width(state, budget)
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
    rate = memory.rate * (1.0 - budget.progress) * state.trial.length(budget)
    move = memory.direction(slope, problem.layout, budget.progress)
    state.theta = state.theta.add(move, alpha=rate)
    state.average_in(memory.steps)


def _take_rows(state: ProbedState, memory: NormedMemory, rows: int) -> None:
    """Take so many rows from now on; what steps of others have told is forgotten."""
    if rows != state.normed_rows:
        state.normed_rows, memory.rows = rows, 0
        memory.begin(state.theta)


def rows_of_a_run(rows: int, steps: float) -> int:
    """Rows of a batch for a run that has time for so many steps with `rows` of them.

    Slopes of few rows are mostly noise in the end: of a long run more rows make each step better
    than more steps would make the run.
    """
    wanted = rows * steps / _STEPS
    return max(rows, min(1 << round(math.log2(max(wanted, 1.0))), _ROWS[1]))


def rows_cost_most(layout: Layout, rows: int) -> bool:
    """Whether a step costs half as much with half the rows: turning all sides is cheap.

    `rows` is what a matrix is applied to in a step. Then, and only then, a run that has time for
    few steps gains by more of them.
    """
    matrices = (shape for shape in layout.shapes if len(shape) > 1)
    return all(all(turned_sides(shape, rows // _CHEAP)) for shape in matrices)


def rounding_width(state: ProbedState, budget: Budget) -> float:
    """Below which |r| the kinks are round: ten typical residuals at first, and ever less.

    It falls with the budget, and faster than the residuals: a net that learns does not need it, and
    wrong rows, whose pull is not rounded, would count for more than others.
    """
    if not state.first_size:
        return 0.0
    progress = budget.progress if budget.bounded else 0.5
    left = min(1.0, state.residual_size / state.first_size)
    return _WIDEST * math.pow(10.0, -_DECADES * progress) * left * state.residual_size


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


class _WorkCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiplications and additions of products of matrices and of convolutions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        work = flop_registry.get(func.overloadpacket)
        if work is not None:
            self.count += work(*args, **(kwargs or {}), out_val=output)
        return output


def applied_rows(problem: Problem, theta: Tensor, batch: LocalBatch) -> int:
    """To how many rows a matrix is applied in the slope of a batch, on average.

    More than the batch has where a row is a series or an image and meets a matrix many times.
    """
    matrices = [(shape[0], math.prod(shape[1:])) for shape in problem.layout.shapes if shape[1:]]
    if all(all(turned_sides(shape, batch.n_rows)) for shape in matrices):
        return batch.n_rows  # enough to know
    # Without oneDNN a recurrent layer is the products of its steps, not one call of its own.
    with quietly(), torch.backends.mkldnn.flags(enabled=False), _WorkCounter() as counter:
        model = linearize_local(problem, theta, batch)
        model.adjoint(model.residual)
    counted = torch.tensor([counter.count], dtype=torch.float64)
    work = float(batch.communicator.sum(counted)) / 2  # multiplications
    entries = sum(map(math.prod, matrices))
    return max(batch.n_rows, int(work / (3 * entries)))  # forward, and backward twice
