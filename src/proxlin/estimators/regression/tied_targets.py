"""Targets of which a fit describes rows of one value only, or hardly any others.

So it is where the majority of a target is one value (zero-inflated, discrete): there is no scale to
judge rows by, and least absolute residuals take the place of the fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from proxlin.estimators.regression.judged_rows import FEW, UNLIKE, few_for
from proxlin.estimators.regression.likely_fit import RobustFit
from proxlin.estimators.regression.linear_fit import LinearFit
from proxlin.estimators.regression.s_estimate import RegressionRows
from proxlin.estimators.robust_scale import INNER, Vector, inner_scale
from proxlin.estimators.scaling import is_code

LEAST_DESCRIBED = 0.5  # share of all rows
PROVEN_ABSOLUTE = 1e-6  # relative duality gap of least absolute residuals

_TIED = 0.25  # share of one value from which a target may be discrete
_KEPT_OF_TIED = 0.75  # share of all rows, where values are tied
_CONSTANT = 0.9  # share of one value, not zero, from which the others are wrong
_HARM = 0.1  # of a usual residual, each near row: what rows far out may cost them
_BY_CHANCE = 2.0  # standard errors


def unfounded(rows: RegressionRows, fit: RobustFit, near: NDArray[np.bool_]) -> bool:
    """Whether the fit describes rows of one target value only, or hardly any others."""
    target, count = rows.target, rows.weights
    described = (fit.trust > 0.5) & (count > 0)
    values, index = np.unique(target, return_inverse=True)
    if len(values) == 1:
        return False
    range_described = float(np.ptp(target[described])) if described.any() else 0.0
    if fit.scale == 0.0:
        share = float(count[described].sum() / count.sum())
        constant = share >= _CONSTANT and bool(target[described].any())
        return range_described == 0.0 and not constant
    shares = np.bincount(index, count * near) / count[near].sum()
    value = values[shares.argmax()]
    if shares.max() < _TIED or is_code(float(value), target[described]):
        return False
    few = bool(count[described].sum() < _KEPT_OF_TIED * count.sum())
    rounded = _only_rounded(count, described, target == value)
    return few and not rounded and not _foreign(rows, fit, value)


def _only_rounded(count: Vector, described: NDArray[np.bool_], tied: NDArray[np.bool_]) -> bool:
    """Whether the fit describes the rows of a common value, and at least as many others.

    So it is where targets are rounded, by however many other rows are wrong, and not where a
    quantity is mostly zero.
    """
    inside, total = float(count[described & tied].sum()), float(count[described].sum())
    whole = inside > _KEPT_OF_TIED * float(count[tied].sum())
    return whole and 2.0 * inside < total and total > LEAST_DESCRIBED * float(count.sum())


def _foreign(rows: RegressionRows, fit: RobustFit, value: float) -> bool:
    """Whether rows of a common value, other than zero, have nothing to do with what fits the rest.

    Where a quantity ends or is cut off, rows that are there are also predicted to be nearer to it.
    """
    tied = (rows.target == value) & (rows.weights > 0)
    rest = (rows.target != value) & (rows.weights > 0)
    count, predicted = rows.weights, rows.target - rows.residual(fit.coef)
    far = np.median(np.abs(value - predicted[tied])) > INNER * fit.scale
    fits = count[rest] @ (fit.trust[rest] > 0.5) >= _KEPT_OF_TIED * count[rest].sum()
    if value == 0 or not far or not fits:
        return False
    nearer = (predicted[tied].mean() - predicted[rest].mean()) * np.sign(value - predicted.mean())
    error = np.sqrt(predicted[tied].var() / tied.sum() + predicted[rest].var() / rest.sum())
    return bool(nearer <= _BY_CHANCE * error)


def least_absolute(rows: RegressionRows, near: NDArray[np.bool_], intercept: bool) -> RobustFit:
    """min sum |r_i|, proven, of all rows; of the near ones alone where these contradict the others.

    With a ridge where rows are few. No sum of absolute values bounds what wrong features do.
    """
    k = rows.design.shape[1]
    few = rows.weights.sum() < FEW * k
    problem = LinearFit(
        p=1, regularizer="ridge" if few else None, alpha="auto" if few else 0.0,
        constraint=None, fit_intercept=intercept, tol=PROVEN_ABSOLUTE, max_iter=200,
    )  # fmt: skip
    x, target = rows.design[:, 1:] if intercept else rows.design, rows.target[:, None]

    def fitted(count: Vector) -> tuple[Vector, float, float]:
        coef, offset, strength, solution = problem.solve(x, target, count, start=None, seed=0)
        full = np.concatenate([offset, coef[0]]) if intercept else coef[0]
        return full, strength, 0.0 if solution.certificate is None else solution.certificate.value

    ones = np.ones(len(target))
    full, strength, gap = fitted(rows.weights)
    part = rows.among(near)
    if not near.all() and part.weights.any():
        nearby = fitted(part.weights)
        whole, own = (np.abs(part.residual(coef)) for coef in (full, nearby[0]))
        # The log of the ratio of likelihoods, were residuals Laplace's.
        lost, width = float(part.weights @ (whole - own)), _laplace_width(own, part.weights)
        by_chance = 0.5 * float(chi2.isf(UNLIKE, k))
        least = max(width, PROVEN_ABSOLUTE)  # below is what the solver leaves
        if lost > max(by_chance, _HARM * float(part.weights.sum())) * least:
            (full, strength, gap), ones, rows = nearby, near.astype(np.float64), part
    count, residual = rows.weights, np.abs(rows.residual(full))
    scale = _inner_deviation(residual, count)
    if not few_for(count, k):
        return RobustFit(full, scale, ones, np.ones(len(ones)), float(len(ones)), absolute_gap=gap)
    unseen = problem.left_out(x, target, count, strength=strength, seed=0)[:, 0]
    scale = max(scale, _inner_deviation(unseen, count))
    return RobustFit(
        full, scale, ones, np.ones(len(ones)), float(len(ones)), absolute_gap=gap,
        without=np.abs(unseen),
    )  # fmt: skip


def _inner_deviation(residual: Vector, count: Vector) -> float:
    """Of those within 2.75 deviations, from what a tenth of Laplace's residuals exceed.

    A common value that is fitted exactly tells nothing of the others' noise.
    """
    wide = float(np.log(10.0)) * _laplace_width(np.abs(residual), count) or 1.0
    missed = np.where(np.abs(residual) > PROVEN_ABSOLUTE, count, 0.0)
    return inner_scale(residual, missed, start=wide, largest=np.inf, lost=0.0) or wide


def _laplace_width(size: Vector, count: Vector) -> float:
    """The mean of |residuals| that are Laplace's, by their median; of those that are not zero.

    What the solver leaves of an exact fit counts as zero.
    """
    off = (size > PROVEN_ABSOLUTE) & (count > 0)
    if not off.any():
        return 0.0
    middle = np.quantile(size[off], 0.5, weights=count[off], method="inverted_cdf")
    return float(middle) / float(np.log(2.0))
