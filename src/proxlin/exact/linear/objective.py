"""The objective of a linear model in the units of the data, as a user would compute it.

The solver works in scaled units, in which a row far out may hide how bad a point is. What is
returned and compared at the end is measured here.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from proxlin.exact.linear.coordinates import chunks
from proxlin.exact.linear.null_model import weighted_center
from proxlin.problem.loss import Pinball, RowLoss
from proxlin.terms.penalty import Penalty

_ROUNDING = 4.0 * torch.finfo(torch.float64).eps  # of an objective


def best_of(
    points: list[tuple[Tensor, Tensor | None]],
    data: tuple[Tensor, Tensor, Tensor],
    terms: Penalty,
    loss: RowLoss | Pinball,
    *,
    fit_intercept: bool,
    bound: tuple[Tensor, int] | None,
) -> tuple[Tensor, Tensor, float, float]:
    """B, b, objective and its rounding at the best of these points, as a user would compute it.

    In scaled units a row far out may hide how bad a point is. Points are moved into C first, and
    to where the rows meet the bound; an intercept that is None is that of the model without
    features.
    """
    x, y, weights = data
    candidates = []
    for coef, given in points:
        moved = terms.project(coef.reshape(-1)).reshape(coef.shape)
        if not fit_intercept:
            intercept = y.new_zeros(y.shape[1])
        elif given is None:
            intercept = weighted_center(y - x @ moved, weights, loss)
        else:
            intercept = given
        if bound is not None:
            intercept = meet_bound(x, moved, intercept, *bound)
        value, rounding = mean_loss(data, moved, intercept, loss)
        value += float(terms.value(moved.reshape(-1)))
        candidates.append((moved, intercept, value, rounding))
    best = candidates[0]
    for candidate in candidates[1:]:
        lower = best[2] - candidate[2]
        # Where outliers own the objective a small difference is rounding: the proof is the first's.
        if lower > _ROUNDING * abs(best[2]) or not math.isfinite(best[2]):
            best = candidate
    return best


def mean_loss(
    data: tuple[Tensor, Tensor, Tensor], coef: Tensor, intercept: Tensor, loss: RowLoss | Pinball
) -> tuple[float, float]:
    """The mean loss as a user would compute it, and how far rounding alone may move it."""
    x, y, weights = data
    total, rounding = 0.0, 0.0
    typical = math.inf if loss.p == "mse" else (y - y.median(0).values).abs().median(0).values
    for rows in chunks(len(x), sum(coef.shape)):
        residual = x[rows] @ coef + intercept - y[rows]
        total += float(weights[rows] @ loss(residual))
        size = x[rows].abs() @ coef.abs() + intercept.abs()
        # The slope of a target far out does not feel how it is rounded.
        size = size + torch.minimum(y[rows].abs(), size + typical)
        bent = size if loss.p != "mse" else size * residual.abs() * 2
        rounding += float(weights[rows] @ bent.sum(1))
    scale = float(weights.sum())
    return total / scale, torch.finfo(torch.float64).eps * rounding / scale


def meet_bound(x: Tensor, coef: Tensor, intercept: Tensor, bound: Tensor, side: int) -> Tensor:
    """The intercept nearest to this one with which all rows meet the bound, rounding included."""
    eps = torch.finfo(torch.float64).eps
    missing = torch.zeros_like(intercept)
    for rows in chunks(len(x), sum(coef.shape)):
        fitted = x[rows] @ coef + intercept
        size = x[rows].abs() @ coef.abs() + intercept.abs() + bound[rows].abs()
        short = side * (bound[rows] - fitted) + (x.shape[1] + 4) * eps * size
        missing = torch.maximum(missing, short.amax(0))
    return intercept + side * missing
