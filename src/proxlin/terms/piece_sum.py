"""PieceSum: the pieces of g and C bound to a layout, ready to be evaluated on a flat vector."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import inf
from operator import itemgetter

import torch
from torch import Tensor

from proxlin._checks import check_floating, check_non_negative
from proxlin.errors import InvalidInputError
from proxlin.prox import norm, project_ball, project_simplex, prox_norm
from proxlin.terms.joint import Coefficients, add_up, combine
from proxlin.terms.pieces import Coupled, Piece, Separable, Space, Tie


class PieceSum:
    """g(x) + indicator_C(x) as value, prox and membership test; refuses what has no joint prox."""

    def __init__(self, pieces: Sequence[Piece], space: Space) -> None:
        self.space = space
        self.pieces = tuple(pieces)
        self.sizes = list(space.layout.sizes)
        self.joint = combine(pieces, space.layout)
        separable = [piece for piece in pieces if isinstance(piece, Separable)]
        self.separable = tuple(add_up(separable, len(self.sizes)))  # as written, for the value

    def value(self, theta: Tensor) -> Tensor:
        """g(theta), summed in float64, in the type of theta."""
        self._check(theta)
        # The empty sum ties the result to theta's graph even when g = 0.
        total = theta[:0].sum(dtype=torch.float64)
        for same, part in self._runs(theta, self.separable):
            if same.quadratic:
                total = total + 0.5 * same.quadratic * part.square().sum(dtype=torch.float64)
            if same.l1:
                total = total + same.l1 * part.abs().sum(dtype=torch.float64)
        for piece in self.pieces:
            if isinstance(piece, Coupled) and piece.kind == "norm":
                norms = norm(self._vectors(theta, piece), p=piece.p)
                total = total + piece.size * norms.sum(dtype=torch.float64)
        return total.to(theta.dtype)

    def prox(self, theta: Tensor, step: float) -> Tensor:
        """argmin_x  step * g(x) + indicator_C(x) + 1/2 ||x - theta||^2, by the rules of `joint`."""
        self._check(theta)
        step = check_non_negative("step", step)
        x = self._tied(theta, average=True)
        runs = self._runs(x, self.joint.separable)
        shrunk = [_prox_separable(same, part, step) for same, part in runs]
        x = shrunk[0] if len(shrunk) == 1 else torch.cat(shrunk)
        x = self._coupled(x, step)
        # Sums over transposed groups may round differently; partners must stay equal to the bit.
        x = self._tied(x, average=False)
        return x.clone() if x is theta else x

    def contains(self, theta: Tensor, tolerance: float) -> bool:
        """Whether theta lies in C, up to `tolerance` relative to the size of the constraint."""
        self._check(theta)
        tolerance = check_non_negative("tolerance", tolerance)
        exact = theta.detach().double()
        return all(self._holds(piece, exact, tolerance) for piece in self.pieces)

    def _check(self, theta: Tensor) -> None:
        check_floating("theta", theta)
        if theta.shape != (self.space.layout.size,):
            raise InvalidInputError(
                f"theta must be a flat vector of {self.space.layout.size} numbers; got shape"
                f" {tuple(theta.shape)}. Flatten the parameters with layout.join(...)."
            )

    def _runs(
        self, x: Tensor, separable: Sequence[Coefficients]
    ) -> list[tuple[Coefficients, Tensor]]:
        """Views of the stretches of x with the same coefficients; x itself if all agree."""
        if len(set(separable)) == 1:
            return [(separable[0], x)]
        runs = [
            (same, sum(size for _, size in members))
            for same, members in groupby(zip(separable, self.sizes, strict=True), itemgetter(0))
        ]
        parts = torch.split(x, [length for _, length in runs])
        return [(same, part) for (same, _), part in zip(runs, parts, strict=True)]

    def _coupled(self, x: Tensor, step: float) -> Tensor:
        parts: list[Tensor] | None = None  # x in pieces, one for each parameter; None: x is whole
        for piece in self.joint.coupled:
            # Rule 2: one quadratic weight wherever the piece acts.
            shrunk = step / (1.0 + step * self.joint.separable[piece.where[0]].quadratic)
            if piece.groups is None and len(piece.where) == len(self.sizes):
                whole = x if parts is None else torch.cat(parts)
                x, parts = _prox(piece, whole, shrunk), None
                continue
            parts = list(torch.split(x, self.sizes)) if parts is None else parts
            first = piece.where[0]
            if piece.groups is not None:
                vectors = self.space.vectors(parts[first], first, piece.groups)
                parts[first] = self.space.flatten(
                    _prox(piece, vectors, shrunk), first, piece.groups
                )
                continue
            new = _prox(piece, torch.cat([parts[i] for i in piece.where]), shrunk)
            lengths = [self.sizes[i] for i in piece.where]
            for i, part in zip(piece.where, torch.split(new, lengths), strict=True):
                parts[i] = part
        return x if parts is None else torch.cat(parts)

    def _tied(self, x: Tensor, *, average: bool) -> Tensor:
        if not self.joint.partners:
            return x
        parts = list(torch.split(x, self.sizes))
        for i, (j, transposed) in self.joint.partners.items():
            if i < j:
                if average:
                    other = self.space.transposed(parts[j], j) if transposed else parts[j]
                    parts[i] = (parts[i] + other) / 2
                parts[j] = self.space.transposed(parts[i], i) if transposed else parts[i]
        return torch.cat(parts)

    def _holds(self, piece: Piece, theta: Tensor, tolerance: float) -> bool:
        parts = torch.split(theta, self.sizes)
        if isinstance(piece, Tie):
            return all(
                self._equal(parts, i, j, piece.transposed, tolerance) for i, j in piece.pairs
            )
        if isinstance(piece, Separable):
            low = piece.low - tolerance * max(1.0, abs(piece.low)) if piece.low > -inf else -inf
            high = piece.high + tolerance * max(1.0, abs(piece.high)) if piece.high < inf else inf
            if low == -inf and high == inf:
                return True
            return all(bool(((parts[i] >= low) & (parts[i] <= high)).all()) for i in piece.where)
        if piece.kind == "norm":
            return True
        vectors = self._vectors(theta, piece)
        slack = tolerance * piece.size
        if piece.kind == "ball":
            return bool((norm(vectors, p=piece.p) <= piece.size + slack).all())
        sums_up = (vectors.sum(-1) - piece.size).abs() <= slack
        return bool(sums_up.all()) and bool((vectors >= -slack).all())

    def _equal(
        self, parts: Sequence[Tensor], i: int, j: int, transposed: bool, tolerance: float
    ) -> bool:
        other = self.space.transposed(parts[j], j) if transposed else parts[j]
        return bool(((parts[i] - other).abs() <= tolerance * parts[i].abs().clamp(min=1.0)).all())

    def _vectors(self, theta: Tensor, piece: Coupled) -> Tensor:
        """What `piece` acts on: one vector, or a matrix with one group in each row."""
        if piece.groups is None and len(piece.where) == len(self.sizes):
            return theta
        parts = torch.split(theta, self.sizes)
        if piece.groups is None:
            return torch.cat([parts[i] for i in piece.where])
        return self.space.vectors(parts[piece.where[0]], piece.where[0], piece.groups)


def _prox_separable(same: Coefficients, v: Tensor, step: float) -> Tensor:
    """Rules 2, 3 and 7 on a stretch of parameters: scale, shift, soft-threshold, clip."""
    if same.quadratic:
        shrink = 1.0 / (1.0 + step * same.quadratic)
        v, step = v * shrink, step * shrink
    if same.slope:
        v = v - step * same.slope
    if same.l1:
        v = v - _clipped(v, -step * same.l1, step * same.l1)
    most = torch.finfo(v.dtype).max  # a bound beyond is none
    if same.low > -most or same.high < most:
        v = _clipped(v, same.low, same.high)
    return v


def _clipped(v: Tensor, low: float, high: float) -> Tensor:
    """`clamp` by bounds that its type need not hold."""
    most = torch.finfo(v.dtype).max
    return v.clamp(*(min(max(bound, -most), most) for bound in (low, high)))


def _prox(piece: Coupled, v: Tensor, step: float) -> Tensor:
    """The prox of one coupled piece for each vector along the last dimension."""
    if piece.kind == "ball":
        return project_ball(v, p=piece.p, radius=piece.size)
    if piece.kind == "simplex":
        return project_simplex(v, total=piece.size)
    shrunk = prox_norm(v, p=piece.p, step=step * piece.size) if step * piece.size > 0 else v
    if piece.radius == inf:
        return shrunk
    inside = norm(shrunk, p=piece.p) <= piece.radius
    return torch.where(
        inside.unsqueeze(-1), shrunk, project_ball(v, p=piece.p, radius=piece.radius)
    )
