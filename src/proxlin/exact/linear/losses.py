"""Row losses as the linear solver sees them: value, smoothed gradient, curvature.

The envelope of ||.||_p with parameter rho is min_u ||u||_p + rho/2 ||u - v||^2. Its gradient is the
projection of rho v on the unit ball of the dual norm, so that every gradient is dual feasible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from proxlin.problem.loss import Pinball, RowLoss
from proxlin.prox import dual_exponent, norm, project_ball

_ON_SPHERE = 1e-14  # a dual vector as short of length 1 as that is on the sphere but for rounding


class Loss(Protocol):
    """sum_i w_i loss(r_i) for rows r (n, t)."""

    @property
    def smooth(self) -> bool:
        """Whether the loss itself has a Lipschitz gradient, so that no envelope is needed."""

    @property
    def separable(self) -> bool:
        """Whether the loss is a sum over the targets."""

    def rows(self, r: Tensor) -> Tensor:
        """The loss of each row: (n, t), target by target, if separable, else (n, 1)."""

    def value(self, r: Tensor, weights: Tensor) -> Tensor:
        """(t,) sums over rows if separable, else (1,)."""

    def row_gaps(self, r: Tensor, dual: Tensor) -> Tensor:
        """loss(r_i) + loss*(d_i) - <d_i, r_i> >= 0, as `rows`; d feasible, r of any size.

        Taken row by row, so that large residuals do not drown the digits of the others.
        """

    def into_ball(self, dual: Tensor) -> Tensor:
        """The nearest dual point of each row that is feasible."""

    def gradient(self, v: Tensor, rho: float) -> Tensor:
        """The gradient of the envelope at each row of v (n, t)."""

    def curvature(self, v: Tensor, gradient: Tensor, rho: float) -> tuple[Tensor, Tensor | None]:
        """a, b (n, t) with generalised Hessian diag(a) - b b^T of the envelope at each row."""

    def excess(self, gradient: Tensor) -> Tensor:
        """(t,) or (1,): by what factor a dual point must shrink to be feasible; at least 1."""

    def conjugate(self, dual: Tensor, weights: Tensor) -> Tensor:
        """(t,) or (1,): sum_i w_i loss*(dual_i) for a feasible dual point."""


def loss_for(row_loss: RowLoss | Pinball, targets: int) -> Loss:
    """The loss of rows of so many targets; with one target every norm is |r|."""
    p = row_loss.p
    if isinstance(row_loss, Pinball):
        tau = row_loss.levels(torch.empty(targets, dtype=torch.float64)).expand(targets)
        # Clipping is one operation where all targets have the same level.
        low = -float(tau[0]) if bool((tau == tau[0]).all()) else -tau
        return TwoSlopes(low, 1.0 + low)
    if p == "mse":
        return Squared()
    if p == 1 or targets == 1:
        return TwoSlopes(-1.0, 1.0)
    return Norm(float(p))


@dataclass(frozen=True)
class TwoSlopes:
    """sum_j high_j r_j+ - low_j r_j-: ||r||_1 and quantiles, some on one side of a bound.

    With a bound c the loss is infinite at r < c (`side` = 1) or r > c (`side` = -1): the conjugate
    is finite for dual points of any size on that side, and known in closed form.
    """

    low: Tensor | float  # < 0, (t,) or one for all targets
    high: Tensor | float  # > 0
    bound: Tensor | None = None  # (n, t) c
    side: int = 1
    smooth = False
    separable = True

    def rows(self, r: Tensor) -> Tensor:
        """high r+ - low r-; bounds are not looked at."""
        return torch.maximum(self.high * r, self.low * r)

    def value(self, r: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum for each target."""
        return weights @ self.rows(r)

    def row_gaps(self, r: Tensor, dual: Tensor) -> Tensor:
        """|r| times how far d is from the slope at r, and what the bound adds."""
        gaps = r * torch.where(r > 0, self.high - dual, self.low - dual)
        return gaps if self.bound is None else gaps + self._conjugates(dual)

    def into_ball(self, dual: Tensor) -> Tensor:
        """Clip to [low, high], on the side of a bound not at all."""
        if self.bound is None:
            return self._clip(dual.clone())
        return dual.clamp(max=self.high) if self.side > 0 else dual.clamp(min=self.low)

    def _clip(self, dual: Tensor) -> Tensor:
        """Clip to [low, high] in place."""
        return dual.clamp_(self.low, self.high)  # type: ignore[arg-type]  # both of one kind

    def gradient(self, v: Tensor, rho: float) -> Tensor:
        """Clip rho v to [low, high], beyond which only the bound pulls."""
        inside = self._clip(v * rho)
        if self.bound is None:
            return inside
        pull = rho * (v - self.bound)  # what moves v on to the bound
        return torch.minimum(inside, pull) if self.side > 0 else torch.maximum(inside, pull)

    def curvature(self, v: Tensor, gradient: Tensor, rho: float) -> tuple[Tensor, Tensor | None]:
        """Rho where the proximal point is at the kink or at the bound, else 0."""
        free = (gradient == self.high) | (gradient == self.low)
        return (~free).to(v.dtype).mul_(rho), None

    def excess(self, gradient: Tensor) -> Tensor:
        """The largest of dual / high and dual / low for each target, at least 1."""
        above, below = gradient / self.high, gradient / self.low
        sides = [above, below] if self.bound is None else [above if self.side > 0 else below]
        return torch.stack([side.amax(0) for side in sides]).amax(0).clamp(min=1.0)

    def conjugate(self, dual: Tensor, weights: Tensor) -> Tensor:
        """0 in [low, high] without a bound; else sup_r dual r - loss(r) up to the bound."""
        if self.bound is None:
            return dual.new_zeros(dual.shape[1])
        return weights @ self._conjugates(dual)

    def _conjugates(self, dual: Tensor) -> Tensor:
        assert self.bound is not None
        c, above, below = self.bound, dual - self.high, dual - self.low
        if self.side > 0:
            return torch.where(c > 0, above * c, below.clamp(max=0.0) * c)
        return torch.where(c < 0, below * c, above.clamp(min=0.0) * c)

    def shift(self, r: Tensor, sizes: Tensor) -> Tensor:
        """(t,) what must be added to every row, r in units of `sizes` (n,), to meet the bound."""
        if self.bound is None:
            return r.new_zeros(r.shape[1])
        missing = ((self.bound - r) * sizes[:, None] * self.side).amax(0).clamp(min=0.0)
        return missing * self.side


@dataclass(frozen=True)
class Norm:
    """||r||_p that couples the targets, 1 < p <= inf."""

    p: float
    smooth = False
    separable = False

    def rows(self, r: Tensor) -> Tensor:
        """||r_i||_p."""
        return norm(r, p=self.p).unsqueeze(1)

    def row_gaps(self, r: Tensor, dual: Tensor) -> Tensor:
        """||r|| - <d, r>; for p = 2 and d on the sphere ||r|| |d - r/||r|||^2 / 2."""
        size = self.rows(r)
        if self.p != 2:
            return (size - (dual * r).sum(1, keepdim=True)).clamp(min=0.0)
        unit = r / torch.where(size > 0, size, 1.0)
        inside = 1.0 - norm(dual, p=2.0).unsqueeze(1)
        inside = torch.where(inside < _ON_SPHERE, 0.0, inside * (2.0 - inside))
        return size * 0.5 * ((dual - unit).square().sum(1, keepdim=True) + inside)

    def into_ball(self, dual: Tensor) -> Tensor:
        """The projection on the dual ball."""
        return project_ball(dual, p=dual_exponent(self.p), radius=1.0)

    def value(self, r: Tensor, weights: Tensor) -> Tensor:
        """sum_i w_i ||r_i||_p."""
        return (weights @ norm(r, p=self.p)).reshape(1)

    def gradient(self, v: Tensor, rho: float) -> Tensor:
        """The projection of rho v on the dual ball."""
        return project_ball(v * rho, p=dual_exponent(self.p), radius=1.0)

    def curvature(self, v: Tensor, gradient: Tensor, rho: float) -> tuple[Tensor, Tensor | None]:
        """I - J, J the derivative of the prox u: (I + Hessian of ||.||_p / rho at u)^-1, or 0."""
        u = v - gradient / rho
        size = norm(u, p=self.p).unsqueeze(-1)
        inside = size <= 1e-14 * v.abs().amax(-1, keepdim=True)
        size = torch.where(inside, 1.0, size)
        if self.p == math.inf:
            top = gradient != 0
            b = gradient.sign() / top.sum(-1, keepdim=True).clamp(min=1).sqrt()
            a = top.to(v.dtype)
        else:
            x = u.abs() / size
            bend = (self.p - 1.0) / (rho * size)
            # For p < 2 the power is infinite at x = 0, where the limits are a = 1 and b = 0.
            steep = bend * x.pow(self.p - 2.0)
            rest = 1.0 / (1.0 + steep)
            a = torch.where(torch.isinf(steep), 1.0, steep * rest)
            power = x.pow(self.p - 1.0)
            left = (x * power * rest).sum(-1, keepdim=True)  # 1 - bend g^T (I + D)^-1 g, > 0
            tiny = torch.finfo(v.dtype).tiny
            b = u.sign() * power * rest * (bend / left.clamp(min=tiny)).sqrt()
        a = torch.where(inside, 1.0, a) * rho
        b = torch.where(inside, 0.0, b) * math.sqrt(rho)
        return a, b

    def excess(self, gradient: Tensor) -> Tensor:
        """max_i ||dual_i||_q."""
        return norm(gradient, p=dual_exponent(self.p)).amax().clamp(min=1.0).reshape(1)

    def conjugate(self, dual: Tensor, weights: Tensor) -> Tensor:
        """0 inside the ball."""
        return dual.new_zeros(1)


@dataclass(frozen=True)
class Squared:
    """||r||_2^2."""

    smooth = True
    separable = True

    def rows(self, r: Tensor) -> Tensor:
        """r^2."""
        return r.square()

    def row_gaps(self, r: Tensor, dual: Tensor) -> Tensor:
        """(r - d/2)^2."""
        return (r - 0.5 * dual).square()

    def into_ball(self, dual: Tensor) -> Tensor:
        """Every dual point is feasible."""
        return dual

    def value(self, r: Tensor, weights: Tensor) -> Tensor:
        """sum_i w_i r_ij^2 for each target j."""
        return weights @ r.square()

    def gradient(self, v: Tensor, rho: float) -> Tensor:
        """2 v: the loss itself, no envelope."""
        return 2.0 * v

    def curvature(self, v: Tensor, gradient: Tensor, rho: float) -> tuple[Tensor, Tensor | None]:
        """2."""
        return torch.full_like(v, 2.0), None

    def excess(self, gradient: Tensor) -> Tensor:
        """Every dual point is feasible."""
        return gradient.new_ones(gradient.shape[1])

    def conjugate(self, dual: Tensor, weights: Tensor) -> Tensor:
        """sum_i w_i dual_ij^2 / 4."""
        return weights @ dual.square() / 4.0
