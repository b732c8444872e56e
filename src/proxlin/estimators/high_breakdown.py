"""Linear fits that stay put while up to half of the rows are wrong, and lose nothing if none is.

An S-estimate finds the majority; with its scale held fixed, bisquare weights make it efficient
(Yohai 1987). From there rows are judged one by one, each against the others, and as many of the
farthest are left out as are more than chance would have there (Gervini & Yohai 2002); the fit is
least squares on the rows that stay, until they stay the same. So the cut follows the data: clean
rows get least squares, rows far off do not count at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f as fisher
from scipy.stats import norm
from scipy.stats import t as student

from proxlin.estimators.robust_scale import (
    EFFICIENT,
    INNER,
    Vector,
    bisquare_weight,
    inner_scale,
    m_scale,
)
from proxlin.estimators.s_estimate import (
    RegressionRows,
    gram_and_moment,
    s_estimate,
    weighted_least_squares,
)

EXACT = 1e-9  # of the size of the targets: a scale below it means an exact fit of the majority

_STEPS, _TURNS = 100, 40
_SETTLED = 1e-7  # of the scale: a change of the fit that ends the steps
_RAISED = 2.0  # times k / n: a rise of the log S-scale that efficiency alone does not cause
_SURPRISE = 0.05  # share of clean tables from which a row is left out
_BEYOND = 0.05  # share of good rows that lie farther out than where suspicion begins
_UNFORETOLD = 0.01  # share of tables whose good far rows are kept out
_ROUNDS = 20  # of leaving out rows and fitting the others
_ADMISSIONS = (INNER, 0.5, INNER)  # deviations up to which far rows are asked for, in turns


@dataclass(frozen=True, eq=False)
class RobustFit:
    """One target: coefficients of the design's columns, and what each row was worth."""

    coef: Vector  # (k,)
    scale: float  # of the residuals; 0 where more than half of the rows fit exactly
    trust: Vector  # (n,) in [0, 1]
    spread: Vector  # (n,) standard deviation of each row's residual over `scale`
    freedom: float  # degrees of freedom that `scale` is worth
    ridge: float = 0.0  # strength, where one was needed
    cut: float = 0.0  # for least squares on rows of trust 1: variance left of a Gaussian cut so


def high_breakdown_fit(rows: RegressionRows, near: NDArray[np.bool_], seed: int) -> RobustFit:
    """What most of the rows that are `near` say, and those others that fit it.

    Rows far out in their features are judged by how well the others predict them, in deviations
    that grow with their distance: good ones are worth much, bad ones must not judge themselves.
    """
    fit = _efficient_fit(rows, near, seed)
    if fit.scale == 0:
        return fit
    fit = _kept_fit(rows, near, fit)
    admitted = near
    for limit in () if near.all() else _ADMISSIONS:
        passed = ~admitted & (distances(rows.residual(fit.coef), fit) <= limit)
        if not passed.any():
            break
        wider = _least_squares(rows, (fit.trust > 0) | passed)
        if _predicted_by_others(rows, passed, fit, wider):
            admitted = admitted | passed
            fit = _kept_fit(rows, admitted, wider)
    return fit


def distances(residual: Vector, fit: RobustFit) -> Vector:
    """|residual| in standard deviations that a fit without the row would give it.

    For least squares without rows left out these are the externally studentised residuals.
    """
    distance: Vector = np.abs(residual) / (fit.scale * fit.spread)
    if fit.cut == 1.0:
        inside, least = fit.trust == 1.0, 1e-9 * fit.freedom
        left = np.maximum(fit.freedom - distance[inside] ** 2, least)
        distance[inside] *= np.sqrt(max(fit.freedom - 1.0, least) / left)
    return distance


def worth_of_scale(rows: float, lost: float) -> float:
    """Degrees of freedom of a robust scale after a fit that `lost` so many.

    It is worth fewer than a standard deviation, the more so the more coefficients follow the rows;
    half of (n - k) (1 - k/n)^2 describes simulated tables.
    """
    left = max(0.0, 1.0 - lost / rows)
    return max(3.0, 0.5 * rows * left**3)


def residual_spread(design: Vector, weights: Vector, trust: Vector) -> Vector:
    """sqrt(1 + h_i - 2 trust_i h_i), h_i = a_i' (A' W A)^-1 a_i: for rows in the fit and out of it.

    Directions of which the weighted rows say nothing have no end of spread.
    """
    gram, _ = gram_and_moment(design, trust, weights)
    values, vectors = np.linalg.eigh(gram)
    largest = max(float(values.max(initial=0.0)), np.finfo(np.float64).tiny)
    root = 1.0 / np.sqrt(np.maximum(values, 1e-12 * largest))
    leverage = ((design @ (vectors * root)) ** 2).sum(axis=1)
    spread: Vector = np.sqrt(np.maximum(1.0 + leverage - 2.0 * trust * leverage, 1e-6))
    return spread


def rows_to_leave_out(
    distance: Vector, freedom: float, counts: Vector, least: float
) -> tuple[NDArray[np.bool_], float]:
    """As many of the farthest as are more than chance would have there, and the nearest of them.

    For Student's distances that one good row in twenty exceeds: the largest excess of rows beyond
    any of them over what is expected of the others (Gervini & Yohai 2002); none where chance has
    rows so far out in one of twenty tables (Simes 1986). Rows that count `least` always stay: no
    majority is left out.
    """
    total = float(counts.sum())
    order = np.argsort(np.where(counts > 0, -distance, np.inf), kind="stable")
    gone = np.cumsum(counts[order])
    chance = 2.0 * student.sf(distance[order], max(1.0, freedom))
    judged = (gone <= total - least) & (counts[order] > 0) & (chance <= _BEYOND)
    left_out = np.zeros(len(distance), dtype=bool)
    if not (judged & (chance <= _SURPRISE * gone / total)).any():
        return left_out, np.inf
    excess = float((gone - chance * (total - gone))[judged].max())
    farthest = order[judged & (gone <= excess + 0.5)]
    left_out[farthest] = True
    return left_out, float(distance[farthest].min(initial=np.inf))


def cut_variance(limit: float) -> float:
    """The variance of a standard Gaussian within +- limit."""
    if not np.isfinite(limit):
        return 1.0
    return float(1.0 - 2.0 * limit * norm.pdf(limit) / (1.0 - 2.0 * norm.sf(limit)))


def _kept_fit(rows: RegressionRows, admitted: NDArray[np.bool_], fit: RobustFit) -> RobustFit:
    """Least squares on the rows that are not left out, until these stay the same."""
    part = rows.among(admitted)
    least = (float(part.weights.sum()) + rows.design.shape[1] + 1) / 2
    before = None
    for _ in range(_ROUNDS):
        distance = distances(rows.residual(fit.coef), fit)
        left_out, limit = rows_to_leave_out(distance, fit.freedom, part.weights, least)
        kept = admitted & ~left_out
        if before is not None and bool((kept == before).all()):
            break
        fit, before = _least_squares(part, kept, limit), kept
        rows.tell(fit.coef, fit.scale)
    return fit


def _least_squares(
    rows: RegressionRows, kept: NDArray[np.bool_], limit: float = np.inf
) -> RobustFit:
    """Least squares on these rows; the scale of a Gaussian that was cut at so many deviations."""
    part, k = rows.among(kept), rows.design.shape[1]
    coef = weighted_least_squares(part.design, part.target, part.weights)
    freedom = max(1.0, float(part.weights.sum()) - k)
    cut = cut_variance(limit)
    variance = float(part.weights @ rows.residual(coef) ** 2) / freedom / cut
    trust = kept.astype(np.float64)
    spread = residual_spread(rows.design, part.weights, trust)
    if np.isfinite(limit):  # a scale that chose its rows
        freedom = min(freedom, worth_of_scale(float(rows.weights.sum()), k))
    return RobustFit(coef, float(np.sqrt(variance)), trust, spread, freedom, cut=cut)


def _predicted_by_others(
    rows: RegressionRows, passed: NDArray[np.bool_], before: RobustFit, wider: RobustFit
) -> bool:
    """Whether rows that pass one by one also do together: Chow's (1960) test of predictions.

    Where many do not fit, a few pass by chance, but not with deviations as small as good ones have.
    """
    squares = [
        float((rows.weights * fit.trust) @ rows.residual(fit.coef) ** 2) for fit in (before, wider)
    ]
    count = float(rows.weights[passed].sum())
    ratio = (squares[1] - squares[0]) / (count * before.scale**2)
    return bool(ratio <= fisher.ppf(1.0 - _UNFORETOLD, count, max(1.0, before.freedom)))


def _efficient_fit(rows: RegressionRows, near: NDArray[np.bool_], seed: int) -> RobustFit:
    """The S-estimate of the rows that are near, and from there the efficient fit.

    Many wrong rows on one side make the S-scale so wide that the efficient weights take them in.
    Where that raises the S-scale more than estimation alone does (about k / 2n), the scale is
    brought down to that of the rows inside first.
    """
    part = rows.among(near)
    n, k = float(part.weights.sum()), rows.design.shape[1]
    coef, scale = s_estimate(part, seed)
    if scale <= EXACT:
        trust = (np.abs(rows.residual(coef)) <= EXACT).astype(np.float64)
        return RobustFit(coef, 0.0, trust, np.ones(len(trust)), max(2.0, n - k), cut=1.0)
    wide = _efficient_steps(part, coef, scale, _STEPS)
    raised = float(m_scale(rows.residual(wide), part.weights, freedom=part.freedom)) / scale
    coef, largest = wide if np.log(raised) < _RAISED * k / n else coef, scale
    for _ in range(_TURNS):
        residual = rows.residual(coef)
        scale = inner_scale(residual, part.weights, start=scale, largest=largest, lost=k)
        before, coef = coef, _efficient_steps(part, coef, scale, 5)
        if np.abs((rows.design @ (coef - before))[near]).max(initial=0.0) < _SETTLED * scale:
            break
    trust = bisquare_weight(rows.residual(coef) / (EFFICIENT * scale)) * near
    spread = residual_spread(rows.design, rows.weights * trust, trust)
    return RobustFit(coef, scale, trust, spread, worth_of_scale(n, k))


def _efficient_steps(rows: RegressionRows, coef: Vector, scale: float, steps: int) -> Vector:
    """Reweighted least squares at a fixed scale."""
    for _ in range(steps):
        trust = bisquare_weight(rows.residual(coef) / (EFFICIENT * scale))
        before, coef = coef, weighted_least_squares(rows.design, rows.target, rows.weights * trust)
        rows.tell(coef, scale)
        moved = np.abs((rows.design @ (coef - before))[rows.weights > 0])
        if moved.max(initial=0.0) < _SETTLED * scale:
            break
    return coef
