"""Linear fits that stay put while up to half of the rows are wrong, and lose nothing if none is.

An S-estimate finds the majority of the rows near the bulk of the features, and each of these counts
by its probability to be good from there on. Rows far out are judged by what the others predict,
first one by one, then by a fit to all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f as fisher
from scipy.stats import norm
from scipy.stats import t as student

from proxlin.estimators.regression.judged_rows import UNLIKE
from proxlin.estimators.regression.likely_fit import (
    EXACT,
    FAR,
    RobustFit,
    distances,
    exact_fit,
    least_squares,
    likely_fit,
    residual_spread,
    scattered_kinds,
    worth_of_scale,
)
from proxlin.estimators.regression.s_estimate import (
    RegressionRows,
    gram_and_moment,
    s_estimates,
    weighted_least_squares,
)
from proxlin.estimators.robust_scale import (
    EFFICIENT,
    INNER,
    Vector,
    bisquare_weight,
    half_scale,
    m_scale,
)

_STEPS = 100
_SETTLED = 1e-6  # of the scale: a change of the predictions that ends them
_RAISED = 2.0  # times k / n: a rise of the log S-scale that efficiency alone does not cause
_UNEXPECTED = 0.01  # share of tables whose good far rows are kept out
_ADMISSIONS = 2  # times that far rows are asked
_LEAST_FREEDOM = 3.0  # degrees of freedom, of Student's t
_WIDER = 1.6  # times INNER: up to where far rows that do not fit tell how many do by chance
_PROMISED = 0.45  # share of all rows that may be wrong
_CHEAP = 1e6  # multiplications of a fit up to which all rows are asked where near ones may not do
_NARROWER = 3.0  # times as wide as by all rows is what the near ones must not say
_BY_CHANCE = 0.2  # share of the far rows that fit, above which chance may have made them


def high_breakdown_fit(rows: RegressionRows, near: NDArray[np.bool_], seed: int) -> RobustFit:
    """What most of the rows that are `near` say, and those others that fit it.

    Rows far out in their features are judged by how well the others predict them, in deviations
    that grow with their distance: good ones are worth much, bad ones must not judge themselves.
    """
    part = rows.among(near)
    minima = s_estimates(part, seed)
    coef, scale = minima[0]
    if scale <= EXACT:
        return exact_fit(rows, coef, float(part.weights.sum()))
    starts = [start for minimum in minima for start in _starts(part, *minimum)]
    nearby = likely_fit(rows, near, *starts)
    if nearby.scale == 0:
        return nearby
    fit, admitted = nearby, near
    for _ in range(0 if near.all() else _ADMISSIONS):
        passed = _foretold(rows, admitted, fit)
        if not passed.any():
            break
        wider = least_squares(rows, np.where(passed, 1.0, fit.trust))
        wider = likely_fit(rows, admitted | passed, wider)
        if wider.scale == 0:
            break
        fit, admitted = wider, admitted | passed
    described = near.all() or _describes_most(rows, fit, ~near)
    if near.all() or (described and not _may_be_outvoted(rows, near)):
        return fit
    # Far rows that the near ones do not foretell may yet go with them: powers of a column, a table
    # of several groups with wrong rows in each. Or wrong rows have the majority among the near ones
    # of a few rows, and by a noise as wide as they are far off all belong.
    whole = high_breakdown_fit(rows, np.ones_like(near), seed)
    if described and whole.scale >= fit.scale / _NARROWER:
        return fit
    if not _describes_most(rows, whole, ~near):
        return fit
    # Wrongly taken, it costs near rows what the two fits differ there; wrongly refused, far rows.
    away = np.minimum(np.abs(rows.design @ (whole.coef - fit.coef)), FAR * nearby.scale)
    apart = rows.weights * whole.trust * away**2  # so far out, rows must not outbid all others
    among_near, among_far = float(apart[near].sum()), float(apart[~near].sum())
    chance = _chance_of_agreement(rows, near, nearby, whole)
    taken = chance >= UNLIKE or chance**2 * among_far >= among_near
    return whole if taken else fit


def _may_be_outvoted(rows: RegressionRows, near: NDArray[np.bool_]) -> bool:
    """Whether as many wrong rows as may be could be a majority of the near ones, of few rows."""
    k = rows.design.shape[1]
    most = (float(rows.weights[near].sum()) - k) / 2  # that the S-estimate can stand
    return bool(rows.design.size * k <= _CHEAP and most < _PROMISED * float(rows.weights.sum()))


def _describes_most(rows: RegressionRows, fit: RobustFit, part: NDArray[np.bool_]) -> bool:
    """Whether more than half of these rows are in the fit, and predicted by the others in it."""
    if fit.scale == 0:
        return False
    inside = (fit.trust > 0.5) & (distances(rows.residual(fit.coef), fit) <= _reach(fit))
    return bool(2.0 * rows.weights[part] @ inside[part] > rows.weights[part].sum())


def _reach(fit: RobustFit) -> float:
    """The distance that as few good rows exceed as INNER has it, by a scale of few rows."""
    return float(student.ppf(norm.cdf(INNER), max(_LEAST_FREEDOM, fit.freedom)))


def _chance_of_agreement(
    rows: RegressionRows, near: NDArray[np.bool_], nearby: RobustFit, whole: RobustFit
) -> float:
    """How often chance makes near rows so much less likely by a fit to all than by their own.

    Fisher's F for the ratio of likelihoods. Far rows move a fit only in directions of which they
    tell more than the near ones, a cluster in one: these are the degrees of freedom, by
    Satterthwaite (1946).
    """
    part = rows.among(near)
    far = [np.abs(part.residual(fit.coef)) > FAR * fit.scale for fit in (nearby, whole)]
    part = part.among(~(far[0] & far[1]))
    likely = [
        scattered_kinds(part, fit).log_likelihood(part.residual(fit.coef), part.weights)
        for fit in (nearby, whole, replace(whole, scale=nearby.scale))
    ]
    lost = 2.0 * (likely[0] - max(likely[1:]))
    told = [
        gram_and_moment(rows.design, rows.target, rows.weights * trust)[0]
        for trust in (near * nearby.trust, ~near * whole.trust)
    ]
    pull = np.linalg.lstsq(told[0] + told[1], told[1], rcond=1e-12)[0]
    moved, squared = float(np.trace(pull)), float(np.trace(pull @ pull))
    freedom = max(1.0, nearby.freedom)
    return float(fisher.sf(lost / moved, moved**2 / squared, freedom)) if moved > 0.0 else 1.0


def _foretold(
    rows: RegressionRows, admitted: NDArray[np.bool_], fit: RobustFit
) -> NDArray[np.bool_]:
    """The rows not admitted that the others predict, unless as many would fit by chance.

    Where these contradict each other or the others, the half of them that is predicted best is
    asked alone: a wrong row that passes because little is known of its place is seen from nearer.
    """
    distance, reach = distances(rows.residual(fit.coef), fit), np.inf
    for _ in ("all", "the nearer half"):
        asked = ~admitted & (fit.spread <= reach)
        passed = asked & (distance <= INNER)
        count = float(rows.weights[passed].sum())
        if count == 0:
            break
        others = asked & ~passed & (distance <= _WIDER * INNER)
        by_chance = float(rows.weights[others].sum()) / (_WIDER - 1.0)
        if by_chance <= _BY_CHANCE * count:
            wider = least_squares(rows, np.where(passed, 1.0, fit.trust))
            together = _predicted_together(rows, passed, fit, wider)
            # Far out on one side rows pass all at once by chance, and set one direction of a fit.
            if together and _chance_of_agreement(rows, admitted, fit, wider) >= UNLIKE:
                return passed
        reach = float(np.median(fit.spread[passed]))
    return np.zeros_like(admitted)


def _predicted_together(
    rows: RegressionRows, passed: NDArray[np.bool_], fit: RobustFit, wider: RobustFit
) -> bool:
    """Whether rows that pass one by one also do together: Chow's (1960) test of predictions.

    Where many do not fit, a few pass by chance, but not with deviations as small as good ones have.
    """
    squares = [
        float((rows.weights * each.trust) @ rows.residual(each.coef) ** 2) for each in (fit, wider)
    ]
    count = float(rows.weights[passed].sum())
    ratio = (squares[1] - squares[0]) / (count * fit.scale**2)
    return bool(ratio <= fisher.ppf(1.0 - _UNEXPECTED, count, max(1.0, fit.freedom)))


def _starts(rows: RegressionRows, coef: Vector, scale: float) -> list[RobustFit]:
    """A bisquare fit from a minimum of the S-scale; and the same at the scale of its smaller half.

    Two fifths of the rows raise the S-scale threefold, in which they seem to belong.
    """
    wide = _efficient_steps(rows, coef, scale)
    total = float(rows.weights.sum())
    raised = float(m_scale(rows.residual(wide), rows.weights, freedom=rows.freedom)) / scale
    if raised < np.exp(_RAISED * len(coef) / total):
        coef = wide
    trust = bisquare_weight(rows.residual(coef) / (EFFICIENT * scale)) * (rows.weights > 0)
    spread = residual_spread(rows.design, rows.weights * trust, trust)
    start = RobustFit(coef, scale, trust, spread, worth_of_scale(total, len(coef)))
    half = half_scale(rows.residual(coef), rows.weights, lost=len(coef))
    return [start, replace(start, scale=half)] if EXACT < half < scale else [start]


def _efficient_steps(rows: RegressionRows, coef: Vector, scale: float) -> Vector:
    """Reweighted least squares at a fixed scale."""
    for _ in range(_STEPS):
        trust = bisquare_weight(rows.residual(coef) / (EFFICIENT * scale))
        before, coef = coef, weighted_least_squares(rows.design, rows.target, rows.weights * trust)
        rows.tell(coef, scale)
        moved = np.abs((rows.design @ (coef - before))[rows.weights > 0])
        if moved.max(initial=0.0) < _SETTLED * scale:
            break
    return coef
