"""Term: what regularisers and constraints share: the parameters they act on, and how they print."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from torch import Tensor

from proxlin._checks import check_floating, shown
from proxlin.errors import InvalidInputError
from proxlin.terms.joint import combine
from proxlin.terms.layout import Layout
from proxlin.terms.piece_sum import PieceSum
from proxlin.terms.pieces import Groups, Piece, Space


@dataclass(frozen=True, repr=False)
class Term(ABC):
    """One regulariser or constraint on all parameters, or on those whose names match `on`."""

    on: str | Sequence[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.on is None or isinstance(self.on, str):
            return
        owner = type(self).__name__
        if not isinstance(self.on, Sequence) or not all(
            isinstance(pattern, str) for pattern in self.on
        ):
            raise InvalidInputError(
                f"{owner}(on=...) must be a name or glob pattern, or several; got {shown(self.on)}."
            )
        if not self.on:
            raise InvalidInputError(
                f"{owner}(on=...) must name a parameter; got none. Leave on= out to act on all."
            )
        object.__setattr__(self, "on", tuple(self.on))

    def __repr__(self) -> str:
        ordered = sorted(fields(self), key=lambda f: f.name == "on")  # last, as it is written
        given = [f for f in ordered if f.init and getattr(self, f.name) != f.default]
        settings = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in given)
        return f"{type(self).__name__}({settings})"

    @property
    def terms(self) -> tuple[Term, ...]:
        """Itself: a sum or an intersection has several."""
        return (self,)

    def bind(self, space: Space) -> list[Piece]:
        """The canonical pieces of this term on the parameters of `space`."""
        layout = space.layout
        names = layout.names if self.on is None else layout.match(self.on)
        chosen = set(names)
        return self._pieces(space, tuple(i for i, n in enumerate(layout.names) if n in chosen))

    @abstractmethod
    def _pieces(self, space: Space, where: tuple[int, ...]) -> list[Piece]:
        """The pieces on the parameters at the positions `where`."""

    def _check_matrices(self, groups: Groups, space: Space, where: tuple[int, ...]) -> None:
        for i in where:
            shape = space.layout.shapes[i]
            if len(shape) < 2:
                raise InvalidInputError(
                    f"{self!r} must act on matrices to find their {groups};"
                    f" {space.layout.names[i]!r} has shape {shape}. Name the matrices with on=."
                )


def sum_for_tensor(terms: Sequence[Term], theta: Tensor) -> PieceSum:
    """A plan for terms used directly on a tensor, which only those on all parameters can be."""
    check_floating("theta", theta)
    for term in terms:
        if term.on is not None:
            raise InvalidInputError(
                f"{term!r} acts on named parameters and cannot be used on a bare tensor; bind it"
                " with Penalty(layout, ...) or leave on= out."
            )
    space = Space(Layout(("theta",), (tuple(theta.shape),)), named=False)
    return PieceSum([piece for term in terms for piece in term.bind(space)], space)


def check_together(terms: Sequence[Term]) -> None:
    """Refuse terms that cannot go together on any layout; the rest is seen when they are bound.

    Terms with the same `on` certainly meet, and a term on all parameters meets every other one, so
    a single stand-in matrix on which they all act shows what no layout could make right.
    """
    patterns: set[str | Sequence[str] | None] = {t.on for t in terms if t.on is not None}
    for pattern in patterns or {None}:
        name = "theta" if pattern is None else pattern if isinstance(pattern, str) else pattern[0]
        space = Space(Layout((name,), ((2, 2),)))
        meeting = [term for term in terms if term.on in (None, pattern)]
        combine([p for term in meeting for p in term._pieces(space, (0,))], space.layout)
