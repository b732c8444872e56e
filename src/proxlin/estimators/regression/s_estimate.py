"""The S-estimate: the hyperplane whose residuals have the least M-scale (Rousseeuw & Yohai 1984).

While fewer than half of the rows are wrong, no errors move it far. Its many local minima are
searched from fits that differ in what they resist: least absolute residuals, the bulk of features
and target together, random subsets of rows; each is improved by reweighted least squares, which
never raises the scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from proxlin.estimators.leverage import bulk_rows
from proxlin.estimators.regression.near_rows import few_values
from proxlin.estimators.robust_scale import HALF, Vector, bisquare_weight, m_scale

_SEARCH_ROWS = 2000  # rows at least among which starts are compared
_SUBSETS = 500  # random subsets of rows, fewer where many coefficients make them useless
_FEWEST_SUBSETS = 50  # below which they are not worth their time
_WORK = 2e9  # multiplications that the random subsets may cost
_LEFT = ((20, 2), (5, 10), (1, 100))  # candidates that are left, and their steps
_FOLLOWED = ((20, 100),)  # the same where it costs at most
_CHEAP = 1e8  # multiplications
_ALIKE = 1e-4  # relative difference of the scales of one minimum
_CONCENTRATIONS = 2  # of random subsets before they are compared
_SAME = 1e-8  # relative change of a scale that is none
_BLOCK = 1 << 16  # rows of one product
_WIDE = 100  # columns, beyond which normal equations save time in tables of few rows
_INDEPENDENT = 1e-3  # least pivot over the largest, with which one refinement is enough
_FEW_COLUMNS, _MANY_WEIGHTS = 20, 5  # with which all products of columns at once are faster


@dataclass(frozen=True, eq=False)
class RegressionRows:
    """One target over a design; weights count rows."""

    design: Vector  # (n, k)
    target: Vector  # (n,)
    weights: Vector  # (n,) >= 0
    watch: Callable[[Vector, float], None] | None = None  # told coefficients and scale of a pass

    def residual(self, coef: Vector) -> Vector:
        """The target minus the fit."""
        return self.target - self.design @ coef

    def among(self, chosen: NDArray[np.bool_]) -> RegressionRows:
        """The same with no weight for the other rows."""
        return replace(self, weights=np.where(chosen, self.weights, 0.0))

    def tell(self, coef: Vector, scale: float) -> None:
        """Tell who watches that the rows were passed through."""
        if self.watch is not None:
            self.watch(coef, scale)

    @property
    def freedom(self) -> float:
        """1 - k/n, the share of degrees of freedom that a fit leaves."""
        return float(max(0.05, 1.0 - self.design.shape[1] / float(self.weights.sum())))


def s_estimates(rows: RegressionRows, seed: int) -> list[tuple[Vector, float]]:
    """Local minima b of M-scale(target - design b) over the rows that have a weight, best first.

    More than one only where many candidates cost little to follow. The least is the S-estimate;
    where most rows of one category are wrong, it need not be the likeliest.
    """
    generator = np.random.default_rng(seed)
    used = np.flatnonzero(rows.weights > 0)
    most = max(_SEARCH_ROWS, 20 * rows.design.shape[1])
    chosen = generator.choice(used, most, replace=False) if len(used) > most else used
    sample = RegressionRows(rows.design[chosen], rows.target[chosen], rows.weights[chosen])
    coefs = np.stack([*_deterministic_starts(sample), *_subset_starts(sample, generator)])
    scales = _scales(sample, coefs)
    cheap = np.prod(_FOLLOWED) * sample.design.size * sample.design.shape[1] <= _CHEAP
    for count, steps in _FOLLOWED if cheap else _LEFT:
        coefs = coefs[np.argsort(scales, kind="stable")[:count]]
        if cheap:
            coefs = np.concatenate([coefs, _starts_without_categories(sample)])
        coefs, scales = _improved(sample, coefs, _scales(sample, coefs), steps)
    if len(chosen) < len(used):
        best = int(np.argmin(scales))
        coefs = coefs[best : best + 1]
        coefs, scales = _improved(rows, coefs, _scales(rows, coefs), 20)
    order = np.argsort(scales, kind="stable")
    new = np.diff(scales[order], prepend=-np.inf) > _ALIKE * scales[order]
    return [(coefs[i], float(scales[i])) for i in order[new]]


def weighted_least_squares(design: Vector, target: Vector, weights: Vector) -> Vector:
    """argmin_b sum_i w_i (y_i - a_i b)^2, the shortest of several."""
    used = weights > 0
    if used.sum() > 20 * design.shape[1]:
        gram, moment = gram_and_moment(design, target, weights)
        return np.asarray(_solve(gram[None], moment[None])[0], dtype=np.float64)
    if design.shape[1] > _WIDE and used.sum() > 2 * design.shape[1]:
        refined = _refined(design, target, weights)
        if refined is not None:
            return refined
    root = np.sqrt(weights[used])
    weighted = root[:, None] * design[used]
    coef = np.linalg.lstsq(weighted, root * target[used], rcond=1e-11)[0]
    return np.asarray(coef, dtype=np.float64)


def _refined(design: Vector, target: Vector, weights: Vector) -> Vector | None:
    """Least squares by normal equations and one refinement; None where columns nearly depend.

    Many columns take a third of the time of an orthogonal decomposition.
    """
    gram, moment = gram_and_moment(design, target, weights)
    try:
        factor = cho_factor(gram, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diag(factor[0])
    if pivots.min() < _INDEPENDENT * pivots.max():
        return None
    coef = cho_solve(factor, moment, check_finite=False)
    missed = weights * (target - design @ coef)
    refined: Vector = coef + cho_solve(factor, missed @ design, check_finite=False)
    return refined


def gram_and_moment(design: Vector, target: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """A^T W A and A^T W y, a bounded number of rows at a time."""
    k = design.shape[1]
    gram, moment = np.zeros((k, k)), np.zeros(k)
    for first in range(0, len(design), _BLOCK):
        block = slice(first, first + _BLOCK)
        root = np.sqrt(weights[block])
        weighted = design[block] * root[:, None]
        gram += weighted.T @ weighted  # a matrix with its own transpose: half of the work
        moment += (root * target[block]) @ weighted
    return gram, moment


def _scales(rows: RegressionRows, coefs: Vector) -> Vector:
    return m_scale(rows.target - coefs @ rows.design.T, rows.weights, freedom=rows.freedom)


def _improved(
    rows: RegressionRows, coefs: Vector, scales: Vector, steps: int
) -> tuple[Vector, Vector]:
    """Steps of reweighted least squares from all candidates at once; none ends worse."""
    active = np.arange(len(coefs))
    tiny = np.finfo(np.float64).tiny
    for _ in range(steps):
        residual = rows.target - coefs[active] @ rows.design.T
        with np.errstate(over="ignore"):
            trust = bisquare_weight(residual / np.maximum(HALF * scales[active], tiny)[:, None])
        new = _solve(*_normal_equations(rows, rows.weights * trust))
        now = _scales(rows, new)
        lower = now < scales[active] * (1.0 - _SAME)
        active = active[lower]
        coefs[active], scales[active] = new[lower], now[lower]
        rows.tell(coefs[0], float(scales[0]))
        if not len(active):
            break
    return coefs, scales


def _normal_equations(rows: RegressionRows, weights: Vector) -> tuple[Vector, Vector]:
    """A^T W A and A^T W y for several sets of weights."""
    a, k = rows.design, rows.design.shape[1]
    if k <= _FEW_COLUMNS and len(weights) > _MANY_WEIGHTS:
        pairs = (a[:, :, None] * a[:, None, :]).reshape(len(a), k * k)
        return (weights @ pairs).reshape(-1, k, k), weights @ (a * rows.target[:, None])
    systems = [gram_and_moment(a, rows.target, row) for row in weights]
    return np.stack([gram for gram, _ in systems]), np.stack([moment for _, moment in systems])


def _solve(grams: Vector, moments: Vector) -> Vector:
    """Solutions of several systems; directions without data are left at (nearly) zero."""
    k = grams.shape[-1]
    size = np.trace(grams, axis1=1, axis2=2) / k + np.finfo(np.float64).tiny
    ridged = grams + (1e-13 * size)[:, None, None] * np.eye(k)
    return np.asarray(np.linalg.solve(ridged, moments[..., None])[..., 0])


def _deterministic_starts(rows: RegressionRows) -> list[Vector]:
    """Least squares, least absolute residuals, and least squares on halves that lie together."""
    a, y, w = rows.design, rows.target, rows.weights
    starts = [weighted_least_squares(a, y, w), _least_absolute(rows)]
    for half in bulk_rows(np.column_stack([a, y])):
        inside = np.zeros(len(a))
        inside[half] = w[half]
        starts.append(weighted_least_squares(a, y, inside))
    return starts


def _starts_without_categories(rows: RegressionRows) -> Vector:
    """The same by the columns of many values alone, zero for the others (Maronna & Yohai 2000).

    Where most rows of a category are wrong, fits that have a coefficient for it follow them.
    """
    few = np.array([few_values(column) for column in rows.design.T])
    few &= np.ptp(rows.design, axis=0) > 0  # the intercept is no category
    if not few.any() or few.all():
        return np.empty((0, len(few)))
    starts = _deterministic_starts(replace(rows, design=rows.design[:, ~few]))
    coefs = np.zeros((len(starts), len(few)))
    coefs[:, ~few] = starts
    return coefs


def _least_absolute(rows: RegressionRows) -> Vector:
    """argmin_b sum_i w_i |y_i - a_i b| to a few digits, by reweighted least squares."""
    coef = weighted_least_squares(rows.design, rows.target, rows.weights)
    for _ in range(20):
        size = np.abs(rows.residual(coef))
        floor = 1e-3 * np.median(size)
        if floor == 0:  # half of the rows are fitted exactly
            break
        pull = rows.weights * (floor / np.maximum(size, floor))
        coef = weighted_least_squares(rows.design, rows.target, pull / pull.max())
    return coef


def _subset_starts(rows: RegressionRows, generator: np.random.Generator) -> Vector:
    """Exact fits to random rows, as many as there are coefficients, then to the half they fit best.

    Such concentration (Rousseeuw & Van Driessen 2006) takes them where wrong rows have no say, even
    if so many are wrong that reweighting at their M-scale would not.
    """
    n, k = rows.design.shape
    count = int(min(_SUBSETS, _WORK / (k**3 + n * k)))
    if k > n or count < _FEWEST_SUBSETS:
        return np.empty((0, k))
    picks = np.stack([generator.choice(n, k, replace=False) for _ in range(count)])
    part = rows.design[picks].transpose(0, 2, 1)
    moments = part @ rows.target[picks][..., None]
    coefs = _solve(part @ part.transpose(0, 2, 1), moments[..., 0])
    half = (n + k + 1) // 2
    for _ in range(_CONCENTRATIONS if count * n * k**2 <= _WORK else 0):
        size = np.abs(rows.target - coefs @ rows.design.T)
        inside = size <= np.partition(size, half - 1, axis=1)[:, half - 1 : half]
        coefs = _solve(*_normal_equations(rows, rows.weights * inside))
    return coefs
