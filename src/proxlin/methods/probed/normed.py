"""Normed steps: the move of a given size that lowers the linear model of the loss most.

What counts as size is a norm, whose square is the proximal term. Of all moves S of a matrix with
spectral norm at most 1, -U V^T lowers <slope, S> most, where slope = U diag(s) V^T: the spectral
steps of Muon. With the largest entry as norm it is the sign of every slope: the steps of Adam,
smoothed by a running size. Both ask nothing of curvature and cost one backward pass; spectral ones
cost some products of matrices, too. They are the better steps where averaged blocks say little
about C: recurrent nets, attention, derivatives inside the residual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from proxlin.terms.layout import Layout

_MOMENTUM = 0.9
_MEMORY = 0.99  # of the squares of the slopes of vectors
_SIZE = 0.2  # root mean square of a move of a large matrix: that of a vector's moves
_POLYNOMIAL = (3.4445, -4.7750, 2.0315)  # takes singular values in (0, 1] near 1 in five rounds
_ROUNDS = 5


@dataclass
class NormedMemory:
    """What normed steps remember."""

    spectral: bool  # matrices by their spectral norm; else all by their largest entry
    rate: float  # root mean square of the moves of a parameter before the schedule, about
    slope: Tensor  # (d,) running average of the slopes
    square: Tensor  # (d,) running average of their squares
    steps: int = 0

    def begin(self, theta: Tensor) -> None:
        """Forget all slopes."""
        self.slope, self.square = torch.zeros_like(theta), torch.zeros_like(theta)
        self.steps = 0

    def direction(self, slope: Tensor, layout: Layout) -> Tensor:
        """Average the slope in and return the move of rate 1."""
        self.steps += 1
        self.slope.lerp_(slope, 1 - _MOMENTUM)
        self.square.lerp_(slope.square(), 1 - _MEMORY)
        size = (self.square / (1 - _MEMORY**self.steps)).sqrt_()
        moves = self.slope / (1 - _MOMENTUM**self.steps)
        moves.div_(size.clamp_min_(torch.finfo(size.dtype).tiny ** 0.5)).neg_()
        if self.spectral:
            ahead = slope.lerp(self.slope, _MOMENTUM)  # Nesterov's
            pairs = zip(layout.split(moves).values(), layout.split(ahead).values(), strict=True)
            for move, part in pairs:
                if part.ndim > 1:
                    move.copy_(-orthogonal(part.flatten(1)).view_as(part))
        return moves


def work_of_a_step(layout: Layout) -> int:
    """Multiplications of a spectral step beyond the backward pass."""
    sides = [(shape[0], prod(shape[1:])) for shape in layout.shapes if len(shape) > 1]
    return sum(_ROUNDS * min(m, n) ** 2 * (2 * max(m, n) + min(m, n)) for m, n in sides)


def orthogonal(matrix: Tensor) -> Tensor:
    """About U V^T of matrix = U diag(s) V^T, times 0.2 sqrt(the longer side): Newton-Schulz rounds.

    Each round is an odd polynomial of the singular values; five of them bring all but the smallest
    ones between 0.7 and 1.2.
    """
    a, b, c = _POLYNOMIAL
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp_min(torch.finfo(x.dtype).tiny)
    for _ in range(_ROUNDS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x) * (_SIZE * math.sqrt(max(matrix.shape)))
