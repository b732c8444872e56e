"""How many rows a batch has: as many as keep the machine busy without filling its cache, then few
while its halves agree on the slope, more when they do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from proxlin.linearize.differentiable import footprint
from proxlin.methods.curvature import AveragedCurvature
from proxlin.problem import Problem

_ACTIVATIONS = 2**20  # of one batch
_WHOLE = 2**19  # numbers of all rows, up to which every batch is the whole data
_WHOLE_IN_A_BOX = 2**20  # the same where smaller batches could only take proximal steps
_QUIET, _LOUD = 0.4, 2.0  # noise over signal that halves or doubles the batch
_RATE = 0.3  # of the running mean
_RANGE = (-2.0, 4.0)  # of its logarithms: one wild measurement costs one doubling


def fitting_batch_size(problem: Problem) -> int:
    """All rows if they are few, else a power of two with about a million activations a batch."""
    activations = activations_of_a_row(problem)
    inputs = sum(tensor[:1].numel() for tensor in problem.example)
    few = _WHOLE if problem.penalty.box is None else _WHOLE_IN_A_BOX
    if problem.n_rows * (activations + inputs) <= few:
        return problem.n_rows
    rows = _ACTIVATIONS // max(activations, 1)
    size = 1 << max(rows, 1).bit_length() - 1
    return min(max(size, 32), 1024, problem.n_rows)


def activations_of_a_row(problem: Problem) -> int:
    """The numbers that the leaf modules put out for one row, or that its graph keeps if more."""
    count = 0

    def tally(_module: nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal count
        count += output.numel() if isinstance(output, Tensor) else 0

    leaves = [m for m in problem.network.modules() if not any(m.children())]
    hooks = [leaf.register_forward_hook(tally) for leaf in leaves]
    try:
        with torch.no_grad():
            problem.residual(problem.theta(), tuple(tensor[:1] for tensor in problem.example))
    finally:
        for hook in hooks:
            hook.remove()
    # Recurrent layers, attention and derivatives inside a residual keep more than they put out.
    kept = footprint(problem, problem.theta(), problem.example).bytes_per_row
    return max(count, kept // problem.theta().itemsize, problem.n_outputs)


@dataclass
class GradientNoise:
    """Noise over signal of the slopes of batches, and the batch size that follows from it.

    Both are measured by what a Newton step along them predicts: noise is what half the difference
    between the slopes of two halves promises, signal what the running average of slopes does.
    """

    # Rows of a batch, below the fewest of which a step would not cost much less.
    least: int = field(metadata={"fixed": True})
    most: int = field(metadata={"fixed": True})
    level: float = 0.0  # running mean of log(noise / signal)
    measurements: int = 0

    def batch_size(self, size: int, noise: float, signal: float) -> int:
        """The batch size that follows from measurements on a batch of `size` rows."""
        if not (noise > 0 and signal > 0):
            return size
        low, high = _RANGE
        measured = min(max(math.log(noise) - math.log(signal), low), high)
        self.measurements += 1
        self.level += max(_RATE, 1.0 / self.measurements) * (measured - self.level)
        if self.level > math.log(_LOUD) and 2 * size <= self.most:
            self.level -= math.log(2)
            return 2 * size
        if self.level < math.log(_QUIET) and size // 2 >= self.least:
            self.level += math.log(2)
            return size // 2
        return size


def gradient_noise(size: int, n_rows: int, curvature: AveragedCurvature) -> GradientNoise:
    """For batches that begin with `size` rows and may shrink where that saves much of a step.

    They may grow beyond it as long as their rows cost less than solving does.
    """
    least = size if curvature.costly else max(size // 2, 1)
    return GradientNoise(least, min(max(size, curvature.rows_of_a_solve), n_rows))
