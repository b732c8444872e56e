"""Least absolute deviations for many rows at once, by a primal-dual interior-point method.

Weighted least squares creeps at p = 1: its weights grow without bound where the answer fits
exactly. Here each step costs one weighted Gram matrix a row as well, and a dozen steps give ten
digits together with a proof: the dual point y.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.factorize.quadratics import weighted_grams

_MAX_STEPS = 60
_TINY_LOSS = 1e-3  # in units of a row's largest cell: below, gaps count absolutely
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
    known: Tensor | None,
    basis: Tensor,
    *,
    alpha: float = 0.0,
    non_negative: bool = False,
    tolerance: float = 1e-9,
) -> tuple[Tensor, Tensor]:
    """argmin_u ||known * (u V - x)||_1 + alpha/2 ||u||^2, u >= 0 if asked, and a dual point y.

    |y| <= 1, and V y + alpha u is 0 to rounding (>= 0 where u >= 0 is asked), so that the loss
    cannot fall below what `lower_bound` makes of y. Rows stop at a relative gap of `tolerance`.
    """
    scale = x.abs().amax(-1, keepdim=True)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    size = basis.square().mean().sqrt()
    size = torch.where(size > 0, size, torch.ones_like(size))
    # In units of the row and of the basis: u' = u size / scale, alpha' = alpha scale / size^2.
    problem = _Rows(
        x / scale, torch.ones_like(x) if known is None else known.to(x.dtype), basis / size,
        alpha * scale / size**2, non_negative,
    )  # fmt: skip
    point = problem.start()
    answer = point.rows(torch.arange(len(x), device=x.device))
    active = torch.arange(len(x), device=x.device)
    for _ in range(_MAX_STEPS):
        point, moved = problem.advance(point)
        for part, new in zip(vars(answer).values(), vars(point).values(), strict=True):
            part[active] = new
        gap, value = problem.gap(point)
        going = (gap > tolerance * value.clamp(min=_TINY_LOSS)) & moved
        if not bool(going.any()):
            break
        active, point, problem = active[going], point.rows(going), problem.rows(going)
    u = answer.u
    if non_negative:
        u = torch.where(u > answer.z, u, torch.zeros_like(u))
    return u * scale / size, answer.y


@dataclass
class _Rows:
    x: Tensor
    known: Tensor
    basis: Tensor
    alpha: Tensor  # (B, 1)
    non_negative: bool

    def rows(self, chosen: Tensor) -> _Rows:
        return _Rows(
            self.x[chosen], self.known[chosen], self.basis, self.alpha[chosen], self.non_negative
        )

    def start(self) -> _Point:
        rank = len(self.basis)
        u = self.x.new_zeros(len(self.x), rank)
        if self.non_negative:
            u = u + 1.0 / rank
        residual = (u @ self.basis - self.x) * self.known
        # Both parts well inside, the difference right.
        slack = residual.abs().sum(-1, keepdim=True) / self.known.sum(-1, keepdim=True).clamp(min=1)
        slack = slack.clamp(min=1e-3)
        s = residual.clamp(min=0) + slack
        t = (-residual).clamp(min=0) + slack
        z = torch.ones_like(u) if self.non_negative else torch.zeros_like(u)
        return _Point(u, s, t, torch.zeros_like(residual), z)

    def gap(self, q: _Point) -> tuple[Tensor, Tensor]:
        """(loss - dual bound, loss) of each row."""
        residual = (q.u @ self.basis - self.x) * self.known
        value = residual.abs().sum(-1) + 0.5 * (self.alpha * q.u.square()).sum(-1)
        bound = lower_bound(self.x, q.y, q.u, self.basis, self.alpha, self.non_negative)
        return value - bound, value

    def advance(self, q: _Point) -> tuple[_Point, Tensor]:
        """One predictor-corrector step; which rows could still move."""
        a, b, w = 1 - q.y, 1 + q.y, self.known
        primal = (self.x - q.u @ self.basis + q.s - q.t) * w
        dual = q.z - q.y @ self.basis.T - self.alpha * q.u
        weight = w / (q.s / a + q.t / b)
        grams = weighted_grams(weight, self.basis)
        diagonal = self.alpha.expand_as(q.u)
        if self.non_negative:
            diagonal = diagonal + q.z / q.u
        floor = grams.diagonal(dim1=-2, dim2=-1).amax(-1, keepdim=True).clamp(min=1e-30)
        diagonal = diagonal + floor * (16 * torch.finfo(self.x.dtype).eps)
        factor, _ = torch.linalg.cholesky_ex(grams + torch.diag_embed(diagonal))

        def direction(cs: Tensor, ct: Tensor, cu: Tensor) -> tuple[Tensor, ...]:
            """The Newton step for a s = cs + a s and so on: c is what the products should gain."""
            pull = primal + (cs / a - ct / b) * w
            right = dual + (weight * pull) @ self.basis.T
            if self.non_negative:
                right = right + cu / q.u
            du = torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
            dy = weight * (du @ self.basis - pull)
            ds = (cs + q.s * dy) / a * w
            dt = (ct - q.t * dy) / b * w
            dz = (cu - q.z * du) / q.u if self.non_negative else torch.zeros_like(du)
            return du, ds, dt, dy, dz

        count = 2 * w.sum(-1, keepdim=True)
        if self.non_negative:
            count = count + q.u.shape[-1]
        products = (a * q.s * w, b * q.t * w, q.z * q.u)
        mean = sum(part.sum(-1, keepdim=True) for part in products) / count
        du, ds, dt, dy, dz = direction(*(-part for part in products))
        along, across = self._lengths(q, du, ds, dt, dy, dz)
        after = (
            ((a - across * dy) * (q.s + along * ds) * w).sum(-1, keepdim=True)
            + ((b + across * dy) * (q.t + along * dt) * w).sum(-1, keepdim=True)
            + ((q.z + across * dz) * (q.u + along * du)).sum(-1, keepdim=True)
            * (1.0 if self.non_negative else 0.0)
        ) / count
        centre = (after / mean).clamp(0, 1) ** 3 * mean
        du, ds, dt, dy, dz = direction(
            (centre - products[0] + dy * ds) * w,
            (centre - products[1] - dy * dt) * w,
            centre - products[2] - du * dz,
        )
        along, across = (
            _BACK_OFF * length for length in self._lengths(q, du, ds, dt, dy, dz)
        )
        new = _Point(
            q.u + along * du, q.s + along * ds, q.t + along * dt,
            q.y + across * dy, q.z + across * dz,
        )  # fmt: skip
        fine = torch.isfinite(new.u).all(-1) & torch.isfinite(new.y).all(-1)
        keep = [
            torch.where(fine.unsqueeze(-1), part, old)
            for part, old in zip(vars(new).values(), vars(q).values(), strict=True)
        ]
        return _Point(*keep), fine

    def _lengths(
        self, q: _Point, du: Tensor, ds: Tensor, dt: Tensor, dy: Tensor, dz: Tensor
    ) -> tuple[Tensor, Tensor]:
        """How far primal and dual variables may go, at most 1."""
        along = torch.minimum(_to_border(q.s, ds), _to_border(q.t, dt))
        across = torch.minimum(_to_border(1 - q.y, -dy), _to_border(1 + q.y, dy))
        if self.non_negative:
            along = torch.minimum(along, _to_border(q.u, du))
            across = torch.minimum(across, _to_border(q.z, dz))
        if bool((self.alpha > 0).any()):  # the dual equation then holds u too: one length for both
            along = across = torch.minimum(along, across)
        return along, across


def _to_border(value: Tensor, change: Tensor) -> Tensor:
    share = torch.where(change < 0, -value / change, torch.inf)
    return share.amin(-1, keepdim=True).clamp(max=1.0)


def lower_bound(
    x: Tensor, y: Tensor, u: Tensor, basis: Tensor, alpha: Tensor | float, non_negative: bool
) -> Tensor:
    """-<y, x> + min_u <V y, u> + alpha/2 ||u||^2 for each row: no loss at p = 1 lies below it.

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
