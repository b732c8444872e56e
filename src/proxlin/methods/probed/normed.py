"""Normed steps: the move of a given size that lowers the linear model of the loss most.

What counts as size is a norm, whose square is the proximal term. Of vectors it is the largest entry
in units of its slopes' running size, and the best move the sign of every slope, smoothed: the steps
of Adam. Of matrices it is the same after both sides have been turned to the directions in which
slopes are uncorrelated: the steps of SOAP, at the length of Muon's. They ask nothing of curvature
and cost one backward pass and some products of matrices. They are the better steps where averaged
blocks say little about C: recurrent nets, attention, derivatives inside the residual.

The slope of a batch has at most the rank of its rows. Matrices so wide that turning them would cost
more than the backward pass move along the leading directions of their averaged slope only, with all
its singular values alike: one power iteration a step follows these directions, and what it leaves
of the averaged slope is kept for later steps, as in Dion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from proxlin.terms.layout import Layout

_MEMORY_OF_SLOPES = 10, 30  # steps that their average looks back, at first and in the end
_MEMORY = 0.95  # of the squares and products of slopes
_LEAST_SIZE = 0.01  # of the typical one of its parameter, added: rounding is not made as large
_LONGEST = 0.2  # root mean square of a parameter's move: sizes that few slopes tell are too small
_VECTORS = 0.5  # rate of vectors beside that of matrices
_RENEWAL = 10  # steps between two power iterations of the directions of a matrix's sides
_WIDEST = 1_024  # side that is turned
_LEADING = 0.08  # root mean square of moves along leading directions of a large matrix
_LEAST_RANK = 16
_NEGLIGIBLE = 0.01  # of the largest singular value: smaller ones are not made alike


@dataclass
class NormedMemory:
    """What normed steps remember."""

    rate: float  # root mean square of the moves of a parameter before the schedule, about
    slope: Tensor  # (d,) running average of the slopes
    square: Tensor  # of those that move entry by entry: running average of their squares
    bases: list[Tensor]  # of the left and right side of each; empty: not turned
    grams: list[Tensor]  # running averages of slope slope^T and slope^T slope, where turned
    leading: list[Tensor]  # (n, rank) right directions of each that moves along those; else empty
    rows: int = 0  # that a matrix is applied to in a step, on average; 0: not known yet
    steps: int = 0
    momentum: float = 0.9  # of the latest step

    def begin(self, theta: Tensor) -> None:
        """Forget all slopes."""
        self.end()
        self.slope, self.steps = torch.zeros_like(theta), 0

    def end(self) -> None:
        """Let all slopes go."""
        self.slope = self.square = self.slope.new_empty(0)
        self.bases, self.grams, self.leading = [], [], []

    def direction(self, slope: Tensor, layout: Layout, progress: float = 0.0) -> Tensor:
        """Average the slope in and return the move of rate 1.

        Short steps at the end of a run leave time for slopes to be averaged over more of them.
        """
        first, last = _MEMORY_OF_SLOPES
        self.momentum = 1 - 1 / (first + (last - first) * progress)
        self.steps += 1
        self.slope.lerp_(slope, 1 - self.momentum)
        ahead = slope.lerp(self.slope, self.momentum)  # Nesterov's look
        moves = torch.empty_like(slope)
        parts = list(zip(*(_matrices(flat, layout) for flat in (moves, slope, ahead)), strict=True))
        if not self.leading:
            self._begin_sides([new for _, new, _ in parts])
        entrywise = [number for number, basis in enumerate(self.leading) if not basis.numel()]
        if entrywise:
            turned = [self._turned(number, *parts[number][1:]) for number in entrywise]
            for number, move in zip(entrywise, self._move_entries(turned), strict=True):
                parts[number][0].copy_(self._turned_back(number, move))
        averages = _matrices(self.slope, layout)
        for number, basis in enumerate(self.leading):
            if basis.numel():
                parts[number][0].copy_(self._move_along(number, averages[number]))
        if self.steps % _RENEWAL == 0:
            self.bases = [_renewed(*pair) for pair in zip(self.grams, self.bases, strict=True)]
        return moves

    def _begin_sides(self, slopes: list[Tensor]) -> None:
        """Choose how each parameter moves, with the directions that its first slope tells."""
        for slope in slopes:
            left, right = turned_sides(slope.shape, self.rows)
            empty = slope.new_empty(0)
            self.grams += [slope @ slope.T if left else empty, slope.T @ slope if right else empty]
            rank = max(_LEAST_RANK, self.rows // 2)
            few = slope.ndim > 1 and not (left or right) and rank < min(slope.shape)
            generator = torch.Generator().manual_seed(slope.shape[-1])
            basis = torch.randn(slope.shape[-1], rank, generator=generator) if few else empty
            self.leading.append(basis.to(slope))  # any: the first power iterations turn them
        self.bases = [_directions(gram) for gram in self.grams]

    def _turned(self, number: int, slope: Tensor, ahead: Tensor) -> Tensor:
        """Both in the directions of the sides, (2, *shape); the Gram matrices follow."""
        both = torch.stack([slope, ahead])
        left, right = self.bases[2 * number : 2 * number + 2]
        if left.numel():
            _average_in(self.grams[2 * number], slope, slope.T)
            both = left.T @ both
        if right.numel():
            _average_in(self.grams[2 * number + 1], slope.T, slope)
            both = both @ right
        return both

    def _turned_back(self, number: int, move: Tensor) -> Tensor:
        left, right = self.bases[2 * number : 2 * number + 2]
        move = left @ move if left.numel() else move
        return move @ right.T if right.numel() else move

    def _move_entries(self, turned: list[Tensor]) -> list[Tensor]:
        """Each averaged slope over its running size; `turned` are (2, *shape), new and ahead."""
        slope, ahead = torch.cat([both.flatten(1) for both in turned], 1)
        if not self.square.numel():
            self.square = torch.zeros_like(slope)
        self.square.lerp_(slope.square(), 1 - _MEMORY)
        size = (self.square / (1 - _MEMORY**self.steps)).sqrt_()
        counts = [both[0].numel() for both in turned]
        for part in torch.split(size, counts):
            part.add_(part.norm(), alpha=_LEAST_SIZE / math.sqrt(part.numel()))
        size.clamp_min_(torch.finfo(size.dtype).tiny ** 0.5)
        moves = ahead.div_(size).mul_(-1 / (1 - self.momentum ** (self.steps + 1)))
        for part in torch.split(moves, counts):
            longest = _LONGEST * math.sqrt(part.numel())
            part.mul_(longest / part.norm().clamp_min_(longest))
        found = zip(torch.split(moves, counts), turned, strict=True)
        return [move.view_as(both[0]) * (1 if both.ndim > 2 else _VECTORS) for move, both in found]

    def _move_along(self, number: int, average: Tensor) -> Tensor:
        """Along the leading directions of the averaged slope, with their singular values alike."""
        left = torch.linalg.qr(average @ self.leading[number])[0]
        right = average.T @ left
        # What was moved along fades as in any average, the rest waits: the next average has all.
        average.addmm_(left, right.T, beta=1 / self.momentum, alpha=1 - 1 / self.momentum)
        sizes = right.norm(dim=0)
        least = (_NEGLIGIBLE * sizes.max()).clamp_min(torch.finfo(sizes.dtype).tiny ** 0.5)
        self.leading[number] = basis = right / sizes.clamp_min(least)
        alike: Tensor = left @ basis.T
        return alike.mul_(-_LEADING * math.sqrt(max(average.shape)))


def turned_sides(shape: torch.Size | tuple[int, ...], rows: int) -> tuple[bool, bool]:
    """Whether to turn the left and the right side: where that costs less than a backward pass.

    Per side three products (its Gram matrix, there and back) and, now and then, a decomposition.
    """
    if len(shape) < 2:
        return False, False
    left, right = shape[0], prod(shape[1:])
    pairs = (left, right), (right, left)
    costs = [side * (1 + side / (3 * other)) for side, other in pairs]  # in rows
    dear = [side > _WIDEST or cost > rows for (side, _), cost in zip(pairs, costs, strict=True)]
    return left > 1 and not dear[0], right > 1 and not dear[1]


def _matrices(flat: Tensor, layout: Layout) -> list[Tensor]:
    """The parameters in a flat vector, kernels as matrices with a row for each unit."""
    parts = layout.split(flat).values()
    return [part.flatten(1) if part.ndim > 2 else part for part in parts]


def _average_in(gram: Tensor, left: Tensor, right: Tensor) -> None:
    gram.addmm_(left, right, beta=_MEMORY, alpha=1 - _MEMORY)


def _directions(gram: Tensor) -> Tensor:
    """The eigenvectors, of the largest eigenvalue first."""
    if not gram.numel():
        return gram
    found: Tensor = torch.linalg.eigh(gram.nan_to_num())[1].flip(1)
    return found


def _renewed(gram: Tensor, basis: Tensor) -> Tensor:
    """The directions of a side after one more power iteration."""
    renewed: Tensor = torch.linalg.qr(gram @ basis)[0] if gram.numel() else gram
    return renewed
