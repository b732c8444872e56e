"""Covariances of linear quantiles, by the formulas of quantreg and statsmodels.

The tau-quantile's coefficients have the covariance tau (1 - tau) D^-1 (A'A) D^-1 with
D = sum_i f_i a_i a_i', f_i the density of the noise of row i at its quantile (Koenker 2005, section
3.2). The formulas differ in how they find f_i.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import norm

from proxlin._checks import check_choice
from proxlin.estimators.inference.standard_errors import inverse_of
from proxlin.estimators.tables import Vector, as_tensor
from proxlin.exact.linear import solve_linear
from proxlin.problem.loss import Pinball

QUANTILE_FORMULAS = ("sandwich", "nid", "iid", "ker", "epa")

_TINY = np.finfo(np.float64).eps ** 0.5


def quantile_covariance(
    design: Vector,
    residual: Vector,
    tau: float,
    count: Vector,
    *,
    formula: str,
    refit: Callable[[float], Vector],
) -> Vector:
    """(k, k) covariance of the coefficients; residual = target - fit.

    "sandwich" and "nid" take f_i from the distance of two neighbouring quantiles, which `refit`
    returns the coefficients of (Hendricks & Koenker 1992); "ker" from a Gaussian kernel (Powell
    1991); "iid" supposes one density; all three are quantreg's. "epa" is the default of
    statsmodels' QuantReg.
    """
    check_choice("errors", formula, QUANTILE_FORMULAS)
    n = float(count.sum())
    width = _bandwidth(tau, n)
    gram = (design * count[:, None]).T @ design
    if formula == "iid":
        slope = _sparsity(residual, count, n * width, design.shape[1])
        return tau * (1 - tau) * slope**2 * inverse_of(gram)
    reach = _spread(residual, count) * (norm.ppf(tau + width) - norm.ppf(tau - width))
    if formula == "epa":
        near = 0.75 * np.maximum(1 - (residual / reach) ** 2, 0.0)
        slopes = np.where(residual > 0, tau, 1 - tau) * n * reach / float(count @ near)
        inner = inverse_of(gram)
        return np.asarray(inner @ ((design * (count * slopes**2)[:, None]).T @ design) @ inner)
    if formula == "ker":
        density = norm.pdf(residual / reach) / reach
    else:
        apart = design @ (refit(tau + width) - refit(tau - width))
        density = np.maximum(0.0, 2 * width / np.where(apart > _TINY, apart - _TINY, np.inf))
    inner = inverse_of((design * (count * density)[:, None]).T @ design)
    return np.asarray(tau * (1 - tau) * inner @ gram @ inner)


def quantile_refit(
    design: Vector, target: Vector, count: Vector, intercept: bool
) -> Callable[[float], Vector]:
    """The coefficients of any quantile of these rows; an intercept is the design's first column."""
    columns = design[:, 1:] if intercept else design
    x, y, weights = (as_tensor(part, dtype=torch.float64) for part in (columns, target, count))

    def refit(level: float) -> Vector:
        fit = solve_linear(
            x, y, loss=Pinball(level), fit_intercept=intercept, sample_weight=weights
        )
        coef = fit.coef[:, 0].numpy()
        return np.concatenate([fit.intercept.numpy(), coef]) if intercept else coef

    return refit


def _bandwidth(tau: float, n: float) -> float:
    """Hall and Sheather's (1988), halved until both neighbours are quantiles."""
    z = norm.ppf(tau)
    peak = 1.5 * norm.pdf(z) ** 2 / (2 * z**2 + 1)
    width = n ** (-1 / 3) * norm.ppf(0.975) ** (2 / 3) * peak ** (1 / 3)
    while tau - width <= 0 or tau + width >= 1:
        width /= 2
    return float(width)


def _sparsity(residual: Vector, count: Vector, reach: float, k: int) -> float:
    """1 / f: the slope of the residuals nearest to the quantile over their rank / (n - k)."""
    values = np.repeat(residual, np.maximum(1, np.round(count)).astype(int))
    exact = int((np.abs(values) < _TINY).sum())
    last = min(max(k + 1, int(np.ceil(reach))) + exact + 1, len(values))
    ranks = np.arange(exact + 1, last + 1)
    nearest = np.sort(values[np.argsort(np.abs(values), kind="stable")][exact:last])
    line = solve_linear(
        torch.from_numpy(ranks / (len(values) - k))[:, None], torch.from_numpy(nearest), p=1
    )
    return float(line.coef)


def _spread(residual: Vector, count: Vector) -> float:
    """The standard deviation, or what the quartiles say of it if that is less."""
    if (count == count[0]).all():
        low, high = np.quantile(residual, (0.25, 0.75))
    else:
        low, high = np.quantile(residual, (0.25, 0.75), weights=count, method="inverted_cdf")
    deviation = np.sqrt(np.cov(residual, aweights=count))
    return float(min(deviation, (high - low) / 1.34))
