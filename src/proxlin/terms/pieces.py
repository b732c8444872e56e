"""Pieces: the few canonical forms that every regulariser and constraint is made of.

A piece acts on whole parameters, named by their positions in a `Layout`. The rules of `joint` only
know these forms, so that a new term needs no new rule as long as it can be written in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Literal

from torch import Tensor

from proxlin.terms.layout import Layout

Groups = Literal["rows", "columns"]


@dataclass(frozen=True)
class Separable:
    """sum_j  quadratic/2 x_j^2 + l1 |x_j| + indicator(low <= x_j <= high)."""

    term: str  # what the user wrote, for messages
    where: tuple[int, ...]  # positions of the parameters in the layout, ascending
    quadratic: float = 0.0
    l1: float = 0.0
    low: float = -inf
    high: float = inf


@dataclass(frozen=True)
class Coupled:
    """A norm, a ball or a simplex of one long vector, or of each row or column of one matrix."""

    term: str
    where: tuple[int, ...]
    kind: Literal["norm", "ball", "simplex"]
    size: float  # weight of the norm, radius of the ball, total of the simplex
    p: float = 2.0  # exponent of the norm or ball; means nothing for a simplex
    groups: Groups | None = None  # None: all of `where` as one vector
    radius: float = inf  # a norm that also is bounded (same p, same parameters)

    @property
    def bounds(self) -> bool:
        """Whether it restricts x instead of only charging for it."""
        return self.kind != "norm" or self.radius < inf


@dataclass(frozen=True)
class Tie:
    """x_i = x_j for each pair (i, j) of parameters; `transposed`: first two dimensions swapped."""

    term: str
    pairs: tuple[tuple[int, int], ...]
    transposed: bool


Piece = Separable | Coupled | Tie


@dataclass(frozen=True)
class Space:
    """Where pieces live: named parameters, or one bare tensor with leading batch dimensions."""

    layout: Layout
    named: bool = True

    def vectors(self, x: Tensor, position: int, groups: Groups) -> Tensor:
        """The flat parameter at `position` as a matrix with one group in each row."""
        shape, order, kept = self._arrangement(position, groups)
        count = prod(shape[dim] for dim in order[:kept])
        size = prod(shape[dim] for dim in order[kept:])
        return x.reshape(shape).permute(order).reshape(count, size)

    def flatten(self, vectors: Tensor, position: int, groups: Groups) -> Tensor:
        """The inverse of `vectors`."""
        shape, order, _ = self._arrangement(position, groups)
        back = [order.index(dim) for dim in range(len(order))]
        return vectors.reshape([shape[dim] for dim in order]).permute(back).reshape(-1)

    def transposed(self, x: Tensor, position: int) -> Tensor:
        """The flat parameter at `position` with its first two dimensions swapped, flat again."""
        return x.reshape(self.layout.shapes[position]).transpose(0, 1).reshape(-1)

    def _arrangement(self, position: int, groups: Groups) -> tuple[tuple[int, ...], list[int], int]:
        # Rows of a named weight are its outputs (first dimension) and columns its inputs (second),
        # whatever the kernel dimensions behind. A bare tensor is a batch of matrices instead.
        shape = self.layout.shapes[position]
        dims = list(range(len(shape)))
        if self.named:
            kept = [0 if groups == "rows" else 1]
        else:
            summed = dims[-1] if groups == "rows" else dims[-2]
            kept = [dim for dim in dims if dim != summed]
        return shape, kept + [dim for dim in dims if dim not in kept], len(kept)
