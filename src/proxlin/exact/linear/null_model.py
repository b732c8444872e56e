"""The model without features: an answer never to fall behind, and often the optimum itself."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from proxlin.exact.linear.coordinates import Coordinates
from proxlin.exact.linear.duality_gap import DualityGap, clip_levels
from proxlin.exact.linear.losses import Loss, TwoSlopes
from proxlin.exact.linear.multipliers import Multipliers
from proxlin.exact.linear.penalties import ScaledPenalty
from proxlin.methods.contract import Budget
from proxlin.problem.loss import Pinball, RowLoss
from proxlin.run.loop import Loop

_NEAR = 3.0  # times the strength at which zero turns optimal, guessed from the medians
_STEEP = 1e15  # rho, over that of the row with the largest target
_STEPS = 200  # Newton steps for the intercept


def null_model_gap(
    where: Coordinates,
    loss: Loss,
    penalty: ScaledPenalty,
    *,
    unit: Tensor,
    tol: float,
    budget: Budget,
) -> DualityGap | None:
    """B = 0 with the best intercept, and the bound that its own dual point gives.

    With slopes d of the rows at B = 0, sum_i w_i d_i = 0, zero is optimal if and only if h*(-Z^T w
    d) = 0 for one such d; where that fails, d is shrunk until it holds. None if zero is far from
    optimal, or no such test is known for h. The steps taken do not count.
    """
    rest = penalty.rest
    bounded = isinstance(loss, TwoSlopes) and loss.bound is not None
    if rest is None or len(where.size) == 0 or bounded:
        return None
    weights = where.weights[:, None]
    charged = penalty.rows
    features = where.design[:, :charged]
    blocks = loss.separable and rest.separable
    # The medians are at 0 in these coordinates; so steep an envelope has the slopes of the norm.
    largest = float(where.target.abs().max())
    slopes = loss.gradient(-where.target, _STEEP / largest if largest > 0 else 1.0)
    if where.intercept:
        last = where.design[:, -1:]
        slopes = slopes - (last.T @ (weights * slopes)) / (last.T @ weights) * last
    if not bool((rest.excess(-features.T @ (weights * slopes)) <= _NEAR).all()):
        return None
    theta = where.target.new_zeros(where.design.shape[1], where.target.shape[1])
    dual, value = slopes, loss.value(-where.target, where.weights)
    if where.intercept:
        left = None if budget.max_seconds is None else budget.max_seconds - budget.seconds
        if left is not None and left <= 0:
            return None
        norm = (weights.squeeze(1) * where.damping) @ last.square()
        alone = replace(
            where,
            design=last,
            directions=norm.rsqrt().reshape(1, 1),
            transform=theta.new_ones(1, 1),
            centre=where.centre[:0],
            size=where.size[:0],
        )
        solver = Multipliers(
            alone,
            loss,
            ScaledPenalty(penalty.quadratic[:0], None),
            theta[-1:],
            unit=unit,
            tol=0.1 * tol,
        )
        solver.run(Loop(Budget(left, _STEPS)))
        best = solver.best
        theta[-1:], value = best.answer, best.value
        dual = torch.where(best.owned, best.pair_dual, best.dual)
    shrink = rest.excess(-features.T @ (weights * dual)).clamp(min=1.0)
    dual = dual / shrink
    bound = -(weights * dual * where.target).sum(0)
    conjugate = loss.conjugate(dual, where.weights)
    if not blocks:
        value, bound, conjugate = (part.sum().reshape(1) for part in (value, bound, conjugate))
    bound = bound - conjugate
    residual = where.design @ theta - where.target
    clipped = torch.minimum(loss.rows(residual), clip_levels(where, loss))
    # Row by row, and what the slopes leave for the intercept: also where outliers own the value.
    gap = (weights * loss.row_gaps(residual, dual)).sum(0)
    charge = (where.design[:, charged:].T @ (weights * dual) * theta[charged:]).abs().sum(0)
    scale = where.weights @ clipped
    if not blocks:
        gap, charge, scale = (part.sum().reshape(1) for part in (gap, charge, scale))
    return DualityGap(theta, value, bound, dual, scale, gap + charge, dual)


def weighted_center(rows: Tensor, weights: Tensor, loss: RowLoss | Pinball) -> Tensor:
    """(t,) the weighted mean of each column for "mse", its quantile or else its median."""
    if loss.p == "mse":
        return weights @ rows / weights.sum()
    ordered, order = rows.sort(0)
    below = weights[order].cumsum(0)
    odds = 1.0 / loss.levels(rows) if isinstance(loss, Pinball) else 2.0
    place = (odds * below < below[-1]).sum(0).clamp(max=len(rows) - 1)
    return ordered.gather(0, place[None]).squeeze(0)
