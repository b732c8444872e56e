"""Semismooth Newton on the augmented Lagrangian."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from proxlin.exact.linear.lagrangian import GeneralizedHessian, Lagrangian, Point
from proxlin.methods.contract import Budget

_SLOPE = 0.5  # a step is long enough when the slope along it has fallen to this share
_TRIALS = 60
_ROUNDING = 1e-11  # gradients below this that no longer fall are rounding


def descend(
    phi: Lagrangian,
    point: Point,
    *,
    tol: float,
    max_steps: int,
    budget: Budget,
    solved: Tensor | None = None,
) -> tuple[int, float]:
    """Newton steps on phi from `point` until |gradient| <= tol; steps taken and the last gradient.

    `point.theta` and `point.residual` are replaced; the multipliers are left as they are. Targets
    that are problems of their own stay where they are if they are `solved` (t,), or once their
    gradient is small.
    """
    size = math.inf
    step = 0
    while True:
        v, rows = phi.rows_gradient(point.residual)
        gradient = phi.gradient(point.theta, rows)
        if phi.blocks and len(gradient):
            still = gradient.abs().amax(0) <= tol
            gradient[:, still if solved is None else still | solved] = 0.0
        before, size = size, float(gradient.abs().max()) if gradient.numel() else 0.0
        stuck = size < _ROUNDING and size >= 0.5 * before
        spent = step >= max_steps or budget.expired()
        if size <= tol or stuck or spent or not math.isfinite(size):
            return step, size
        direction = -GeneralizedHessian(phi, point.theta, v, rows).solve(gradient, size)
        change = phi.where.design @ direction
        start = phi.per_block(gradient * direction)
        alpha = _step_length(phi, point, direction, change, start)
        point.theta = point.theta + alpha * direction
        point.residual = point.residual + alpha * change
        step += 1


def _step_length(
    phi: Lagrangian, point: Point, direction: Tensor, change: Tensor, start: Tensor
) -> Tensor:
    """(t,) or (1,) step lengths at which the slope along the direction is nearly gone.

    Slopes are compared and not values, which say nothing once they agree to the last digit.
    """
    alpha = torch.ones_like(start)
    low, low_slope = torch.zeros_like(start), start.clone()
    high, high_slope = torch.full_like(start, math.inf), torch.full_like(start, math.inf)
    weighted = change * phi.where.weights[:, None]
    for _ in range(_TRIALS):
        _, rows = phi.rows_gradient(point.residual + alpha * change)
        slope = phi.per_block(rows * weighted)
        if phi.penalty.rows or phi.hold:
            theta = point.theta + alpha * direction
            slope = slope + phi.per_block(phi.smooth_gradient(theta) * direction)
        done = (slope.abs() <= _SLOPE * start.abs()) | (start >= 0)
        if bool(done.all()):
            break
        up = slope > 0
        high, high_slope = torch.where(up, alpha, high), torch.where(up, slope, high_slope)
        low, low_slope = torch.where(up, low, alpha), torch.where(up, low_slope, slope)
        share = (low_slope / (low_slope - high_slope)).clamp(0.1, 0.9)
        inner = torch.where(torch.isinf(high), 4.0 * alpha, low + share * (high - low))
        alpha = torch.where(done, alpha, inner)
    return torch.where(start < 0, alpha, 0.0)
