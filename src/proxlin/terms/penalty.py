"""Penalty: g and C together, bound to the layout of a module. This is what solvers see."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from proxlin.errors import InvalidInputError
from proxlin.terms.constraints import Constraint
from proxlin.terms.layout import Layout
from proxlin.terms.piece_sum import PieceSum
from proxlin.terms.pieces import Coupled, Piece, Separable, Space
from proxlin.terms.regularizers import Regularizer


@dataclass(frozen=True)
class Penalty:
    """g(theta) + indicator_C(theta) for the flat vector theta of `layout`.

    A combination whose joint prox is not available exactly raises `CombinationError` here.

    >>> import torch
    >>> from proxlin.terms import NonNegative, Ridge
    >>> layout = Layout(("weight", "bias"), ((1, 2), (1,)))
    >>> penalty = Penalty(layout, Ridge(1.0, on="weight"), NonNegative())
    >>> penalty.prox(torch.tensor([4.0, -2.0, 3.0]), step=1.0)
    tensor([2., 0., 3.])
    """

    layout: Layout
    regularizer: Regularizer | None = None
    constraint: Constraint | None = None

    def __post_init__(self) -> None:
        if not (self.regularizer is None or isinstance(self.regularizer, Regularizer)):
            swapped = isinstance(self.regularizer, Constraint)
            hint = " Pass it as constraint=." if swapped else ""
            raise InvalidInputError(
                f"regularizer must be one such as Ridge(1e-3), a sum of them, or None; got"
                f" {self.regularizer!r}.{hint}"
            )
        if not (self.constraint is None or isinstance(self.constraint, Constraint)):
            swapped = isinstance(self.constraint, Regularizer)
            hint = " Pass it as regularizer=." if swapped else ""
            raise InvalidInputError(
                f"constraint must be one such as NonNegative(), several joined by &, or None; got"
                f" {self.constraint!r}.{hint}"
            )
        _ = self._joint  # bound at once, so that nothing is refused later

    @cached_property
    def _joint(self) -> PieceSum:
        return self._bound(self.regularizer, self.constraint)

    @cached_property
    def _set(self) -> PieceSum:
        return self._bound(None, self.constraint)

    def _bound(self, regularizer: Regularizer | None, constraint: Constraint | None) -> PieceSum:
        space = Space(self.layout)
        terms = [*(regularizer.terms if regularizer else ())]
        terms += constraint.terms if constraint else ()
        return PieceSum([piece for term in terms for piece in term.bind(space)], space)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The canonical pieces of g and C."""
        return self._joint.pieces

    def value(self, theta: Tensor) -> Tensor:
        """g(theta), a tensor without dimensions; gradients flow (a subgradient at kinks)."""
        return self._joint.value(theta)

    def prox(self, theta: Tensor, step: float) -> Tensor:
        """argmin_{x in C}  step * g(x) + 1/2 ||x - theta||^2."""
        return self._joint.prox(theta, step)

    def project(self, theta: Tensor) -> Tensor:
        """argmin_{x in C}  1/2 ||x - theta||^2."""
        return self._set.prox(theta, 1.0)

    def contains(self, theta: Tensor, tolerance: float = 1e-6) -> bool:
        """Whether theta lies in C, up to `tolerance` relative to the size of the set."""
        return self._set.contains(theta, tolerance)

    @property
    def modulus(self) -> float:
        """The largest m for which g - m/2 ||.||^2 is convex: the smallest of `quadratic`."""
        parts = zip(self._joint.separable, self.layout.sizes, strict=True)
        return min((part.quadratic for part, size in parts if size), default=0.0)

    @cached_property
    def quadratic(self) -> Tensor:
        """(d,) float64, the weights a of the part 1/2 sum_j a_j theta_j^2 of g."""
        each = torch.tensor([p.quadratic for p in self._joint.separable], dtype=torch.float64)
        return each.repeat_interleave(torch.tensor(self.layout.sizes))

    @cached_property
    def rest(self) -> Penalty:
        """The same without the quadratic part of g; the constraint stays."""
        left = self.regularizer.without_quadratic if self.regularizer else None
        return Penalty(self.layout, left, self.constraint)

    @property
    def is_quadratic(self) -> bool:
        """Whether g is quadratic (or 0) and theta is free."""
        kinks = any(coefficients.l1 for coefficients in self._joint.separable) or any(
            isinstance(piece, Coupled) for piece in self.pieces
        )
        return not kinks and not self.constrained

    @cached_property
    def box(self) -> tuple[Tensor, Tensor] | None:
        """(d,) float64 each, the bounds of theta; None unless C is a box and g quadratic (or 0)."""
        parts, sizes = self._joint.separable, torch.tensor(self.layout.sizes)
        apart = all(isinstance(piece, Separable) for piece in self.pieces)
        if not (apart and self.constrained) or any(part.l1 for part in parts):
            return None
        ends = [(part.low, part.high) for part in parts]
        low, high = torch.tensor(ends, dtype=torch.float64).repeat_interleave(sizes, dim=0).T
        return low, high

    @property
    def constrained(self) -> bool:
        """Whether there is a constraint."""
        return self.constraint is not None

    def describe(self) -> str:
        """One line: g and C."""
        g = "0" if self.regularizer is None else repr(self.regularizer)
        c = "everything" if self.constraint is None else repr(self.constraint)
        return f"g = {g}; C = {c}"
