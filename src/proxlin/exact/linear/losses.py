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

from proxlin.prox import dual_exponent, norm, project_ball


class Loss(Protocol):
    """sum_i w_i loss(r_i) for rows r (n, t)."""

    @property
    def smooth(self) -> bool:
        """Whether the loss itself has a Lipschitz gradient, so that no envelope is needed."""

    @property
    def separable(self) -> bool:
        """Whether the loss is a sum over the targets."""

    def value(self, r: Tensor, weights: Tensor) -> Tensor:
        """(t,) sums over rows if separable, else (1,)."""

    def gradient(self, v: Tensor, rho: float) -> Tensor:
        """The gradient of the envelope at each row of v (n, t)."""

    def curvature(self, v: Tensor, gradient: Tensor, rho: float) -> tuple[Tensor, Tensor | None]:
        """a, b (n, t) with generalised Hessian diag(a) - b b^T of the envelope at each row."""

    def excess(self, gradient: Tensor) -> Tensor:
        """(t,) or (1,): by what factor a dual point must shrink to be feasible; at least 1."""

    def conjugate(self, dual: Tensor, weights: Tensor) -> Tensor:
        """(t,) or (1,): sum_i w_i loss*(dual_i) for a feasible dual point."""


def loss_for(p: float | str, targets: int) -> Loss:
    """The loss ||r||_p, or ||r||_2^2 for "mse"; with one target every norm is |r|."""
    if p == "mse":
        return Squared()
    if p == 1 or targets == 1:
        return Absolute()
    return Norm(float(p))


@dataclass(frozen=True)
class Absolute:
    """||r||_1."""

    smooth = False
    separable = True

    def value(self, r: Tensor, weights: Tensor) -> Tensor:
        """sum_i w_i |r_ij| for each target j."""
        return weights @ r.abs()

    def gradient(self, v: Tensor, rho: float) -> Tensor:
        """Clip rho v to [-1, 1]."""
        return (v * rho).clamp_(-1.0, 1.0)

    def curvature(self, v: Tensor, gradient: Tensor, rho: float) -> tuple[Tensor, Tensor | None]:
        """Rho where rho |v| < 1, else 0."""
        return (gradient.abs() < 1.0).to(v.dtype).mul_(rho), None

    def excess(self, gradient: Tensor) -> Tensor:
        """max_i |dual_ij| for each target."""
        return gradient.abs().amax(0).clamp(min=1.0)

    def conjugate(self, dual: Tensor, weights: Tensor) -> Tensor:
        """0 inside the ball."""
        return dual.new_zeros(dual.shape[1])


@dataclass(frozen=True)
class Norm:
    """||r||_p that couples the targets, 1 < p <= inf."""

    p: float
    smooth = False
    separable = False

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
