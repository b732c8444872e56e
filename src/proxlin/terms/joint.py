"""Joint prox: which pieces can be combined exactly, and in which order their proxes are applied.

    argmin_x  step * sum_k g_k(x) + indicator_C(x) + 1/2 ||x - v||^2

Write P_f for the prox of f and Df for its subdifferential. Everything rests on one fact (Yu, On
Decomposing the Proximal Map, NeurIPS 2013): with y = P_f(v) and u = P_g(y), if Df(y) is a subset of
Df(u), then v - u = (v - y) + (y - u) lies in Df(u) + Dg(u), so u = P_{f+g}(v). The rules, in the
order in which they are applied:

1. Ties. The points with tied partners equal form a subspace T, whose normal space is the same at
   each of its points; so P_{g + T} = P_g P_T whenever P_g maps T into T. That holds if g does not
   change when the partners are swapped (P_g then commutes with the swap). On T, g(x) equals the
   mean of g(x) and g(swapped x), which never changes: `_mirror` and `add_up` put this mean in
   the place of g.
2. Ridge with one weight a: completing the square gives P_{s(g + a/2 ||.||^2)}(v) =
   P_{s/(1+sa) g}(v/(1+sa)), also with constraints. A piece that couples coordinates needs the same
   a on all of them.
3. Separable pieces: in one dimension the minimiser over an interval is the free minimiser clipped
   to it, so soft-threshold, then clip.
4. Weighted l1 and half-lines (x >= 0, x <= 0, x = 0), then any g that ignores signs (norms, balls):
   P_g keeps zeros at zero and never flips a sign, and going from y_j to 0 or to a number of the
   same sign only enlarges the subdifferential of l1 + half-line. Other intervals do not have this
   property, since P_g leaves their end points.
5. Any sublinear f (sums of norms, l1, half-lines) inside a block of coordinates, then any
   h(||.||_2) of the block, h convex and increasing (Euclidean norm, Euclidean ball): its P shrinks
   y to ty, 0 <= t <= 1, and Df(y) is a subset of Df(ty) by homogeneity. Hence blocks must be
   nested, all but the innermost Euclidean, and balls, which are not sublinear, outermost.
6. Norm and ball of the same p on the same block: u = P_norm(v) if it lies in the ball; otherwise
   the minimiser lies on the sphere, where the norm is constant, and is the projection of v.
7. Simplex: there l1 is linear, sum b_j x_j, so project v - s b; half-lines and intervals that
   contain [0, total] add nothing. Nothing else that couples its coordinates may act on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf

from proxlin.errors import CombinationError, InvalidInputError
from proxlin.terms.layout import Layout
from proxlin.terms.pieces import Coupled, Piece, Separable, Tie

Partners = dict[int, tuple[int, bool]]  # position -> tied position, and whether transposed


@dataclass(frozen=True)
class Coefficients:
    """The separable part of g and C on one parameter."""

    quadratic: float = 0.0
    l1: float = 0.0
    low: float = -inf
    high: float = inf
    slope: float = 0.0  # of the linear term that l1 becomes on a simplex


@dataclass(frozen=True)
class Joint:
    """A recipe: average the ties, scale and threshold each parameter, then each of `coupled`."""

    separable: tuple[Coefficients, ...]  # one for each parameter
    coupled: tuple[Coupled, ...]
    partners: Partners


def combine(pieces: Sequence[Piece], layout: Layout) -> Joint:
    """Find the recipe, or raise `CombinationError` with what stands in the way."""
    partners = _partners([piece for piece in pieces if isinstance(piece, Tie)], layout)
    coupled = [piece for piece in pieces if isinstance(piece, Coupled)]
    separable = [piece for piece in pieces if isinstance(piece, Separable)]
    boxes = [ball for ball in coupled if _is_box(ball, coupled)]
    separable += [Separable(b.term, b.where, low=-b.size, high=b.size) for b in boxes]
    coupled = _merge(_mirror([c for c in coupled if c not in boxes], partners), layout)
    sums = add_up(separable, len(layout.names), partners)
    _check_not_empty(separable, sums, partners, layout)
    for piece in coupled:
        _check_ridge(piece, separable, sums, partners, layout)
        _check_interval(piece, separable, sums, partners, layout)
    coupled.sort(key=lambda c: (0 if c.groups else len(c.where), c.bounds, c.p == 2))
    for inner, outer in combinations(coupled, 2):
        _check_pair(inner, outer, layout)
    for piece in coupled:
        if piece.kind == "simplex":
            # Rule 7; a slope that is the same everywhere is constant on the simplex.
            constant = len({sums[i].l1 for i in piece.where}) == 1
            for i in piece.where:
                slope = 0.0 if constant else sums[i].l1
                sums[i] = Coefficients(quadratic=sums[i].quadratic, slope=slope)
    return Joint(tuple(sums), tuple(coupled), partners)


def add_up(
    separable: Iterable[Separable], count: int, partners: Partners | None = None
) -> list[Coefficients]:
    """Add up the separable pieces for each of `count` parameters; rule 1 for tied ones."""
    sums = [Coefficients()] * count
    for piece in separable:
        for i in piece.where:
            sums[i] = Coefficients(
                sums[i].quadratic + piece.quadratic,
                sums[i].l1 + piece.l1,
                max(sums[i].low, piece.low),
                min(sums[i].high, piece.high),
            )
    for i, (j, _) in (partners or {}).items():
        if i < j:
            a, b = sums[i], sums[j]
            sums[i] = sums[j] = Coefficients(
                (a.quadratic + b.quadratic) / 2,
                (a.l1 + b.l1) / 2,
                max(a.low, b.low),
                min(a.high, b.high),
            )
    return sums


def _partners(ties: Sequence[Tie], layout: Layout) -> Partners:
    partners: Partners = {}
    owner: dict[int, str] = {}
    for tie in ties:
        for i, j in tie.pairs:
            mine, other = layout.shapes[i], layout.shapes[j]
            if tie.transposed and len(other) >= 2:
                other = (other[1], other[0], *other[2:])
            if mine != other or (tie.transposed and len(mine) < 2):
                raise InvalidInputError(
                    f"{tie.term} needs {'transposed' if tie.transposed else 'equal'} shapes; got"
                    f" {layout.names[i]!r} {layout.shapes[i]} and {layout.names[j]!r}"
                    f" {layout.shapes[j]}; name other parameters or change transposed=."
                )
            for k in (i, j):
                if k in owner:
                    raise CombinationError(
                        f"{owner[k]} and {tie.term} both tie {layout.names[k]!r}, and only pairs"
                        " can be tied; use one parameter for all of them in the module or drop one."
                    )
                owner[k] = tie.term
            partners[i], partners[j] = (j, tie.transposed), (i, tie.transposed)
    return partners


def _is_box(ball: Coupled, coupled: Sequence[Coupled]) -> bool:
    # |x_j| <= radius for each j is separable, unless rule 6 wants it together with its norm.
    together = any(c.kind == "norm" and c.p == inf and c.where == ball.where for c in coupled)
    return ball.kind == "ball" and ball.p == inf and not together


def _mirror(coupled: Sequence[Coupled], partners: Partners) -> list[Coupled]:
    # Rule 1: half of a norm moves to the partners, a ball or simplex is copied there.
    mirrored: list[Coupled] = []
    for piece in coupled:
        where = tuple(sorted(partners.get(i, (i, False))[0] for i in piece.where))
        groups = piece.groups
        if groups and partners.get(piece.where[0], (0, False))[1]:
            groups = "columns" if groups == "rows" else "rows"
        if where == piece.where and groups == piece.groups:
            mirrored.append(piece)
            continue
        size = piece.size / 2 if piece.kind == "norm" else piece.size
        mirrored.append(replace(piece, size=size))
        mirrored.append(replace(piece, size=size, where=where, groups=groups))
    return mirrored


def _merge(coupled: Sequence[Coupled], layout: Layout) -> list[Coupled]:
    merged: dict[object, Coupled] = {}
    for piece in coupled:
        key = (piece.kind, piece.p, piece.where, piece.groups)
        first = merged.setdefault(key, piece)
        if first is piece:
            continue
        if piece.kind == "simplex" and piece.size != first.size:
            raise _empty(first.term, piece.term, piece.where[0], layout)
        sizes = (first.size, piece.size)
        merged[key] = replace(first, size=sum(sizes) if piece.kind == "norm" else min(sizes))
    for piece in list(merged.values()):
        ball = ("ball", piece.p, piece.where, piece.groups)
        if piece.kind == "norm" and piece.p != 2 and ball in merged:  # rule 6; p = 2 has rule 5
            bound = merged.pop(ball)
            both = replace(piece, radius=bound.size, term=f"{piece.term} with {bound.term}")
            merged["norm", piece.p, piece.where, piece.groups] = both
    return list(merged.values())


def _acting_on(
    where: Iterable[int], separable: Sequence[Separable], partners: Partners
) -> list[Separable]:
    """The separable pieces on these parameters or on those tied to them."""
    near = {k for i in where for k in (i, partners.get(i, (i, False))[0])}
    return [piece for piece in separable if near & set(piece.where)]


def _check_not_empty(
    separable: Sequence[Separable],
    sums: Sequence[Coefficients],
    partners: Partners,
    layout: Layout,
) -> None:
    for i, total in enumerate(sums):
        if total.low > total.high:
            acting = _acting_on([i], separable, partners)
            first = next(piece for piece in acting if piece.low == total.low)
            second = next(piece for piece in acting if piece.high == total.high)
            raise _empty(first.term, second.term, i, layout)


def _check_ridge(
    piece: Coupled,
    separable: Sequence[Separable],
    sums: Sequence[Coefficients],
    partners: Partners,
    layout: Layout,
) -> None:
    weights = {sums[i].quadratic: layout.names[i] for i in piece.where}
    if max(weights) - min(weights) > 1e-12 * max(weights):  # equal up to the rounding of sums
        acting = _acting_on(piece.where, separable, partners)
        ridge = next(other.term for other in acting if other.quadratic)
        listed = ", ".join(f"{weight:g} on {name!r}" for weight, name in weights.items())
        raise CombinationError(
            f"{ridge} and {piece.term} have no exact joint prox, because the quadratic weight is"
            f" not the same wherever {piece.term} acts ({listed}); give it one weight there, or use"
            " on= to separate them."
        )


def _check_interval(
    piece: Coupled,
    separable: Sequence[Separable],
    sums: Sequence[Coefficients],
    partners: Partners,
    layout: Layout,
) -> None:
    for i in piece.where:
        for interval in _acting_on([i], separable, partners):
            if piece.kind == "simplex":
                fits = interval.low <= 0 and interval.high >= piece.size
            else:
                redundant = interval.low < sums[i].low, interval.high > sums[i].high
                fits = (interval.low in (-inf, 0.0) or redundant[0]) and (
                    interval.high in (0.0, inf) or redundant[1]
                )
            if not fits:
                advice = f"replace {interval.term} by NonNegative()"
                raise _refusal(interval.term, piece.term, i, layout, advice)


def _check_pair(inner: Coupled, outer: Coupled, layout: Layout) -> None:
    shared = set(inner.where) & set(outer.where)
    if not shared:
        return
    nested = not outer.groups and set(inner.where) <= set(outer.where)
    if "simplex" in (inner.kind, outer.kind) or not nested or inner.bounds or outer.p != 2:
        round_would_do = nested and not inner.bounds and outer.kind != "simplex"
        advice = f"take p=2 in {outer.term}" if round_would_do else "drop one of them"
        raise _refusal(inner.term, outer.term, min(shared), layout, advice)


def _refusal(first: str, second: str, i: int, layout: Layout, advice: str) -> CombinationError:
    return CombinationError(
        f"{first} and {second} both act on {layout.names[i]!r} and have no exact joint prox;"
        f" use on= to separate them, or {advice}."
    )


def _empty(first: str, second: str, i: int, layout: Layout) -> CombinationError:
    return CombinationError(
        f"{first} and {second} leave no point for {layout.names[i]!r}; loosen or drop one of them."
    )
