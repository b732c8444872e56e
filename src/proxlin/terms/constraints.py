"""Constraints C: convex sets that theta must stay in, with projection and membership test."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from proxlin._checks import check_choice, check_exponent, check_positive, check_real
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.terms.pieces import Coupled, Piece, Separable, Space, Tie
from proxlin.terms.term import Term, check_together, sum_for_tensor


class Constraint(ABC):
    """theta in C. Without `on` it also works directly on a tensor, read as one vector."""

    @property
    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """The sets whose intersection is C."""

    def project(self, theta: Tensor) -> Tensor:
        """argmin_{x in C}  1/2 ||x - theta||^2, in the shape of theta."""
        return sum_for_tensor(self.terms, theta).prox(theta.reshape(-1), 1.0).reshape(theta.shape)

    def contains(self, theta: Tensor, tolerance: float = 1e-6) -> bool:
        """Whether theta lies in C, up to `tolerance` relative to the size of the set."""
        return sum_for_tensor(self.terms, theta).contains(theta.reshape(-1), tolerance)

    def __and__(self, other: object) -> Intersection:
        if not isinstance(other, Constraint):
            raise CombinationError(
                f"{self!r} & {other!r} must be an intersection of constraints; pass regularisers"
                " separately, as regularizer=."
            )
        return Intersection((*self.terms, *other.terms))


@dataclass(frozen=True, repr=False)
class Intersection(Constraint):
    """theta in C_1, ..., C_k, written with `&`; refuses sets without a joint projection."""

    sets: tuple[Term, ...]

    def __post_init__(self) -> None:
        check_together([term for term in self.sets if not isinstance(term, Tied)])

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.sets))

    @property
    def terms(self) -> tuple[Term, ...]:
        """The sets."""
        return self.sets


@dataclass(frozen=True, repr=False)
class Ball(Term, Constraint):
    """||theta||_p <= radius, for all named parameters as one vector.

    >>> import torch
    >>> Ball(1.0).project(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    """

    radius: float
    p: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("Ball(radius=...)", self.radius)
        check_exponent("Ball(p=...)", self.p)

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        p = check_exponent("Ball(p=...)", self.p)  # beyond all floats: inf
        return [Coupled(repr(self), where, "ball", float(self.radius), p=p)]


@dataclass(frozen=True, repr=False)
class NonNegative(Term, Constraint):
    """theta_j >= 0."""

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        return [Separable(repr(self), where, low=0.0)]


@dataclass(frozen=True, repr=False)
class Box(Term, Constraint):
    """low <= theta_j <= high; either may be infinite.

    >>> import torch
    >>> Box(-1.0, 2.0).project(torch.tensor([-3.0, 0.5, 4.0]))
    tensor([-1.0000,  0.5000,  2.0000])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, bound in (("low", self.low), ("high", self.high)):
            if not isinstance(bound, float) or not math.isinf(bound):  # either may be infinite
                check_real(f"Box({name}=...)", bound)
        if not self.low <= self.high or self.low == math.inf or self.high == -math.inf:
            raise InvalidInputError(
                f"Box(low, high) must have low <= high; got low={self.low!r}, high={self.high!r}."
            )

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        return [Separable(repr(self), where, low=float(self.low), high=float(self.high))]


@dataclass(frozen=True, repr=False)
class Simplex(Term, Constraint):
    """theta >= 0 with sum `total`, for all named parameters or each row or column of a matrix."""

    total: float = 1.0
    along: Literal["all", "rows", "columns"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("Simplex(total=...)", self.total)
        check_choice("Simplex(along=...)", self.along, ("all", "rows", "columns"))

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        if self.along == "all":
            return [Coupled(repr(self), where, "simplex", float(self.total))]
        self._check_matrices(self.along, space, where)
        return [
            Coupled(repr(self), (i,), "simplex", float(self.total), groups=self.along)
            for i in where
        ]


@dataclass(frozen=True, repr=False)
class Tied(Term, Constraint):
    """first = second: two groups of parameters that stay equal; the projection is their average.

    Each is a name or glob pattern (or several); both must match equally many parameters, which are
    paired in the order of the module. `transposed` swaps the first two dimensions of one of them,
    as for the `Linear` layers of an encoder and its decoder.
    """

    first: str | Sequence[str]
    second: str | Sequence[str]
    transposed: bool = False
    on: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            value = getattr(self, name)
            several = (value,) if isinstance(value, str) else value
            if not isinstance(several, Sequence) or not all(isinstance(v, str) for v in several):
                raise InvalidInputError(
                    f"Tied({name}=...) must be a name or glob pattern, or several; got {value!r}."
                )
            if not several:
                raise InvalidInputError(f"Tied({name}=...) must name a parameter; got none.")
            object.__setattr__(self, name, value if isinstance(value, str) else tuple(value))

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        layout = space.layout
        if not space.named:
            raise InvalidInputError(
                f"{self!r} acts on named parameters and cannot be used on a bare tensor; bind it"
                " with Penalty(layout, constraint=...)."
            )
        first = layout.match(self.first, label="first")
        second = layout.match(self.second, label="second")
        if len(first) != len(second) or set(first) & set(second):
            raise InvalidInputError(
                f"{self!r} must pair different parameters one by one; got {', '.join(first)} and"
                f" {', '.join(second)}. Make the patterns match equally many, none twice."
            )
        index = layout.names.index
        pairs = tuple((index(a), index(b)) for a, b in zip(first, second, strict=True))
        return [Tie(repr(self), pairs, self.transposed)]
