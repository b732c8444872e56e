"""The method of multipliers: minimise phi, move the multipliers, raise rho, measure the gap."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.exact.linear.certificate import Certificate, certify
from proxlin.exact.linear.coordinates import Coordinates
from proxlin.exact.linear.lagrangian import Lagrangian, Point
from proxlin.exact.linear.losses import Loss
from proxlin.exact.linear.newton import descend
from proxlin.exact.linear.penalties import Charge
from proxlin.methods.contract import Budget, Status
from proxlin.prox import norm
from proxlin.run.result import History

_LOG = logging.getLogger("proxlin")

FLOOR = 1e-4  # share of the null model's loss below which a fit counts as exact
# Newton steps that one rho took at most, and by how much rho may grow then.
_GROWTH = ((6, 5.0), (10, 2.5), (18, 1.0), (math.inf, 0.3))
_STEEPEST = 1e12  # largest rho over the first one
_NEAREST = 1e-2  # first 1/rho, at least, over the typical target
_HOLD = 1.0  # first weight of the proximal term over rho; it falls as rho rises
_PATIENCE = 15  # outer steps without a smaller gap
_INNER = 30  # Newton steps for one rho


@dataclass
class Best:
    """The best feasible point and bound seen, in scaled units, target by target if they part."""

    theta: Tensor  # (k, t)
    value: Tensor  # (t,) or (1,)
    bound: Tensor  # (t,) or (1,); 0 bounds every objective from below
    null: Tensor  # (t,) or (1,) loss of the null model
    dual: Tensor  # (n, t) the dual point of the bound

    def see(self, seen: Certificate) -> None:
        """Keep what is better."""
        self.theta = torch.where(seen.value < self.value, seen.theta, self.theta)
        self.value = torch.minimum(self.value, seen.value)
        self.dual = torch.where(seen.bound > self.bound, seen.dual, self.dual)
        self.bound = torch.maximum(self.bound, seen.bound)

    @property
    def gap(self) -> float:
        """The largest relative gap of a target."""
        base = torch.maximum(self.value, FLOOR * self.null).clamp(min=1e-300)
        return float(((self.value - self.bound) / base).max())


def solve_scaled(
    where: Coordinates,
    loss: Loss,
    charge: Charge,
    start: Tensor,
    *,
    unit: Tensor,
    tol: float,
    budget: Budget,
    history: History,
    known: Certificate | None = None,
) -> tuple[Best, Status]:
    """Minimise the scaled problem from `start` (k, t) until the relative gap is at most tol.

    `known` is a point that need not be beaten if it is optimal.
    """
    residual = where.design @ start - where.target
    point = Point(start, residual, torch.zeros_like(residual), torch.zeros_like(charge.quadratic))
    # A start that fits the rows exactly says nothing about the size of the residuals to come.
    rho = 1.0 / max(_typical(residual), _NEAREST * _typical(where.target))
    steepest, hold = _STEEPEST * rho, _HOLD * rho if charge.rows else 0.0
    phi = Lagrangian(where, loss, charge, rho, point.dual, point.charge_dual, hold, start)
    null = loss.value(-where.target, where.weights)
    null, unit = (null, unit) if phi.blocks else (null.sum().reshape(1), unit[:1])
    infinite = torch.full_like(null, math.inf)
    best = Best(start, infinite, torch.zeros_like(null), null, point.dual)
    if known is not None:
        best.see(known)
        if best.gap <= tol:
            _record(history, budget, best, unit, phi.rho)
            return best, Status.CONVERGED
    smallest, waited, inner_tol = math.inf, 0, 1e-3
    while True:
        left = _INNER if budget.max_iter is None else budget.max_iter - budget.iteration
        most = min(_INNER, left)
        steps, missing = descend(phi, point, tol=inner_tol, max_steps=most, budget=budget)
        budget.iteration += steps
        # Before the residual is computed afresh: its rounding, times rho, would be in the dual.
        point.dual = phi.rows_gradient(point.residual)[1]
        point.residual = where.design @ point.theta - where.target
        best.see(certify(phi, point, point.dual))
        gap = best.gap
        _record(history, budget, best, unit, phi.rho)
        _LOG.debug("rho %.2e steps %d gradient %.1e gap %.2e", phi.rho, steps, missing, gap)
        waited = 0 if gap < 0.9 * smallest else waited + 1
        smallest = min(smallest, gap)
        status = _verdict(gap, tol, missing, waited, budget)
        if status is not None:
            return best, status
        if charge.rest is not None:
            theta = point.theta[: charge.rows]
            point.charge_dual = charge.rest.split(theta, phi.charge_dual, phi.rho)[1]
        # Gradients shrink with the objective: where no step was due the tolerance is too loose.
        inner_tol = max(min(inner_tol if steps else 1e-2 * inner_tol, 1e-2 * gap), 1e-15)
        growth = next(factor for most, factor in _GROWTH if steps <= most)
        rho, hold = min(phi.rho * growth, steepest), phi.hold / growth
        phi = Lagrangian(where, loss, charge, rho, point.dual, point.charge_dual, hold, point.theta)


def _record(history: History, budget: Budget, best: Best, unit: Tensor, rho: float) -> None:
    history.add(
        {
            "iteration": float(budget.iteration),
            "seconds": budget.seconds,
            "objective": float((unit * best.value).sum()),
            "gap": best.gap,
            "rho": rho,
        }
    )


def _verdict(gap: float, tol: float, missing: float, waited: int, budget: Budget) -> Status | None:
    """Why to stop now, if so."""
    if gap <= tol:
        return Status.CONVERGED
    if not math.isfinite(missing):
        return Status.NON_FINITE
    spent = budget.exhausted()
    if spent is not None:
        return spent
    return Status.NO_DECREASE if waited >= _PATIENCE else None


def _typical(residual: Tensor) -> float:
    """The median size of the rows, or their mean if most are zero, or 1."""
    sizes = norm(residual, p=2.0)
    typical = float(sizes.median())
    if typical <= 1e-12 * float(sizes.max()):
        typical = float(sizes.mean())
    return typical if typical > 0 else 1.0
