"""How many rows the batches of normed steps have: what there is time for, told by a few steps."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from proxlin.linearize import linearize_local
from proxlin.linearize.torch_modes import quietly
from proxlin.methods.contract import Budget
from proxlin.methods.probed.normed import NormedMemory, turned_sides
from proxlin.methods.probed.pace import OtherRows, power_of_two, twice_is_dear
from proxlin.methods.probed.state import ProbedState
from proxlin.problem import Problem
from proxlin.problem.shards import LocalBatch
from proxlin.terms.layout import Layout

_ROWS = 64, 1024, 4096  # of a batch: at least, usually at most, and in runs of very many steps
_TIMED_STEPS = 9  # that tell how many there is time for
_TIMED_AGAIN = 3  # with another number of them
_CHEAP = 4  # times the work of turning the sides is less than that of the rows
_STEPS = 700  # of a run: beyond, larger batches lead further than more steps; below, smaller ones
_LARGER = 16  # times the rows that fill a cache, at most beyond the usual: memory stays bounded
_MANY = 3_000  # of a run with usual batches, beyond which more time is for more steps and more rows


def settle_rows(
    problem: Problem,
    state: ProbedState,
    memory: NormedMemory,
    budget: Budget,
    batch_size: int | None,
) -> None:
    """Choose `state.normed_rows` before the first step, and anew when some are timed."""
    trial, (least, most, _) = state.trial, _ROWS
    assert trial is not None
    if not state.normed_rows:
        state.normed_rows = batch_size or min(max(state.batch_size, least), most)
    elif batch_size or not budget.max_seconds:
        return
    elif state.other.rows:
        state.other.pace.begin_step(budget.progress)
        if state.other.pace.steps == _TIMED_AGAIN:
            _settle_other_rows(state, memory)
    elif trial.slow or (trial.tells_pace and trial.pace.steps == _TIMED_STEPS):
        steps, before = trial.pace.steps_of_a_run, state.normed_rows
        if not trial.slow:
            half = problem.n_rows // 2 if problem.output_sign else 0
            _take_rows(state, memory, rows_of_a_run(before, steps, half))
        trial.slow = False
        if steps < _STEPS and rows_cost_most(problem.layout, memory.rows):
            _take_rows(state, memory, least)
        if state.normed_rows != before:
            state.other = OtherRows(before, trial.pace.share)


def _settle_other_rows(state: ProbedState, memory: NormedMemory) -> None:
    """Go on with the better of two numbers; of more rows than before half of them is tried, too."""
    other, present = state.other, state.normed_rows
    if present > 2 * other.rows:
        state.other, rows = OtherRows(present, other.pace.share, half=True), present // 2
    elif present > other.rows:  # half of them are timed already
        rows = other.rows if twice_is_dear(other.share, other.pace.share) else present
        state.other = OtherRows()
    else:
        state.other, rows = OtherRows(), other.settled_rows(present)
    _take_rows(state, memory, rows)


def _take_rows(state: ProbedState, memory: NormedMemory, rows: int) -> None:
    """Take so many rows from now on; what steps of others have told is forgotten."""
    if rows != state.normed_rows:
        state.normed_rows, memory.rows = rows, 0
        memory.begin(state.theta)


def rows_of_a_run(rows: int, steps: float, bound: int = _ROWS[2]) -> int:
    """Rows of a batch for a run that has time for so many steps with `rows` of them.

    Slopes of few rows are mostly noise in the end: of a long run more rows make each step better
    than more steps would make the run. Beyond the usual number there are at most `bound`: half of
    all rows, and none with a residual of the caller's own, which may have no noise (an equation).
    """
    _, usual, most = _ROWS
    wanted = min(rows * steps / _STEPS, usual)
    steps_with_usual = rows * steps / usual
    if steps_with_usual > _MANY:
        limit = max(usual, min(bound, most, _LARGER * rows))
        larger = usual * math.sqrt(steps_with_usual / _MANY)
        wanted = min(power_of_two(larger), 1 << limit.bit_length() - 1)
    return max(rows, power_of_two(wanted))


def rows_cost_most(layout: Layout, rows: int) -> bool:
    """Whether turning all sides is cheap beside the rows.

    `rows` is what a matrix is applied to in a step. Then, and only then, a run that has time for
    few steps may gain by more of them.
    """
    matrices = (shape for shape in layout.shapes if len(shape) > 1)
    return all(all(turned_sides(shape, rows // _CHEAP)) for shape in matrices)


class _WorkCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiplications and additions of products of matrices and of convolutions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: to skip it torch would load its compiler first, which takes seconds of a run."""
        return False

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
