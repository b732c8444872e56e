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
_SIZE = 0.2  # root mean square of a move of a large matrix
_VECTORS = 0.5  # rate of vectors beside spectral steps
# Odd polynomials a x + b x^3 + c x^5, each nearest to 1 in the largest error on the values that the
# one before it makes of [0.01, 1]; after the third they are between 0.73 and 1.27.
_POLYNOMIALS = (
    (8.0934, -23.6205, 17.4462),
    (3.6366, -2.7219, 0.5365),
    (2.6613, -1.9772, 0.4526),
)


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
        self.square.mul_(_MEMORY).addcmul_(slope, slope, value=1 - _MEMORY)
        ahead = slope.lerp(self.slope, _MOMENTUM)  # Nesterov's
        size = (self.square / (1 - _MEMORY**self.steps)).sqrt_()
        size.clamp_min_(torch.finfo(size.dtype).tiny ** 0.5)
        scale = _VECTORS if self.spectral else 1.0
        moves = (ahead / size).mul_(-scale / (1 - _MOMENTUM ** (self.steps + 1)))
        if self.spectral:
            pairs = zip(layout.split(moves).values(), layout.split(ahead).values(), strict=True)
            for move, part in pairs:
                if part.ndim > 1:
                    matrix = orthogonal(part.flatten(1))
                    move.copy_(matrix.view_as(move)).mul_(-_SIZE * math.sqrt(max(matrix.shape)))
        return moves


def work_of_a_step(layout: Layout) -> int:
    """Multiplications of a spectral step beyond the backward pass."""
    sides = [(shape[0], prod(shape[1:])) for shape in layout.shapes if len(shape) > 1]
    rounds = len(_POLYNOMIALS)
    return sum(rounds * min(m, n) ** 2 * (2 * max(m, n) + min(m, n)) for m, n in sides)


def orthogonal(matrix: Tensor) -> Tensor:
    """About U V^T of matrix = U diag(s) V^T, all but the smallest singular values near 1."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    tiny = torch.finfo(x.dtype).tiny ** 0.5
    x = x / x.norm().clamp_min(tiny)  # first, so that no square underflows
    gram = x @ x.T
    # The norm of the Gram matrix is a close bound of the largest singular value's square.
    bound = gram.norm().clamp_min(tiny)
    x, gram = x / bound.sqrt(), gram / bound
    for number, (a, b, c) in enumerate(_POLYNOMIALS):
        gram = x @ x.T if number else gram
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
