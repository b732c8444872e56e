"""The method of multipliers: minimise phi, move the multipliers, raise rho, measure the gap."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.budget import Budget
from proxlin.linear.certificate import certify
from proxlin.linear.coordinates import Coordinates
from proxlin.linear.lagrangian import Lagrangian, Point
from proxlin.linear.losses import Loss
from proxlin.linear.newton import descend
from proxlin.linear.penalties import Charge
from proxlin.prox import norm
from proxlin.result import History, Status

_LOG = logging.getLogger("proxlin")

FLOOR = 1e-4  # share of the null model's loss below which a fit counts as exact
_GROWTH = 5.0  # of rho from one outer step to the next
_STEEPEST = 1e12  # rho times the typical residual
_PATIENCE = 8  # outer steps without a smaller gap
_INNER = 60  # Newton steps for one rho


@dataclass(frozen=True)
class Solved:
    """The best feasible point and bound seen, in scaled units."""

    theta: Tensor  # (k, t)
    bound: Tensor  # (t,) or (1,)
    status: Status


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
) -> Solved:
    """Minimise the scaled problem from `start` (k, t) until the relative gap is at most tol."""
    residual = where.design @ start - where.target
    point = Point(start, residual, torch.zeros_like(residual), torch.zeros_like(charge.quadratic))
    rho = 1.0 / _typical(residual)
    steepest = _STEEPEST * rho
    null = loss.value(-where.target, where.weights)
    best: Tensor | None = None
    value = bound = null
    smallest, waited, inner_tol = math.inf, 0, 1e-3
    status = Status.NO_DECREASE
    while True:
        phi = Lagrangian(where, loss, charge, rho, point.dual, point.charge_dual)
        if best is None:
            units = unit if phi.blocks else unit[:1]
            null = null if phi.blocks else null.sum().reshape(1)
            value = torch.full_like(null, math.inf)
            bound = torch.zeros_like(null)
            best = start
        left = _INNER if budget.max_iter is None else budget.max_iter - budget.iteration
        steps, missing = descend(
            phi, point, tol=inner_tol, max_steps=min(_INNER, left), budget=budget
        )
        budget.iteration += steps
        point.residual = where.design @ point.theta - where.target
        _, rows = phi.rows_gradient(point.residual)
        seen = certify(phi, point, rows)
        better = seen.value < value
        best = torch.where(better, seen.theta, best)
        value, bound = torch.minimum(value, seen.value), torch.maximum(bound, seen.bound)
        gap = float(((value - bound) / torch.maximum(value, FLOOR * null).clamp(min=1e-300)).max())
        history.add(
            {
                "iteration": float(budget.iteration),
                "seconds": budget.seconds,
                "objective": float((units * value).sum()),
                "gap": gap,
                "rho": rho,
            }
        )
        _LOG.debug("rho %.2e steps %d gradient %.1e gap %.2e", rho, steps, missing, gap)
        if gap <= tol:
            status = Status.CONVERGED
            break
        if not math.isfinite(missing):
            status = Status.NON_FINITE
            break
        spent = budget.exhausted()
        if spent is not None:
            status = spent
            break
        waited = 0 if gap < 0.9 * smallest else waited + 1
        smallest = min(smallest, gap)
        if waited >= _PATIENCE:
            break
        point.dual = rows
        if charge.rest is not None:
            m = charge.rows
            point.charge_dual = charge.rest.split(point.theta[:m], phi.charge_dual, rho)[1]
        inner_tol = max(min(inner_tol, 1e-2 * gap), 1e-15)
        rho = min(rho * _GROWTH, steepest)
    return Solved(best, bound, status)


def _typical(residual: Tensor) -> float:
    """The median size of the rows, or their mean if most are zero, or 1."""
    sizes = norm(residual, p=2.0)
    typical = float(sizes.median())
    if typical <= 1e-12 * float(sizes.max()):
        typical = float(sizes.mean())
    return typical if typical > 0 else 1.0
