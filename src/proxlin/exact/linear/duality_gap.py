"""How far from optimal a point is at most: a value above, a bound below."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.exact.linear.lagrangian import Lagrangian, Point
from proxlin.exact.linear.losses import Quantile


@dataclass(frozen=True)
class DualityGap:
    """Objective at a feasible point, and a lower bound on every feasible point's objective."""

    theta: Tensor  # (k, t) the feasible point
    value: Tensor  # (t,) or (1,)
    bound: Tensor  # (t,) or (1,)
    dual: Tensor  # (n, t) the dual point that gives the bound


def duality_gap(phi: Lagrangian, point: Point, rows: Tensor) -> DualityGap:
    """Value and bound at the minimiser of phi; `rows` is the gradient of the rows there.

    -sum_i w_i loss*(d_i) - <w d, V> - g*(-Z^T w d) bounds the objective from below for every d in
    the dual ball. The sub-gradient D of g at hand has a known conjugate; d is moved along Z until
    Z^T w d = -D, and both are shrunk into the ball, where g* is at most the share of g*(D) since
    g*(0) = -min g <= 0. What rounding (and, where Z
    has dependent columns, the proximal term) leaves of Z^T w d + D is charged at twice the largest
    entry of theta.
    """
    where, loss, penalty = phi.where, phi.loss, phi.penalty
    m = penalty.rows
    theta, quadratic = point.theta, penalty.quadratic
    pull = phi.penalty_gradient(theta)
    value_parts = torch.zeros_like(theta)
    conjugate = torch.zeros_like(theta)
    feasible, residual = theta, point.residual
    own = theta.new_zeros(theta.shape[1] if phi.blocks else 1)
    if m:
        conjugate[:m] = 0.5 * quadratic * theta[:m].square()
        value_parts[:m] = conjugate[:m]
        if penalty.rest is not None:
            c, slope = penalty.rest.split(theta[:m], phi.penalty_dual, phi.rho)
            own = penalty.rest.value(c)
            own = own if phi.blocks else own.sum().reshape(1)
            conjugate[:m] += slope * c
            feasible = torch.cat([c, theta[m:]])
            residual = where.design @ feasible - where.target
            value_parts[:m] = 0.5 * quadratic * c.square()
    if isinstance(loss, Quantile) and loss.bound is not None:
        # Any point can be lifted to where its rows meet their bounds: the intercept is free.
        lift = loss.shift(residual, where.row_sizes)
        feasible = feasible + where.constant()[:, None] * lift
        residual = residual + lift / where.row_sizes[:, None]
    weights = where.weights[:, None]
    missing = where.design.T @ (weights * rows) + pull
    dual = rows - where.damping[:, None] * (where.design @ where.solve(missing))
    reach = torch.maximum(theta.abs(), phi.anchor.abs())
    reach = reach.amax(0) if len(theta) else reach.sum(0)
    left = (where.design.T @ (weights * dual) + pull).abs() * (2.0 * reach)
    value, known, excess = loss.value(residual, where.weights), own, loss.excess(dual)
    if not phi.blocks:
        value, excess = value.sum().reshape(1), excess.max().reshape(1)
    shrunk = dual / excess
    conjugates = loss.conjugate(shrunk, where.weights)
    conjugates = conjugates if phi.blocks else conjugates.sum().reshape(1)
    bound = -phi.per_block(weights * shrunk * where.target) - conjugates
    bound = bound - (phi.per_block(conjugate + left) - known) / excess
    if m and penalty.rest is None and bool((quadratic > 0).all()):
        other, other_dual = _ridge_bound(phi, rows, reach)
        shrunk = torch.where(other > bound, other_dual, shrunk)
        bound = torch.maximum(bound, other)
    return DualityGap(feasible, value + phi.per_block(value_parts) + known, bound, shrunk)


def _ridge_bound(phi: Lagrangian, rows: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
    """The bound with g*(s) = sum s^2 / (2 Q) itself, and its dual point.

    With more columns than rows d cannot be moved until Z^T w d = -D, but it need not be: only the
    intercept, which costs nothing, has to be balanced.
    """
    where, loss, m = phi.where, phi.loss, phi.penalty.rows
    weights, free = where.weights[:, None], where.design[:, m:]
    dual = rows
    if free.shape[1]:
        lever = where.damping[:, None] * free
        dual = rows - lever * (free.T @ (weights * rows)) / (free.T @ (weights * lever))
    excess = loss.excess(dual)
    dual = dual / (excess if phi.blocks else excess.max())
    pull = where.design.T @ (weights * dual)
    cost = pull.abs() * (2.0 * reach)
    cost[:m] = pull[:m].square() / (2.0 * phi.penalty.quadratic)
    conjugates = loss.conjugate(dual, where.weights)
    conjugates = conjugates if phi.blocks else conjugates.sum().reshape(1)
    return -phi.per_block(weights * dual * where.target) - conjugates - phi.per_block(cost), dual
