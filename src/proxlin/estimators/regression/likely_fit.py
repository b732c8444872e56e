"""Least squares with what each row is worth: its probability to be good.

From a start, residuals are those of a Gaussian among errors of any size, or beside a group of rows
that are off alike; weights follow the fit and the fit the weights until nothing changes. So the
weights follow the data: clean rows get least squares, rows far off do not count at all, and rows in
between by what is known of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from proxlin.estimators.regression.long_tails import TAILS, LongTails
from proxlin.estimators.regression.row_kinds import RowKinds
from proxlin.estimators.regression.row_mixture import RowMixture
from proxlin.estimators.regression.s_estimate import (
    RegressionRows,
    gram_and_moment,
    weighted_least_squares,
)
from proxlin.estimators.robust_scale import INNER, Vector

EXACT = 1e-9  # of the size of the targets: a scale below it means an exact fit of the majority
FARTHEST = 1e100  # sizes or deviations: rows so far off are alike, and their squares are numbers
FAR = 20.0  # deviations within which wrong rows may hide behind those that are far off

# What wrong rows must add to the evidence, in log(n): a half for each number that tells of them.
_COST = 1.0
_HIDING = 3.0  # times as far off they are
_WORK = 1e8  # multiplications of a fit up to which least squares is a start, and tails are tried
_SHARE_STEPS = 20  # towards the share of scattered rows
_ROUNDS = 100  # of weights and fits in turns
_LEAST_INSIDE = 0.45  # share of the rows within 2.75 scales of noise with long tails
_SETTLED, _SETTLED_GROUP = 1e-6, 1e-4  # changes of the weights that end them
_LEAST_INFORMATION = 0.2  # of the sum of weights: psi' of few rows may leave nothing


@dataclass(frozen=True, eq=False)
class RobustFit:
    """One target: coefficients of the design's columns, and what each row was worth."""

    coef: Vector  # (k,)
    scale: float  # of the residuals; 0 where more than half of the rows fit exactly
    trust: Vector  # (n,) in [0, 1]
    spread: Vector  # (n,) standard deviation of each row's residual over `scale`
    freedom: float  # degrees of freedom that `scale` is worth
    ridge: float = 0.0  # strength, where one was needed
    slope: Vector | None = None  # (n,) of psi(r) = trust r, where this is weighted least squares
    absolute_gap: float | None = None  # relative duality gap, of least absolute residuals
    # Of rows from fits without them; None: what `spread` says of least squares.
    without: Vector | None = None  # (n,) |residual|
    unseen_scale: float | None = None  # deviation of good ones

    def times(self, unit: float) -> RobustFit:
        """The same in other units of the target; a scale is never zero."""
        return replace(
            self,
            coef=self.coef * unit,
            scale=max(self.scale, EXACT) * unit,
            without=None if self.without is None else self.without * unit,
            unseen_scale=None if self.unseen_scale is None else self.unseen_scale * unit,
        )

    def left_out(self, residual: Vector) -> Vector:
        """|residual| of each row from a fit without it."""
        return np.abs(residual) / self.spread**2 if self.without is None else self.without

    def scale_of_unseen(self, count: Vector) -> float:
        """The deviation of new good rows: of noise, and of what the fit is off by.

        By least squares, residuals have sqrt(1 - h) deviations, and 1 / sqrt(1 - h) when left out.
        """
        inside = (self.trust > 0.5) & (count > 0)
        if self.unseen_scale is not None or not inside.any():
            return max(self.scale, self.unseen_scale or 0.0)
        return self.scale / min(1.0, float(np.median(self.spread[inside])))


def likely_fit(rows: RegressionRows, admitted: NDArray[np.bool_], *starts: RobustFit) -> RobustFit:
    """Least squares with each row's probability to be good as weight.

    That is the likeliest of what the starts lead to, times its own probability against a table
    without wrong rows, in which all count fully (Schwarz 1978; Raftery 1995).
    """
    part = rows.among(admitted)
    total = float(part.weights.sum())
    whole = least_squares(part, admitted.astype(np.float64))
    if whole.scale <= EXACT:
        return exact_fit(rows, whole.coef, total)
    cheap = total * len(whole.coef) ** 2 <= _WORK
    starts = (*starts, whole) if cheap else starts
    found = [_among_scattered(part, admitted, start) for start in starts]
    coefs = {id(start.coef): start.coef for start in (whole, *starts)}  # each of them once
    groups = [_beside_a_group(part, coef) for coef in coefs.values()]
    found += [group for group in groups if group is not None]
    fit, evidence = max(found, key=lambda pair: pair[1])
    needed = _evidence(part, whole, RowKinds(whole.scale)) + _COST * np.log(total)
    if cheap:
        tailed = [_long_tailed(part, admitted, fit, tails) for tails in TAILS]
        longer, its_evidence = max(tailed, key=lambda pair: pair[1])
        if its_evidence > needed:  # else rows of clean tables would not count fully
            fit = _mixed(part, longer, fit, float(expit(its_evidence - evidence)))
            evidence = max(evidence, its_evidence)
    wrong = float(expit(evidence - needed))
    size = np.abs(part.residual(fit.coef)[admitted]) / fit.scale
    if wrong > 0.5 and size.max(initial=0.0) > _HIDING * FAR:
        inside = admitted.copy()
        inside[admitted] = size <= FAR
        if 2.0 * part.weights[inside].sum() > total:
            return likely_fit(rows, inside, fit)
    return _mixed(part, fit, whole, wrong)


def exact_fit(rows: RegressionRows, coef: Vector, total: float) -> RobustFit:
    """That of rows, so many of those that speak, which these coefficients leave nothing of."""
    trust = (np.abs(rows.residual(coef)) <= EXACT).astype(np.float64)
    freedom = max(2.0, total - len(coef))
    return RobustFit(coef, 0.0, trust, np.ones(len(trust)), freedom, slope=trust)


def _mixed(part: RegressionRows, fit: RobustFit, other: RobustFit, chance: float) -> RobustFit:
    """Least squares with the weights of two such fits, the first as likely as `chance` says."""
    if min(chance, 1.0 - chance) < _SETTLED:
        return fit if chance > 0.5 else other

    def mean(first: Vector, second: Vector) -> Vector:
        return chance * first + (1.0 - chance) * second

    slope = None if fit.slope is None or other.slope is None else mean(fit.slope, other.slope)
    return replace(
        least_squares(part, mean(fit.trust, other.trust)),
        scale=float(np.sqrt(chance * fit.scale**2 + (1.0 - chance) * other.scale**2)),
        spread=mean(fit.spread, other.spread),
        freedom=chance * fit.freedom + (1.0 - chance) * other.freedom,
        slope=slope,
    )


def _among_scattered(
    part: RegressionRows, admitted: NDArray[np.bool_], start: RobustFit
) -> tuple[RobustFit, float]:
    """Weights and fit in turns until they stay, wrong rows lying evenly; and its evidence."""
    k = part.design.shape[1]
    counts, total = part.weights, float(part.weights.sum())
    fit, mixture = start, RowMixture(start.scale, max(3.0, total - k))
    for _ in range(_ROUNDS):
        size = np.abs(part.residual(fit.coef)) / fit.spread
        mixture = mixture.improved(size[admitted], counts[admitted], least=(total + k + 1) / 2)
        if mixture.scale <= EXACT:  # a minority that fits exactly has drawn all likelihood to it
            return start, -np.inf
        trust = np.where(admitted, mixture.trust(size), 0.0)
        settled = np.abs(trust - fit.trust).max(initial=0.0) <= _SETTLED
        # What psi(u) = w u tells is the sum of psi' = w - w (1 - w) u^2: less than that of w.
        slope = trust * (1.0 - 2.0 * (1.0 - trust) * mixture.exponent(size))
        fit = _weighted(part, trust, mixture.scale, slope)
        if settled:
            break
    return fit, _evidence(part, fit, scattered_kinds(part, fit))


def scattered_kinds(part: RegressionRows, fit: RobustFit) -> RowKinds:
    """Good rows, and wrong ones that lie evenly, as many as is likeliest."""
    wrong = float(part.weights @ (1.0 - fit.trust)) / float(part.weights.sum())
    kinds = RowKinds(fit.scale, shares=np.array([1.0 - wrong, 0.0, wrong]))
    for _ in range(_SHARE_STEPS if wrong else 0):
        kinds = kinds.with_shares(part.residual(fit.coef), part.weights)
    return kinds


def _beside_a_group(part: RegressionRows, coef: Vector) -> tuple[RobustFit, float] | None:
    """The same where many wrong rows lie together on one side: good rows, a group, the rest.

    It is looked for among the residuals of these coefficients. Of skewed noise groups would be
    found that overlap; such are not held for wrong.
    """
    counts, k = part.weights, part.design.shape[1]
    total, residual = float(counts.sum()), part.residual(coef)
    if np.ptp(residual[counts > 0]) <= EXACT:
        return None
    kinds, middle = RowKinds.parted(residual, counts, lost=k)
    residual, before = residual - middle, np.zeros(len(counts))
    for _ in range(_ROUNDS):
        if not kinds.apart or total * kinds.shares[0] < (total + k + 1) / 2:
            return None
        trust, slope = (np.where(counts > 0, kept, 0.0) for kept in kinds.trust(residual))
        coef = weighted_least_squares(part.design, part.target, counts * trust)
        part.tell(coef, kinds.scale)
        if np.abs(trust - before).max(initial=0.0) <= _SETTLED_GROUP:
            break
        residual, before = part.residual(coef), trust
        kinds = kinds.improved(residual, counts, lost=k)
    fit = _weighted(part, trust, kinds.scale, slope)
    # Three numbers more: how many they are, how far, how wide.
    return fit, _evidence(part, fit, kinds) - 1.5 * np.log(total)


def _long_tailed(
    part: RegressionRows, admitted: NDArray[np.bool_], start: RobustFit, tails: float
) -> tuple[RobustFit, float]:
    """The same where good rows have long tails."""
    counts, k = part.weights, part.design.shape[1]
    total, fit = float(counts.sum()), start
    kinds, good = LongTails.begun(start.scale, tails, total), start.trust
    for _ in range(_ROUNDS):
        residual = part.residual(fit.coef)
        kinds = kinds.improved(residual, counts, lost=k)
        # A third of all rows, fitted exactly, has it shrink to nothing: no noise is of that kind.
        inside = float(counts @ (np.abs(residual) <= INNER * kinds.scale))
        if inside < _LEAST_INSIDE * total:
            return start, -np.inf
        trust, slope, good = (np.where(counts > 0, each, 0.0) for each in kinds.trust(residual))
        settled = np.abs(trust - fit.trust).max(initial=0.0) <= _SETTLED_GROUP
        fit = _weighted(part, trust, kinds.scale, slope)
        if settled:
            break
    # A row tells of the coefficients (tails + 1) / (tails + 3) of what a Gaussian one does.
    likely = kinds.log_likelihood(part.residual(fit.coef), counts)
    likely += _volume(part, good * (tails + 1.0) / (tails + 3.0), kinds.scale)
    # Rows are judged by the Gaussian in the middle, as they are elsewhere.
    size = np.abs(part.residual(fit.coef)) / fit.spread
    middle = RowMixture(start.scale, max(3.0, total - k)).improved(
        size[admitted], counts[admitted], least=(total + k + 1) / 2
    )
    # One number more, and wrong rows are two if there are any.
    numbers = 0.5 + (1.0 if kinds.wrong > 0 else 0.0)
    return replace(fit, scale=middle.scale), likely + (_COST - numbers) * np.log(total)


def _weighted(part: RegressionRows, trust: Vector, scale: float, slope: Vector) -> RobustFit:
    """Least squares with weights that follow the residuals, and tell less than their sum."""
    mass = part.weights * trust
    information = max(float(part.weights @ slope), _LEAST_INFORMATION * float(mass.sum()))
    coef = weighted_least_squares(part.design, part.target, mass)
    part.tell(coef, scale)
    spread = residual_spread(part.design, mass, trust, loss=float(mass.sum()) / information)
    freedom = max(3.0, information - len(coef))
    return RobustFit(coef, scale, trust, spread, freedom, slope=slope)


def _evidence(part: RegressionRows, fit: RobustFit, kinds: RowKinds) -> float:
    """log of the likelihood with the coefficients integrated out, by Laplace's method.

    Else a part of few rows with many coefficients would always seem likelier than the whole.
    """
    likely = kinds.log_likelihood(part.residual(fit.coef), part.weights)
    return likely + _volume(part, fit.trust, fit.scale)


def _volume(part: RegressionRows, trust: Vector, scale: float) -> float:
    """log of the volume of coefficients that rows with this trust leave, up to a constant."""
    gram, _ = gram_and_moment(part.design, trust, part.weights * trust)
    values = np.linalg.eigvalsh(gram)
    values = np.maximum(values, 1e-12 * values.max(initial=np.finfo(np.float64).tiny))
    return float(len(values) * np.log(scale) - 0.5 * float(np.log(values).sum()))


def distances(residual: Vector, fit: RobustFit) -> Vector:
    """|residual| in standard deviations that a fit without the row would give it.

    For least squares without rows left out these are the externally studentised residuals.
    """
    with np.errstate(over="ignore"):
        distance: Vector = np.minimum(np.abs(residual) / (fit.scale * fit.spread), FARTHEST)
    if fit.slope is None:
        return distance
    least = 1e-9 * fit.freedom
    left = np.maximum(fit.freedom - fit.trust * distance**2, least)
    without: Vector = distance * np.sqrt(np.maximum(fit.freedom - fit.trust, least) / left)
    return without


def worth_of_scale(rows: float, lost: float) -> float:
    """Degrees of freedom of a robust scale after a fit that `lost` so many.

    It is worth fewer than a standard deviation, the more so the more coefficients follow the rows;
    half of (n - k) (1 - k/n)^2 describes simulated tables.
    """
    left = max(0.0, 1.0 - lost / rows)
    return max(3.0, 0.5 * rows * left**3)


def residual_spread(design: Vector, weights: Vector, trust: Vector, loss: float = 1.0) -> Vector:
    """sqrt(1 + g_i) / (1 + trust_i g_i), g_i the variance of what the others predict for row i.

    g = loss h / (1 - trust h), h_i = a_i' (A' W A)^-1 a_i: sqrt(1 - h) for rows in a fit by least
    squares, sqrt(1 + h) for rows out of it. Weights that follow the residuals tell less than
    their sum, by the factor `loss`. Directions of which no row tells have no end of spread.
    """
    gram, _ = gram_and_moment(design, trust, weights)
    values, vectors = np.linalg.eigh(gram)
    largest = max(float(values.max(initial=0.0)), np.finfo(np.float64).tiny)
    root = 1.0 / np.sqrt(np.maximum(values, 1e-12 * largest))
    leverage = ((design @ (vectors * root)) ** 2).sum(axis=1)
    predicted = loss * leverage / np.maximum(1.0 - trust * leverage, 1e-9)
    spread: Vector = np.sqrt(1.0 + predicted) / (1.0 + trust * predicted)
    return spread


def least_squares(rows: RegressionRows, trust: Vector) -> RobustFit:
    """Least squares with these weights, and the deviation that its residuals have by them."""
    mass = rows.weights * trust
    coef = weighted_least_squares(rows.design, rows.target, mass)
    freedom = max(1.0, float(mass.sum()) - rows.design.shape[1])
    variance = float(mass @ rows.residual(coef) ** 2) / freedom
    spread = residual_spread(rows.design, mass, trust)
    return RobustFit(coef, float(np.sqrt(variance)), trust, spread, freedom, slope=trust)
