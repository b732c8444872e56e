"""Regularisers g: convex charges on theta, with value, prox and modulus of strong convexity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import cast

from torch import Tensor

from proxlin._checks import check_choice, check_exponent, check_non_negative
from proxlin.errors import CombinationError
from proxlin.terms.pieces import Coupled, Groups, Piece, Separable, Space
from proxlin.terms.term import Term, check_together, sum_for_tensor


class Regularizer(ABC):
    """g(theta). Without `on` it also works directly on a tensor, read as one vector."""

    @property
    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """The summands."""

    @property
    def modulus(self) -> float:
        """The largest m for which g - m/2 ||.||^2 is convex, on the parameters it acts on."""
        return 0.0

    @property
    def without_quadratic(self) -> Regularizer | None:
        """g less its quadratic part; None if nothing is left."""
        return self

    def value(self, theta: Tensor) -> Tensor:
        """g(theta), a tensor without dimensions."""
        return sum_for_tensor(self.terms, theta).value(theta.reshape(-1))

    def prox(self, theta: Tensor, step: float) -> Tensor:
        """argmin_x  step * g(x) + 1/2 ||x - theta||^2, in the shape of theta."""
        return sum_for_tensor(self.terms, theta).prox(theta.reshape(-1), step).reshape(theta.shape)

    def __add__(self, other: object) -> Sum:
        if not isinstance(other, Regularizer):
            raise CombinationError(
                f"{self!r} + {other!r} must be a sum of regularisers; pass constraints separately,"
                " as constraint=."
            )
        return Sum((*self.terms, *other.terms))


@dataclass(frozen=True, repr=False)
class Sum(Regularizer):
    """g_1(theta) + ... + g_k(theta), written with `+`; refuses sums without a joint prox."""

    summands: tuple[Term, ...]

    def __post_init__(self) -> None:
        check_together(self.summands)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.summands))

    @property
    def terms(self) -> tuple[Term, ...]:
        """The summands."""
        return self.summands

    @property
    def modulus(self) -> float:
        """The sum over the terms that act on the same parameters, or on all; else 0 is certain."""
        alike = len({term.on for term in self.terms}) == 1
        moduli = [cast(Regularizer, t).modulus for t in self.terms if alike or t.on is None]
        return sum(moduli)

    @property
    def without_quadratic(self) -> Regularizer | None:
        """The sum of what is left of the terms."""
        left = [cast(Regularizer, term).without_quadratic for term in self.terms]
        kept = tuple(term for part in left if part is not None for term in part.terms)
        return Sum(kept) if kept else None


@dataclass(frozen=True, repr=False)
class Ridge(Term, Regularizer):
    """weight/2 * ||theta||_2^2.

    >>> import torch
    >>> Ridge(0.5).prox(torch.tensor([3.0, -1.5]), step=1.0)
    tensor([ 2., -1.])
    """

    weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_non_negative("Ridge(weight=...)", self.weight)

    @property
    def modulus(self) -> float:
        """The weight."""
        return float(self.weight)

    @property
    def without_quadratic(self) -> Regularizer | None:
        """Nothing."""
        return None

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        return [Separable(repr(self), where, quadratic=float(self.weight))]


@dataclass(frozen=True, repr=False)
class Lasso(Term, Regularizer):
    """weight * ||theta||_1; its prox sets small entries to exactly zero.

    >>> import torch
    >>> Lasso(1.0).prox(torch.tensor([3.0, -0.5]), step=1.0)
    tensor([2., 0.])
    """

    weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_non_negative("Lasso(weight=...)", self.weight)

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        return [Separable(repr(self), where, l1=float(self.weight))]


@dataclass(frozen=True, repr=False)
class ElasticNet(Term, Regularizer):
    """l1 * ||theta||_1 + l2/2 * ||theta||_2^2."""

    l1: float
    l2: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_non_negative("ElasticNet(l1=...)", self.l1)
        check_non_negative("ElasticNet(l2=...)", self.l2)

    @property
    def modulus(self) -> float:
        """The weight l2 of the quadratic part."""
        return float(self.l2)

    @property
    def without_quadratic(self) -> Regularizer | None:
        """The l1 part."""
        return Lasso(self.l1, on=self.on) if self.l1 else None

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        return [Separable(repr(self), where, quadratic=float(self.l2), l1=float(self.l1))]


@dataclass(frozen=True, repr=False)
class LpNorm(Term, Regularizer):
    """weight * ||theta||_p (not its p-th power) of all named parameters as one vector."""

    weight: float
    p: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_non_negative("LpNorm(weight=...)", self.weight)
        check_exponent("LpNorm(p=...)", self.p)

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        if self.p == 1:
            return [Separable(repr(self), where, l1=float(self.weight))]
        if self.weight == 0:
            return []
        p = check_exponent("LpNorm(p=...)", self.p)  # beyond all floats: inf
        return [Coupled(repr(self), where, "norm", float(self.weight), p=p)]


@dataclass(frozen=True, repr=False)
class GroupLasso(Term, Regularizer):
    """weight * sum of ||group||_2 over the rows or columns of each named matrix (the l2,1 norm).

    The weight of a `Linear` has its outputs in rows and its inputs in columns, so that
    `groups="columns"` selects input features. Kernels of convolutions count as rows of their first
    dimension or columns of their second. A bare tensor is read as a batch of matrices.
    """

    weight: float
    groups: Groups = "rows"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_non_negative("GroupLasso(weight=...)", self.weight)
        check_choice("GroupLasso(groups=...)", self.groups, ("rows", "columns"))

    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        self._check_matrices(self.groups, space, where)
        if self.weight == 0:
            return []
        return [
            Coupled(repr(self), (i,), "norm", float(self.weight), groups=self.groups) for i in where
        ]
