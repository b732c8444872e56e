"""Normed steps: the move of a given size that lowers the linear model of the loss most.

What counts as size is a norm, whose square is the proximal term. Of all moves S of a matrix with
spectral norm at most 1, -U V^T lowers <slope, S> most, where slope = U diag(s) V^T: the steps of
Muon. Of vectors the norm is the largest entry, and the move the sign of every slope: the steps of
Adam, smoothed by a running size. Both ask nothing of curvature and cost one backward pass and some
products of matrices. They are the better steps where averaged blocks say little about C: recurrent
nets, attention, derivatives inside the residual.

The slope of a batch has at most the rank of its rows. Matrices so wide that all of U V^T would cost
more than the backward pass move along its leading directions only: one power iteration a step
follows them, and what it leaves of the averaged slope is kept for later steps, as in Dion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from proxlin.terms.layout import Layout

_MEMORY_OF_SLOPES = 10, 30  # steps that their average looks back, at first and in the end
_MEMORY = 0.99  # of the squares of the slopes of vectors
_SIZE = 0.2  # root mean square of a move of a large matrix
_VECTORS = 0.5  # rate of vectors beside that of matrices
_LOW_RANK = 0.4  # rate of moves along leading directions: those are the same for many steps
_DEAREST = 2  # backward passes that all directions of a matrix may cost
_LEAST_RANK = 16
_NEGLIGIBLE = 0.01  # of the largest singular value: smaller ones are not made alike
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

    rate: float  # root mean square of the moves of a parameter before the schedule, about
    slope: Tensor  # (d,) running average of the slopes
    square: Tensor  # (entries of vectors,) running average of their squares
    bases: list[Tensor]  # (n, rank) leading right directions of each matrix; empty: all of them
    rows: int = 0  # that a matrix is applied to in a step, on average; 0: not known yet
    steps: int = 0
    momentum: float = 0.9  # of the latest step

    def begin(self, theta: Tensor) -> None:
        """Forget all slopes."""
        self.slope, self.square = torch.zeros_like(theta), theta.new_empty(0)
        self.bases, self.steps = [], 0

    def end(self) -> None:
        """Let all slopes go."""
        self.slope = self.square = self.slope.new_empty(0)
        self.bases = []

    def direction(self, slope: Tensor, layout: Layout, progress: float = 0.0) -> Tensor:
        """Average the slope in and return the move of rate 1.

        Short steps at the end of a run leave time for slopes to be averaged over more of them.
        """
        first, last = _MEMORY_OF_SLOPES
        self.momentum = 1 - 1 / (first + (last - first) * progress)
        self.steps += 1
        self.slope.lerp_(slope, 1 - self.momentum)
        moves = torch.empty_like(slope)
        split = (layout.split(flat).values() for flat in (moves, slope, self.slope))
        parts = list(zip(*split, strict=True))
        if not self.bases:
            self.bases = [self._first_basis(new) for _, new, _ in parts]
        for k, (move, new, average) in enumerate(parts):
            if new.ndim > 1:
                matrix = self._alike(k, new.flatten(1), average.flatten(1)).view_as(move)
                torch.mul(matrix, -_SIZE * math.sqrt(max(move[:1].numel(), len(move))), out=move)
        vectors = [part for part in parts if part[0].ndim < 2]
        if vectors:
            slopes = torch.cat([new.flatten() for _, new, _ in vectors])
            averages = torch.cat([average.flatten() for _, _, average in vectors])
            entries = self._entrywise(slopes, averages).mul_(_VECTORS)
            pieces = torch.split(entries, [move.numel() for move, _, _ in vectors])
            for (move, _, _), piece in zip(vectors, pieces, strict=True):
                move.copy_(piece.view_as(move))
        return moves

    def _entrywise(self, slope: Tensor, average: Tensor) -> Tensor:
        """Each averaged slope over its running size, with Nesterov's look ahead."""
        if not self.square.numel():
            self.square = torch.zeros_like(slope)
        self.square.mul_(_MEMORY).addcmul_(slope, slope, value=1 - _MEMORY)
        size = (self.square / (1 - _MEMORY**self.steps)).sqrt_()
        size.clamp_min_(torch.finfo(size.dtype).tiny ** 0.5)
        ahead = slope.lerp(average, self.momentum)
        return ahead.div_(size).mul_(-1 / (1 - self.momentum ** (self.steps + 1)))

    def _first_basis(self, part: Tensor) -> Tensor:
        """Any directions, where few are enough: the first power iterations turn them."""
        rank = rank_of_moves(part.shape, self.rows)
        columns = part[:1].numel()
        if part.ndim < 2 or rank >= min(len(part), columns):
            return part.new_empty(0)
        generator = torch.Generator().manual_seed(columns)
        return torch.randn(columns, rank, generator=generator, dtype=part.dtype).to(part.device)

    def _alike(self, number: int, slope: Tensor, average: Tensor) -> Tensor:
        """The averaged slope of a matrix with its singular values alike, all or the leading."""
        basis = self.bases[number]
        if not basis.numel():
            return orthogonal(slope.lerp(average, self.momentum))  # Nesterov's look ahead
        left = torch.linalg.qr(average @ basis)[0]
        right = average.T @ left
        # What was moved along fades as in any average, the rest waits: the next average has all.
        average.addmm_(left, right.T, beta=1 / self.momentum, alpha=1 - 1 / self.momentum)
        sizes = right.norm(dim=0)
        least = (_NEGLIGIBLE * sizes.max()).clamp_min(torch.finfo(sizes.dtype).tiny ** 0.5)
        self.bases[number] = basis = right / sizes.clamp_min(least)
        alike: Tensor = left @ basis.T
        return alike.mul_(_LOW_RANK)


def rank_of_moves(shape: torch.Size | tuple[int, ...], rows: int) -> int:
    """All directions where they cost little beside the backward pass, else half as many as rows."""
    short, long = sorted((shape[0], prod(shape[1:])))
    work = len(_POLYNOMIALS) * short * (2 * long + short)  # beside 3 * rows * long
    return short if work <= 3 * _DEAREST * rows * long else max(_LEAST_RANK, rows // 2)


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
