"""How far from optimal a point is at most: a value above, a bound below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proxlin.exact.linear.coordinates import Coordinates
from proxlin.exact.linear.lagrangian import GeneralizedHessian, Lagrangian, Point
from proxlin.exact.linear.losses import Loss, TwoSlopes

OWNED = 100.0  # times the clipped value from which on outliers own a value
_EPS = torch.finfo(torch.float64).eps
_BALANCED = 1e-9  # of the largest sum that slopes can have: what a corrected dual point may miss
_CORRECTIONS = 3  # of a dual point, the rows that leave the ball being put back in between
# Typical targets that the loss of a row counts for at most in what gaps are relative to.
_CLIP = 5.0


@dataclass(frozen=True)
class DualityGap:
    """Objective at a feasible point, and a lower bound on every feasible point's objective."""

    theta: Tensor  # (k, t) the feasible point
    value: Tensor  # (t,) or (1,)
    bound: Tensor  # (t,) or (1,)
    dual: Tensor  # (n, t) the dual point that gives the bound
    scale: Tensor  # (t,) or (1,) the value with the loss of every row clipped
    gap: Tensor  # (t,) or (1,) value minus bound, also where outliers drown both
    gap_dual: Tensor  # (n, t) the dual point that gives the gap


def duality_gap(phi: Lagrangian, point: Point, rows: Tensor, clip: Tensor) -> DualityGap:
    """Value and bound at the minimiser of phi; `rows` is the gradient of the rows there.

    `clip` (n, t) or (n, 1) is what the loss of a row counts for at most in `scale`.

    -sum_i w_i loss*(d_i) - <w d, V> - g*(-Z^T w d) bounds the objective from below for every d in
    the dual ball. The sub-gradient D of g at hand has a known conjugate; d is moved along Z until
    Z^T w d = -D, and both are shrunk into the ball, where g* is at most the share of g*(D) since
    g*(0) = -min g <= 0. What rounding (and, where Z has dependent columns, the proximal term)
    leaves of Z^T w d + D is charged at twice the largest entry of theta.

    Where outliers own the value, the digits that say how well the other rows fit are lost in it.
    There the gap is taken row by row, at a dual point that the outliers' slopes do not leave.
    """
    where, loss, penalty, m = phi.where, phi.loss, phi.penalty, phi.penalty.rows
    theta, quadratic, pull = point.theta, penalty.quadratic, phi.penalty_gradient(point.theta)
    value_parts, conjugate = torch.zeros_like(theta), torch.zeros_like(theta)
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
    if isinstance(loss, TwoSlopes) and loss.bound is not None:
        feasible, residual = _lifted(where, loss, feasible, residual)
    weights = where.weights[:, None]
    correction = where.solve(where.design.T @ (weights * rows) + pull)
    dual = rows - where.damping[:, None] * (where.design @ correction)
    reach = _reach(phi, theta)
    left = (where.design.T @ (weights * dual) + pull).abs() * (2.0 * reach)
    value, excess = loss.value(residual, where.weights), loss.excess(dual)
    if not phi.blocks:
        value, excess = value.sum().reshape(1), excess.max().reshape(1)
    shrunk = dual / excess
    conjugates = loss.conjugate(shrunk, where.weights)
    conjugates = conjugates if phi.blocks else conjugates.sum().reshape(1)
    bound = -phi.per_block(weights * shrunk * where.target) - conjugates
    bound = bound - (phi.per_block(conjugate + left) - own) / excess
    if m and (penalty.rest is not None or bool((quadratic > 0).all())):
        other, other_dual = _unbalanced_bound(phi, rows, reach)
        shrunk = torch.where(other > bound, other_dual, shrunk)
        bound = torch.maximum(bound, other)
    scale = phi.per_block(weights * torch.minimum(loss.rows(residual), clip))
    terms = phi.per_block(value_parts) + own
    value, scale = value + terms, scale + terms
    gap = value - bound
    owned = value > OWNED * scale
    gap_dual = shrunk
    if bool(owned.any()):
        rounding = _EPS * (64 + len(rows) ** 0.5) * value  # of a sum that is all outliers
        gap = torch.where(owned, gap.clamp(min=0.0) + rounding, gap)
        costs = _Costs(feasible, residual, pull, value_parts + conjugate, reach)
        by_rows = _gap_by_rows(phi, point, rows, costs)
        if by_rows is not None:
            gap_dual = torch.where(by_rows[0] < gap, by_rows[1], shrunk)
            gap = torch.minimum(gap, by_rows[0])
    return DualityGap(feasible, value, bound, shrunk, scale, gap, gap_dual)


def _reach(phi: Lagrangian, theta: Tensor) -> Tensor:
    """(t,) the largest entry that theta has here or had when the multipliers were moved last."""
    reach = torch.maximum(theta.abs(), phi.anchor.abs())
    return reach.amax(0) if len(theta) else reach.sum(0)


def _lifted(
    where: Coordinates, loss: TwoSlopes, theta: Tensor, residual: Tensor
) -> tuple[Tensor, Tensor]:
    """The point where all rows meet their bounds, by its intercept, which is free; residuals."""
    lift = loss.shift(residual, where.row_sizes)
    theta = theta + where.constant()[:, None] * lift
    return theta, residual + lift / where.row_sizes[:, None]


class _Costs(NamedTuple):
    """What the gap of a point is made of besides the rows."""

    feasible: Tensor  # (k, t) the point
    residual: Tensor  # (n, t) there
    pull: Tensor  # (k, t) a sub-gradient of g
    penalties: Tensor  # (k, t) g and its conjugate at that sub-gradient
    reach: Tensor  # (t,) largest entry that theta is taken to have


def _gap_by_rows(
    phi: Lagrangian, point: Point, rows: Tensor, costs: _Costs
) -> tuple[Tensor, Tensor] | None:
    """sum_i w_i (loss(r_i) + loss*(d_i) - <d_i, r_i>) + g + g* - <s, theta>, s = -Z^T w d.

    d is moved until s = D as Newton's step would move it: rows far from their kink stay at the
    slope of their residual, where they add nothing. None if the other rows do not span Z.
    """
    where, loss = phi.where, phi.loss
    hessian = GeneralizedHessian(phi, point.theta, phi.rows_gradient(point.residual)[0], rows)
    hessian.penalty_hessian = None
    factor = hessian.factor()
    if factor is None:
        return None
    weights, dual = where.weights[:, None], rows
    for _ in range(_CORRECTIONS):
        missing = where.design.T @ (weights * dual) + costs.pull
        flat = missing.T.reshape(len(factor), -1, 1)
        step = torch.cholesky_solve(flat, factor).reshape(missing.T.shape).T
        dual = loss.into_ball(dual - hessian.bend(where.design @ step))
    s = -where.design.T @ (weights * dual)
    left = (s - costs.pull).abs()
    balanced = bool((left <= _BALANCED * (where.design.abs().T @ weights)).all())
    if not balanced:  # the charge for what is left may only ever pay for rounding
        return None
    left = left * (2.0 * costs.reach)
    gaps = phi.per_block(weights * loss.row_gaps(costs.residual, dual))
    gaps = gaps + phi.per_block(costs.penalties + left - s * costs.feasible)
    return gaps.clamp(min=0.0), dual


def clip_levels(where: Coordinates, loss: Loss) -> Tensor:
    """(n, t) or (n, 1) what the loss of a row counts for at most, in its own units.

    Half of the rows cannot move the typical target; squares are the user's choice and not clipped.
    """
    losses = loss.rows(-where.target) * where.row_sizes[:, None]
    levels = []
    for column in losses.T:
        nonzero = column[column > 0]
        typical = float(nonzero.median()) if len(nonzero) and not loss.smooth else math.inf
        levels.append(_CLIP * typical)
    return losses.new_tensor(levels) / where.row_sizes[:, None]


def _unbalanced_bound(phi: Lagrangian, rows: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
    """The bound with g* itself at s = -Z^T w d, and its dual point.

    With more columns than rows d cannot be moved until Z^T w d = -D, but it need not be: only the
    intercept, which costs nothing, has to be balanced. Of a ridge g*(s) = sum s^2 / (2 Q); where
    there is a rest h, d is shrunk until h*(s) = 0, and g* <= h* since g >= h.
    """
    where, loss, m = phi.where, phi.loss, phi.penalty.rows
    weights, free = where.weights[:, None], where.design[:, m:]
    dual = rows
    if free.shape[1]:
        lever = where.damping[:, None] * free
        dual = rows - lever * (free.T @ (weights * rows)) / (free.T @ (weights * lever))
    pull, excess = where.design.T @ (weights * dual), loss.excess(dual)
    if phi.penalty.rest is not None:
        excess = torch.maximum(excess, phi.penalty.rest.excess(-pull[:m]))
    excess = excess if phi.blocks else excess.max()
    dual, pull = dual / excess, pull / excess
    cost = pull.abs() * (2.0 * reach)
    ridge = phi.penalty.rest is None
    cost[:m] = pull[:m].square() / (2.0 * phi.penalty.quadratic) if ridge else 0.0
    conjugates = loss.conjugate(dual, where.weights)
    conjugates = conjugates if phi.blocks else conjugates.sum().reshape(1)
    return -phi.per_block(weights * dual * where.target) - conjugates - phi.per_block(cost), dual
