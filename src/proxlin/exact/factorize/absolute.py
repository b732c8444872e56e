"""Least absolute deviations for many rows at once, by a primal-dual interior-point method.

Weighted least squares creeps at p = 1: its weights grow without bound where the answer fits
exactly. Here each step costs one weighted Gram matrix a row as well, and a dozen steps give ten
digits together with a proof: the dual point y.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.exact.factorize.quadratics import distinct_products, full_matrices

_MAX_STEPS = 60
_TINY_LOSS = 1e-3  # in units of a row's largest cell: below, gaps count absolutely
_CROWD = 0.8  # share of unfinished rows below which the others are set aside
_BACK_OFF = 0.9995  # share of the way to the border of the positive orthant


@dataclass
class _Point:
    """One iterate of r = u V - x = s - t, 1 - y = a, 1 + y = b, V y + alpha u = z."""

    u: Tensor  # (B, r) embedding
    s: Tensor  # (B, m) positive part of the residual
    t: Tensor  # (B, m) negative part
    y: Tensor  # (B, m) dual point in (-1, 1)
    z: Tensor  # (B, r) multiplier of u >= 0; 0 if u is free

    def rows(self, chosen: Tensor) -> _Point:
        """The same for some of the rows."""
        return _Point(*(part[chosen] for part in vars(self).values()))


def least_absolute(
    x: Tensor,
    observed: Tensor | None,
    basis: Tensor,
    *,
    alpha: float = 0.0,
    non_negative: bool = False,
    tolerance: float = 1e-9,
) -> tuple[Tensor, Tensor]:
    """argmin_u ||observed * (u V - x)||_1 + alpha/2 ||u||^2, u >= 0 if asked, and a dual point y.

    |y| <= 1, and V y + alpha u is 0 to rounding (>= 0 where u >= 0 is asked), so that the loss
    cannot fall below what `lower_bound` makes of y. Rows stop at a relative gap of `tolerance`.
    """
    scale = x.abs().amax(-1, keepdim=True)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    size = basis.square().mean().sqrt()
    size = torch.where(size > 0, size, torch.ones_like(size))
    # In units of the row and of the basis: u' = u size / scale, alpha' = alpha scale / size^2.
    problem = _Rows(
        x / scale,
        torch.ones_like(x) if observed is None else observed.to(x.dtype),
        basis / size,
        distinct_products(basis / size),
        alpha * scale / size**2,
        non_negative,
    )
    whole, point = problem, problem.start()
    answer = _Point(*(torch.empty_like(part) for part in vars(point).values()))
    active = torch.arange(len(x), device=x.device)
    for step in range(_MAX_STEPS):
        point, moved = problem.advance(point)
        gap, value = problem.gap(point)
        going = (gap > tolerance * value.clamp(min=_TINY_LOSS)) & moved
        left = int(going.sum())
        if left and left > _CROWD * len(active) and step < _MAX_STEPS - 1:
            continue  # too few are done to pay for sorting them out
        for part, new in zip(vars(answer).values(), vars(point).values(), strict=True):
            part[active] = new
        if not left:
            break
        active, point, problem = active[going], point.rows(going), problem.rows(going)
    u = whole.exact_zeros(answer, tolerance) if non_negative else answer.u
    return u * scale / size, answer.y


@dataclass
class _Rows:
    x: Tensor
    observed: Tensor
    basis: Tensor
    products: Tensor  # (m, r (r + 1) / 2) of the rows of the basis
    alpha: Tensor  # (B, 1)
    non_negative: bool

    def rows(self, chosen: Tensor) -> _Rows:
        return _Rows(
            self.x[chosen],
            self.observed[chosen],
            self.basis,
            self.products,
            self.alpha[chosen],
            self.non_negative,
        )

    def start(self) -> _Point:
        """Both parts of the residual well inside, their difference right, y in the middle."""
        rank = len(self.basis)
        u = self.x.new_zeros(len(self.x), rank)
        if self.non_negative:
            u = u + 1.0 / rank
        residual = (u @ self.basis - self.x) * self.observed
        slack = residual.abs().sum(-1, keepdim=True) / self.observed.sum(-1, keepdim=True).clamp(
            min=1
        )
        slack = slack.clamp(min=1e-3)
        s = residual.clamp(min=0) + slack
        t = (-residual).clamp(min=0) + slack
        z = torch.ones_like(u) if self.non_negative else torch.zeros_like(u)
        return _Point(u, s, t, torch.zeros_like(residual), z)

    def exact_zeros(self, q: _Point, tolerance: float) -> Tensor:
        """u with 0 for the entries that are on their way to it.

        Those have u << z, but where the two are alike only the loss can tell: rows whose loss
        would rise are asked for a clearer sign.
        """
        value = self._value(q.u)
        limit = value + tolerance * value.clamp(min=_TINY_LOSS)
        answer, undecided = q.u.clone(), torch.ones_like(value, dtype=torch.bool)
        for ratio in (1.0, 1e-3, 1e-6):
            tried = torch.where(q.u > ratio * q.z, q.u, torch.zeros_like(q.u))
            good = undecided & (self._value(tried) <= limit)
            answer = torch.where(good.unsqueeze(-1), tried, answer)
            undecided = undecided & ~good
        return answer

    def _value(self, u: Tensor) -> Tensor:
        residual = (u @ self.basis - self.x) * self.observed
        return residual.abs().sum(-1) + 0.5 * (self.alpha * u.square()).sum(-1)

    def gap(self, q: _Point) -> tuple[Tensor, Tensor]:
        """(loss - dual bound, loss) of each row."""
        value = self._value(q.u)
        bound = lower_bound(
            self.x, q.y, q.u, self.basis, alpha=self.alpha, non_negative=self.non_negative
        )
        return value - bound, value

    def advance(self, q: _Point) -> tuple[_Point, Tensor]:
        """One predictor-corrector step; which rows could still move."""
        w = self.observed
        over_a, over_b = 1 / (1 - q.y), 1 / (1 + q.y)
        primal = (self.x - q.u @ self.basis + q.s - q.t) * w
        dual = q.z - q.y @ self.basis.T - self.alpha * q.u
        weight = w / (q.s * over_a + q.t * over_b)
        grams = full_matrices(weight @ self.products, len(self.basis))
        diagonal = self.alpha.expand_as(q.u)
        if self.non_negative:
            diagonal = diagonal + q.z / q.u
        floor = grams.diagonal(dim1=-2, dim2=-1).amax(-1, keepdim=True).clamp(min=1e-30)
        diagonal = diagonal + floor * (16 * torch.finfo(self.x.dtype).eps)
        factor, _ = torch.linalg.cholesky_ex(grams + torch.diag_embed(diagonal))

        def direction(cs: Tensor, ct: Tensor, cu: Tensor) -> _Point:
            """The Newton step after which a s, b t and z u have gained cs, ct and cu."""
            cs, ct = cs * over_a, ct * over_b
            pull = primal + cs - ct
            right = dual + (weight * pull) @ self.basis.T
            if self.non_negative:
                right = right + cu / q.u
            du = torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
            dy = weight * (du @ self.basis - pull)
            ds, dt = cs + q.s * over_a * dy, ct - q.t * over_b * dy
            dz = (cu - q.z * du) / q.u if self.non_negative else torch.zeros_like(du)
            return _Point(du, ds, dt, dy, dz)

        count = 2 * w.sum(-1, keepdim=True)
        if self.non_negative:
            count = count + q.u.shape[-1]
        upper, lower, bound = (1 - q.y) * q.s * w, (1 + q.y) * q.t * w, q.z * q.u
        mean = sum(part.sum(-1, keepdim=True) for part in (upper, lower, bound)) / count
        d = direction(-upper, -lower, -bound)
        along, across = self._lengths(q, d, over_a, over_b)
        # Products are bilinear: what they come to at those lengths needs no new point.
        cross_s, cross_t, cross_u = d.y * d.s, d.y * d.t, d.u * d.z
        after = self._after(q, d, along, across)
        centre = (after / count / mean).clamp(0, 1) ** 3 * mean
        d = direction(
            (centre * w - upper + cross_s), (centre * w - lower - cross_t), centre - bound - cross_u
        )
        along, across = (_BACK_OFF * length for length in self._lengths(q, d, over_a, over_b))
        new = _Point(
            q.u + along * d.u,
            q.s + along * d.s,
            q.t + along * d.t,
            q.y + across * d.y,
            q.z + across * d.z,
        )
        fine = torch.isfinite(new.u).all(-1) & torch.isfinite(new.y).all(-1)
        keep = [
            torch.where(fine.unsqueeze(-1), part, old)
            for part, old in zip(vars(new).values(), vars(q).values(), strict=True)
        ]
        return _Point(*keep), fine

    def _after(self, q: _Point, d: _Point, along: Tensor, across: Tensor) -> Tensor:
        """The sum of all products at these lengths."""
        y, w = q.y + across * d.y, self.observed
        s, t = q.s + along * d.s, q.t + along * d.t
        total = ((s + t - y * (s - t)) * w).sum(-1, keepdim=True)
        return total + ((q.z + across * d.z) * (q.u + along * d.u)).sum(-1, keepdim=True)

    def _lengths(
        self, q: _Point, d: _Point, over_a: Tensor, over_b: Tensor
    ) -> tuple[Tensor, Tensor]:
        """How far primal and dual variables may go along d, at most 1."""
        along = torch.maximum(_pace(-d.s / q.s), _pace(-d.t / q.t))
        across = torch.maximum(_pace(d.y * over_a), _pace(-d.y * over_b))
        if self.non_negative:
            along = torch.maximum(along, _pace(-d.u / q.u))
            across = torch.maximum(across, _pace(-d.z / q.z))
        if bool((self.alpha > 0).any()):  # the dual equation then holds u too: one length for both
            along = across = torch.maximum(along, across)
        return 1 / along, 1 / across


def _pace(share: Tensor) -> Tensor:
    """The largest share of its distance to the border that an entry covers, at least 1."""
    return share.amax(-1, keepdim=True).clamp(min=1.0)


def lower_bound(
    x: Tensor, y: Tensor, u: Tensor, basis: Tensor, *, alpha: Tensor | float, non_negative: bool
) -> Tensor:
    """-<y, x> + min_u <V y, u> + alpha/2 ||u||^2 for each row: no loss ||u V - x||_p lies below it.

    The dual point y lies in the ball of the dual norm.

    Without alpha the minimum is 0 only if V y = 0 (>= 0 for u >= 0); what rounding leaves of V y
    is charged at twice the size of u.
    """
    slope = y @ basis.T
    if non_negative:
        slope = slope.clamp(max=0)
    bound = -(y * x).sum(-1)
    charge = 2 * (slope.abs() * u.abs()).sum(-1)
    ridge = torch.as_tensor(alpha, dtype=x.dtype, device=x.device).expand(len(x), 1)[:, 0]
    exact = slope.square().sum(-1) / (2 * torch.where(ridge > 0, ridge, 1.0))
    return bound - torch.where(ridge > 0, exact, charge)
