"""Whether a net has fallen to an output that is the same for every row, and learns no more.

At p near 1 such an output is a local minimum that draws every method on mostly dark images: units
that are dead give no slope to come back by.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.problem import Problem
from proxlin.problem.rows import evenly_spread
from proxlin.problem.scales import clipped_mean

RESTARTED = (
    "The output had become the same for every row, so the run began anew from its start point with"
    " other batches."
)
_ROWS = 64
_CONSTANT = 0.1  # of the spread of the targets, below which outputs count as alike
_NOTHING = 0.9  # of the loss of its median output: a net below that tells rows apart
_GROWS = 1.5  # times its last spread: an output that grows so is on its way
_FIRST, _APART, _RARER = 20, 10, 1.25  # steps before the first look, between looks, later a quarter


@dataclass
class CollapseWatch:
    """Looks at the spread of the output over rows, ever more rarely."""

    next_look: int = _FIRST  # step
    spread: float | None = None  # of the output at the last look, if it was too small

    def collapsed(self, problem: Problem, theta: Tensor, steps: int) -> bool:
        """Whether two looks in a row, the second of them now, saw an output that stays constant."""
        if steps < self.next_look or not problem.output_sign:
            return False
        self.next_look = max(steps + _APART, round(_RARER * steps))
        outputs, targets = outputs_and_targets(problem, theta)
        output, target = spread(outputs), spread(targets)
        nothing = target > 0 and _tells_nothing(problem, outputs, targets)
        before, alike = self.spread, nothing and output <= _CONSTANT * target
        self.spread = output if alike else None
        return alike and before is not None and output <= _GROWS * before


def outputs_and_targets(problem: Problem, theta: Tensor) -> tuple[Tensor, Tensor]:
    """Those of some rows, evenly spread over all processes, each (rows, N)."""
    batch = problem.take(evenly_spread(problem.n_rows, _ROWS))
    both = theta.new_empty(0, 2 * problem.n_outputs)
    if batch.count:
        target = batch.tensors[-1].reshape(batch.count, -1)
        with torch.no_grad():
            output = problem.output_sign * problem.residual(theta, batch.tensors) + target
        both = torch.cat([output, target], dim=1)
    outputs, targets = batch.gathered(both).chunk(2, dim=1)
    return outputs, targets


def spread(rows: Tensor) -> float:
    """How far a typical row lies from the median row.

    Medians all the way: fewer than half of the rows cannot move them.
    """
    distances = (rows - rows.median(0).values).abs()
    return float(distances.mean(1).median())


def _tells_nothing(problem: Problem, outputs: Tensor, targets: Tensor) -> bool:
    """Whether the median output for all rows would be as good, rows far out clipped.

    A net that tells half of the rows apart may give the same output for the others.
    """
    constant = outputs.median(0).values
    losses = problem.loss(problem.output_sign * torch.cat([outputs - targets, constant - targets]))
    ours, theirs = (float(clipped_mean(part)) for part in losses.chunk(2))
    return not ours < _NOTHING * theirs
