"""The augmented Lagrangian in theta, a convex function with Lipschitz gradient.

phi(theta) = sum_i w_i envelope(Z theta - V + dual/rho)_i + 1/2 <Q theta, theta> + envelope of h
             + hold/2 ||theta - anchor||^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.exact.linear.coordinates import Coordinates
from proxlin.exact.linear.losses import Loss
from proxlin.exact.linear.penalties import Charge


@dataclass
class Point:
    """Where the solver is: primal theta, residuals, multipliers."""

    theta: Tensor  # (k, t)
    residual: Tensor  # (n, t) Z theta - V
    dual: Tensor  # (n, t) multipliers of the residuals over their row weight, in the dual ball
    charge_dual: Tensor  # (m, t) multipliers of theta = c


@dataclass(frozen=True)
class Lagrangian:
    """phi for one penalty parameter rho and the multipliers of one point."""

    where: Coordinates
    loss: Loss
    charge: Charge
    rho: float
    dual: Tensor  # (n, t)
    charge_dual: Tensor  # (m, t)
    hold: float  # weight of the proximal term, which keeps singular Newton systems away
    anchor: Tensor  # (k, t) theta when the multipliers were moved last

    @property
    def blocks(self) -> bool:
        """Whether the targets are problems of their own."""
        rest = self.charge.rest
        return self.loss.separable and (rest is None or rest.separable)

    def rows_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """v and the gradient of the envelope at each of its rows."""
        v = residual if self.loss.smooth else torch.add(residual, self.dual, alpha=1.0 / self.rho)
        return v, self.loss.gradient(v, self.rho)

    def charge_gradient(self, theta: Tensor) -> Tensor:
        """Q theta + D on the charged rows, 0 on the others."""
        full = torch.zeros_like(theta)
        m = self.charge.rows
        if m:
            full[:m] = self.charge.quadratic * theta[:m]
            if self.charge.rest is not None:
                full[:m] += self.charge.rest.split(theta[:m], self.charge_dual, self.rho)[1]
        return full

    def gradient(self, theta: Tensor, rows: Tensor) -> Tensor:
        """(k, t) gradient of phi, given that of the rows."""
        design, weights = self.where.design, self.where.weights
        return design.T @ (weights[:, None] * rows) + self.smooth_gradient(theta)

    def smooth_gradient(self, theta: Tensor) -> Tensor:
        """What the charge and the proximal term add to the gradient."""
        return self.charge_gradient(theta).add_(theta - self.anchor, alpha=self.hold)

    def per_block(self, products: Tensor) -> Tensor:
        """Column sums: one for each target, or one for all."""
        sums = products.sum(0)
        return sums if self.blocks else sums.sum().reshape(1)
