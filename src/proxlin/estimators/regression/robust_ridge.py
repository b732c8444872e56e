"""Robust ridge regression for tables with about as many features as rows, or more.

There a fit can follow every row, so that its residuals say nothing. Each row is judged by what
the others predict for it instead: the leave-one-out residual r_i / (1 - h_i) of a weighted ridge,
which comes without another fit. Rows that the others do not predict lose their weight, and the
strength of the ridge is the one whose leave-one-out residuals have the least tau-scale, both in
turns (cross-validation as in Allen 1974, made robust).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.leverage import bulk_rows
from proxlin.estimators.regression.chosen_rows import MOST_ROWS, LeavingOut, chosen_by_chance
from proxlin.estimators.regression.likely_fit import RobustFit
from proxlin.estimators.regression.row_mixture import RowMixture, surprising
from proxlin.estimators.regression.s_estimate import RegressionRows
from proxlin.estimators.robust_scale import (
    EFFICIENT,
    INNER,
    Vector,
    bisquare_weight,
    inner_scale,
    m_scale,
    tau_scale,
)

STRENGTHS = np.geomspace(1e3, 1e-5, 25)  # on scaled columns, for the mean over the rows
_FIRST, _ROUNDS = 3, 12  # turns from each start, and from the best of them
_SETTLED = 1e-3
_EXACT = 1e-4  # tau-scale, of the target's, below which a fit is as exact as any: rows have copies
_RAISED = 2.0  # times the tau-scale: more than chance finds in rows that are chosen for it
_LEAST_LEFT = 1e-12  # of 1 - h, above its rounding: a weak ridge leaves wide rows next to nothing


def robust_ridge_fit(
    rows: RegressionRows,
    near: NDArray[np.bool_],
    *,
    intercept: bool,
    start: RobustFit | None = None,
) -> RobustFit:
    """argmin_b mean_i w_i (y_i - a_i b)^2 + strength ||b||^2, weights and strength from the rows.

    The first column of the design is one where there is an `intercept`, which is free of charge.
    The rows that a fit to `start` from trusts are one of the starts.
    """
    design, target, weights = rows.design, rows.target, rows.weights
    x = design[:, 1:] if intercept else design
    basis = row_space(x)
    path = _Path(x @ basis if basis is not None else x, target, weights, intercept)
    starts = [] if start is None else [start.trust]
    starts += [trust * near for trust in _starts(x, target, weights)]
    runs = [
        _turns(path, trust, near | (trust > 0), _FIRST) for trust in starts if weights @ trust > 0
    ]
    best = min(runs, key=lambda run: max(run[1], _EXACT))[0]  # of equals the first
    for admitted in (near | (best > 0), np.ones_like(near)):
        best = _turns(path, best, admitted, _ROUNDS)[0]
        if near.all():
            break
    best, scale, freedom = _likely(path, best)
    _, chosen, coef, left_out, leverage = path.best(best)
    slopes = coef[1:] if basis is None else basis @ coef[1:]
    spread = np.sqrt(_left_over(best, leverage))
    mass = weights * best
    unseen = min(_scale(left_out, mass), float(np.sqrt(mass @ left_out**2 / mass.sum())))
    if not path.counts_freedom and unseen > 0:
        # A fit that can follow every row leaves no noise to be measured: what it misses in rows
        # that it has not seen takes its place.
        scale, spread = unseen, spread * (scale / unseen)
    full = np.concatenate([coef[:1], slopes]) if intercept else slopes
    return RobustFit(
        full,
        scale,
        best,
        spread,
        freedom,
        float(chosen),
        without=np.abs(left_out),
        unseen_scale=unseen,
    )


class _Path:
    """All strengths at given weights, by one eigendecomposition."""

    def __init__(self, x: Vector, target: Vector, weights: Vector, intercept: bool) -> None:
        self.x, self.target, self.weights, self.intercept = x, target, weights, intercept
        # With fewer rows than features residuals are what is not learned, whoever is left out.
        self.counts_freedom = x.shape[1] < min(float(weights.sum()), len(x))

    def best(self, trust: Vector) -> tuple[float, float, Vector, Vector, Vector]:
        """tau-scale, strength, coefficients, leave-one-out residuals and h of the best strength."""
        mass = self.weights * trust
        total = float(mass.sum())
        middle = mass @ self.x / total if self.intercept else np.zeros(self.x.shape[1])
        level = float(mass @ self.target) / total if self.intercept else 0.0
        moved, away = self.x - middle, self.target - level
        values, vectors = np.linalg.eigh((moved * mass[:, None]).T @ moved / total)
        values = np.maximum(values, 0.0)
        scores = moved @ vectors
        moments = scores.T @ (mass * away) / total
        shrunk = 1.0 / (values[:, None] + STRENGTHS)  # (m, strengths)
        residual = away[:, None] - scores @ (shrunk * moments[:, None])
        leverage = (scores**2) @ shrunk / total + (1.0 / total if self.intercept else 0.0)
        left_out = residual / np.maximum(1.0 - trust[:, None] * leverage, _LEAST_LEFT)
        spreads = tau_scale(left_out.T, self.weights)
        index = int(np.argmin(spreads))
        slopes = vectors @ (shrunk[:, index] * moments)
        coef = np.concatenate([[level - middle @ slopes], slopes])
        return (
            float(spreads[index]), float(STRENGTHS[index]), coef,
            left_out[:, index], leverage[:, index],
        )  # fmt: skip


def _turns(
    path: _Path, trust: Vector, admitted: NDArray[np.bool_], rounds: int
) -> tuple[Vector, float]:
    """Strength and weights in turns; the last weights and the least tau-scale."""
    spread = np.inf
    for _ in range(rounds):
        spread, _, _, residual, _ = path.best(trust)
        scale = _scale(residual, path.weights * trust)
        if scale <= 0.0:
            break
        distance = residual / scale
        new = bisquare_weight(distance / EFFICIENT)
        new = np.where(admitted & ((trust > 0) | (np.abs(distance) <= INNER)), new, 0.0)
        settled = path.weights @ np.abs(new - trust) < _SETTLED * path.weights.sum()
        trust = new if (new * path.weights).any() else trust
        if settled:
            break
    return trust, spread


def _likely(path: _Path, trust: Vector) -> tuple[Vector, float, float]:
    """Each row's probability to be good, until it stays; scale and its degrees of freedom.

    All rows count fully where that leaves none of them far out.
    """
    start = trust
    size, _, lost = _judged(path, trust)
    freedom = max(3.0, float(path.weights.sum()) - lost)
    mixture = RowMixture(_scale(size, path.weights * trust), freedom)
    for _ in range(_ROUNDS if mixture.scale > 0 else 0):
        least = (float(path.weights.sum()) + lost + 1) / 2  # fewer cannot tell wrong from right
        mixture = mixture.improved(size, path.weights, least)
        before, trust = trust, mixture.trust(size)
        size, _, lost = _judged(path, trust)
        if np.abs(trust - before).max() < _SETTLED:
            break
    if path.best(trust)[0] > _RAISED * path.best(start)[0]:
        trust = start  # many rows on one side have passed for wide noise
    whole = np.ones_like(trust)
    fits = [(trust, *_judged(path, trust)), (whole, *_judged(path, whole))]
    freedoms = [max(3.0, float(path.weights @ fit[0]) - fit[3]) for fit in fits]
    far = any(
        surprising(size / scale, freedom, path.weights)
        for (_, size, scale, _), freedom in zip(fits, freedoms, strict=True)
        if scale > 0
    )
    chosen = 0 if far and not _by_chance(path, trust, fits[1][2]) else 1
    return fits[chosen][0], fits[chosen][2], freedoms[chosen]


def _by_chance(path: _Path, trust: Vector, deviation: float) -> bool:
    """Whether rows without trust were left out because some rows always fit worst.

    Rows of whole weights are as many rows, in an order that is theirs: a table in another order, or
    with its copies written out, is judged alike.
    """
    used = np.flatnonzero(path.weights > 0)
    used = used[np.lexsort(np.column_stack([path.x, path.target])[used].T)]
    weights, total = path.weights[used], float(path.weights.sum())
    if (weights == np.round(weights)).all() and total <= MOST_ROWS:
        used = np.repeat(used, weights.astype(np.intp))
        weights = np.ones(len(used))
    rows = np.flatnonzero(trust[used] <= max(0.5, float(trust[used].min())))
    if len(rows) == len(used):
        return True  # none of them was
    _, strength, _, _, _ = path.best(trust)
    _, _, coef, _, _ = path.best(np.ones_like(trust))
    root, x = np.sqrt(weights), path.x[used]
    fit = coef[0] + x @ coef[1:]
    penalty = strength * float(path.weights @ trust)
    leaving_out = LeavingOut.by(x, weights, penalty=penalty, intercept=path.intercept)
    return chosen_by_chance(
        leaving_out, root * path.target[used], rows,
        fit=root * fit, deviation=root * deviation,
    )  # fmt: skip


def _judged(path: _Path, trust: Vector) -> tuple[Vector, float, float]:
    """Sizes of the studentised residuals at these weights, their deviation, what the fit took."""
    _, _, _, residual, leverage = path.best(trust)
    size, mass = np.abs(_studentised(residual, trust, leverage)), path.weights * trust
    lost = path.counts_freedom * float(mass @ leverage)
    return size, float(np.sqrt(mass @ size**2 / mass.sum())), lost


def _left_over(trust: Vector, leverage: Vector) -> Vector:
    """1 + h - 2 trust h: the variance of a residual over the noise's, in the fit and out of it."""
    return np.maximum(1.0 + leverage - 2.0 * trust * leverage, _LEAST_LEFT)


def _studentised(left_out: Vector, trust: Vector, leverage: Vector) -> Vector:
    """Leave-one-out residuals r / (1 - trust h) as residuals over their deviations."""
    own: Vector = left_out * np.maximum(1.0 - trust * leverage, _LEAST_LEFT)
    return own / np.sqrt(_left_over(trust, leverage))


def _scale(residual: Vector, weights: Vector) -> float:
    used = weights > 0
    wide = float(m_scale(residual, used.astype(np.float64) if used.sum() > 1 else None))
    return inner_scale(residual, used.astype(np.float64), start=wide, largest=wide, lost=0.0)


def _starts(x: Vector, target: Vector, weights: Vector) -> list[Vector]:
    """Weights by the target alone, equal ones, and halves: that lie together, lower and upper.

    Of errors on one side, however near, one of the last two has hardly any.
    """
    used = weights > 0
    middle = np.median(target[used])
    spread = 1.4826 * np.median(np.abs(target[used] - middle))
    alone = (
        bisquare_weight((target - middle) / (EFFICIENT * spread)) if spread > 0 else np.ones(len(x))
    )
    starts = [alone, np.ones(len(x))]
    index = np.flatnonzero(used)
    for rows in bulk_rows(np.column_stack([x, target])[used])[:2]:
        half = np.zeros(len(x))
        half[index[rows]] = 1.0
        starts.append(half)
    order = np.argsort(target)
    counted = np.cumsum(weights[order])  # a row of weight 2 is as two
    middle = target[order[np.searchsorted(counted, 0.5 * counted[-1])]]
    starts += [(target <= middle).astype(float), (target >= middle).astype(float)]
    return starts


def row_space(x: Vector, least: float = 1e-14) -> Vector | None:
    """Orthonormal columns that span the rows where they are fewer than the features.

    Directions with less than that share of the largest square count as none.
    """
    if x.shape[1] <= len(x):
        return None
    values, vectors = np.linalg.eigh(x @ x.T)
    kept = values > least * values.max(initial=0.0)
    basis: Vector = x.T @ (vectors[:, kept] / np.sqrt(values[kept]))
    return basis
