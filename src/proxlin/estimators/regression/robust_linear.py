"""The linear model of RobustRegressor by default: what most rows say, target by target.

The bulk of the features is found first; each target is fitted by a high-breakdown estimate of the
rows in it, or where rows are few by a robust ridge; rows far out come back if they fit. A target
whose majority is one value (zero-inflated, discrete) has no scale to judge by: it gets the least
absolute residuals of all rows, and a remark says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student

from proxlin.estimators.regression.high_breakdown import high_breakdown_fit
from proxlin.estimators.regression.likely_fit import (
    EXACT,
    FARTHEST,
    RobustFit,
    distances,
    residual_spread,
    worth_of_scale,
)
from proxlin.estimators.regression.linear_fit import LinearFit
from proxlin.estimators.regression.near_rows import near_rows, rarely_copied, spanned
from proxlin.estimators.regression.robust_ridge import robust_ridge_fit
from proxlin.estimators.regression.s_estimate import RegressionRows, gram_and_moment
from proxlin.estimators.robust_scale import INNER, Vector, inner_scale, m_scale
from proxlin.estimators.scaling import RobustScaling, is_code
from proxlin.estimators.tables import Array
from proxlin.methods.contract import Status
from proxlin.run.result import Callback, Certificate, History, Progress, Result

FALSE_FLAGS = 0.006  # share of good rows with Gaussian noise that are flagged
_FEW = 3.0  # rows a coefficient below which a ridge is considered
_FEWEST = 2.0  # rows a coefficient below which there is no other
_TIED = 0.25  # share of one value from which a target may be discrete
_KEPT = 0.5  # share of the rows in the bulk of the features that a fit must describe
_KEPT_OF_TIED = 0.75  # share of all rows, where values are tied
_CONSTANT = 0.9  # share of one value, not zero, from which the others are wrong
_BY_CHANCE = 2.0  # standard errors
_ROUNDED = 1e-6  # of a column's scale
_PROVEN, _PROVEN_ABSOLUTE = 1e-8, 1e-6  # relative duality gaps of squares, of absolute values
_FALLEN = (
    "A target has too few rows beyond its most common value for rows to be judged; it was fitted by"
    " least absolute residuals, all rows counting."
)


@dataclass(frozen=True, eq=False)
class Judged:
    """How far each row lies from a fit."""

    scale: Vector  # (targets,) > 0 standard deviation of the noise
    distance: Vector  # (n, targets) |residual| in its own standard deviations
    cutoff: float  # beyond which the largest distance of a row is an outlier's
    left_out: Vector  # (n, targets) |residual| of each row from a fit without it
    ahead: Vector  # (targets,) >= scale: deviation of good rows that the fit has not seen

    def times(self, units: Vector) -> Judged:
        """The same in other units of the targets."""
        return replace(
            self, scale=self.scale * units, left_out=self.left_out * units,
            ahead=self.ahead * units,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class RobustLinear:
    """All targets: the fit, and what each row was worth to it."""

    coef: Vector  # (targets, features)
    intercept: Vector  # (targets,)
    trust: Vector  # (n, targets) in [0, 1]
    strength: float  # largest ridge in use, on scaled columns
    slope: Vector  # (n, targets) of psi(r) = trust r; NaN where it is no weighted least squares
    judged: Judged
    result: Result


def fit_robust_linear(
    x: Array,
    y: Array,
    weights: Vector | None,
    *,
    intercept: bool,
    leverage: bool,
    seed: int,
    callbacks: Sequence[Callback] = (),
) -> RobustLinear:
    """Fit every target to the rows that most others agree with; a ridge where rows are few.

    Callbacks are told of every pass over the rows, with the scale of the residuals as objective.
    """
    began = time.perf_counter()
    watch = _watcher(callbacks, began)
    count = row_counts(weights, len(x))
    scaling, columns = _scaled(x, count, intercept)
    near = rarely_copied(np.column_stack([columns, y]), seed)
    if leverage:
        near &= near_rows(columns, count * near, seed)
    if not columns[near & (count > 0)].any():  # of such rows none tells of a slope
        near = np.ones_like(near)
    many = count.sum() >= _FEW * (x.shape[1] + intercept)  # a ridge depends on the units
    if many and not near.all() and (count * near).any():
        # A quarter of wrong rows far out moves quartiles.
        scaling, columns = _scaled(x, count * near, intercept)
    basis = spanned(columns, near & (count > 0))
    design = columns if basis is None else columns @ basis
    if intercept:
        design = np.column_stack([np.ones(len(x)), design])
    fits, fallen = [], 0
    for column in y.T:
        size = _typical(column, count)
        with np.errstate(over="ignore"):
            target = np.clip(np.asarray(column / size, dtype=np.float64), -FARTHEST, FARTHEST)
        rows = RegressionRows(design, target, count, watch)
        fit = _fit_target(rows, near, intercept=intercept, seed=seed)
        if _unfounded(rows, fit, near):
            fit, fallen = _least_absolute(rows, intercept), fallen + 1
        fits.append(fit.times(size))
    coefs = np.stack([fit.coef for fit in fits])
    offset = coefs[:, 0] if intercept else np.zeros(len(fits))
    slopes = coefs[:, 1:] if intercept else coefs
    weight, bias = scaling.fold(
        slopes if basis is None else slopes @ basis.T, offset, RobustScaling.identity(len(fits))
    )
    residual = y - design @ coefs.T
    scale = np.array([fit.scale for fit in fits])
    objective, gap = _proof(design, y, count, fits, intercept)
    seconds = time.perf_counter() - began
    result = Result(
        status=Status.CONVERGED
        if gap <= (_PROVEN_ABSOLUTE if fallen else _PROVEN)
        else Status.NO_DECREASE,
        objective=objective,
        certificate=Certificate(
            "duality gap", gap, "the objective, at these row weights", int((count > 0).sum())
        ),
        seconds=seconds,
        iterations=1,
        history=History([{"iteration": 1, "seconds": seconds, "objective": objective, "gap": gap}]),
        theta=torch.from_numpy(np.concatenate([weight.T.reshape(-1), bias])),
        remarks=(_FALLEN,) if fallen else (),
    )
    cutoff = _cutoff(min(fit.freedom for fit in fits), len(fits))
    distance = np.column_stack(
        [distances(column, fit) for column, fit in zip(residual.T, fits, strict=True)]
    )
    left_out = np.column_stack(
        [fit.left_out(column) for column, fit in zip(residual.T, fits, strict=True)]
    )
    ahead = np.array([fit.ahead(count) for fit in fits])
    unknown = np.full(len(x), np.nan)
    psi_slopes = [unknown if fit.slope is None else fit.slope for fit in fits]
    line = RobustLinear(
        weight, bias, np.column_stack([fit.trust for fit in fits]),
        max(fit.ridge for fit in fits), np.column_stack(psi_slopes),
        Judged(scale, distance, cutoff, left_out, ahead), result,
    )  # fmt: skip
    if not leverage or near.all():
        return line
    untold = 0.0 if basis is None else np.abs(columns - design[:, int(intercept) :] @ basis.T).max()
    if untold <= _ROUNDED and _least_described(line, count) >= _KEPT:
        return line
    # The bulk of the features may be one half of a table in two halves: it tells nothing of the
    # other half, or no majority is of its opinion.
    other = fit_robust_linear(
        x, y, weights, intercept=intercept, leverage=False, seed=seed, callbacks=callbacks
    )
    return max(line, other, key=lambda fit: _least_described(fit, count))


def _scaled(x: Array, count: Vector, intercept: bool) -> tuple[RobustScaling, Vector]:
    """Columns in robust units of the rows that count; without an intercept nothing is shifted."""
    scaling = RobustScaling.fit(x, count)
    if not intercept:
        scaling = RobustScaling(np.zeros_like(scaling.center), scaling.scale)
    return scaling, np.asarray(scaling.apply(x), dtype=np.float64)


def _least_described(line: RobustLinear, count: Vector) -> float:
    """The share of all rows that the fit to some target trusts."""
    return float((count @ (line.trust > 0.5)).min() / count.sum())


def _watcher(callbacks: Sequence[Callback], began: float) -> Callable[[Vector, float], None] | None:
    """Tells the callbacks of each pass over the rows."""
    scales: list[float] = []

    def watch(coef: Vector, scale: float) -> None:
        scales.append(scale)
        seconds = time.perf_counter() - began
        progress = Progress(
            len(scales), seconds, scale, min(scales), None, 0.0, torch.from_numpy(coef)
        )
        for callback in callbacks:
            callback(progress)

    return watch if callbacks else None


def judge_residuals(
    x: Array,
    residual: Array,
    weights: Vector | None,
    trust: Vector,
    *,
    intercept: bool,
    size: float,
    left_out: Vector | None = None,
) -> Judged:
    """Rows against any linear fit: scales that count degrees of freedom, spreads that leverage.

    Of few rows the residuals `left_out`, from fits without them, are judged if they are known.
    """
    count = row_counts(weights, len(x))
    design = np.column_stack([np.ones(len(x)), x]) if intercept else np.asarray(x, dtype=np.float64)
    k = design.shape[1]
    few = few_for(count, k)
    lost = 0 if few else k
    if few and left_out is not None:
        residual = left_out
    used = np.where(trust > 0, count, 0.0)
    scales = []
    for column in residual.T:
        wide = float(m_scale(column, count, freedom=max(0.05, 1.0 - lost / float(count.sum()))))
        inner = inner_scale(column, used, start=wide, largest=wide, lost=lost) if wide else 0.0
        scales.append(max(inner, EXACT * size))
    spread = np.ones(len(x)) if few else residual_spread(design, count * trust, trust)
    scale = np.array(scales)
    cutoff = _cutoff(worth_of_scale(float(count.sum()), lost), residual.shape[1])
    size_of = np.abs(residual)
    ahead = scale / min(1.0, float(np.median(spread[used > 0]))) if used.any() else scale
    return Judged(
        scale, size_of / (scale * spread[:, None]), cutoff, size_of / spread[:, None] ** 2, ahead
    )


def _fit_target(
    rows: RegressionRows, near: NDArray[np.bool_], *, intercept: bool, seed: int
) -> RobustFit:
    """By a high-breakdown estimate, with a ridge where there are few rows for each coefficient."""
    k = rows.design.shape[1]
    if float(rows.weights[near].sum()) < _FEWEST * k:
        near = np.ones_like(near)
    rows_each = float(rows.weights.sum()) / k
    fit = high_breakdown_fit(rows, near, seed) if rows_each >= _FEWEST else None
    if fit is not None and (rows_each >= _FEW or fit.scale == 0):
        return fit
    return robust_ridge_fit(rows, near, intercept=intercept, start=fit)


def _unfounded(rows: RegressionRows, fit: RobustFit, near: NDArray[np.bool_]) -> bool:
    """Whether the fit describes too few rows, or rows of one target value only.

    Rows far out in their features need not come back: a majority of the near ones founds a fit.
    """
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
    if shares.max() >= _TIED and not (
        is_code(float(value), target[described]) or _foreign(rows, fit, value)
    ):
        few = count[described].sum() < _KEPT_OF_TIED * count.sum()
        return bool(few and not _only_rounded(count, described, target == value))
    return bool(count[described & near].sum() < _KEPT * count[near].sum())


def _only_rounded(count: Vector, described: NDArray[np.bool_], tied: NDArray[np.bool_]) -> bool:
    """Whether the fit describes the rows of a common value, and at least as many others.

    So it is where targets are rounded, by however many other rows are wrong, and not where a
    quantity is mostly zero.
    """
    inside, total = float(count[described & tied].sum()), float(count[described].sum())
    whole = inside > _KEPT_OF_TIED * float(count[tied].sum())
    return whole and inside < _KEPT * total and total > _KEPT * float(count.sum())


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


def _least_absolute(rows: RegressionRows, intercept: bool) -> RobustFit:
    """min sum |r_i|, proven; with a ridge where rows are few."""
    design, target, count = rows.design, rows.target, rows.weights
    few = count.sum() < _FEW * design.shape[1]
    problem = LinearFit(
        p=1, regularizer="ridge" if few else None, alpha="auto" if few else 0.0,
        constraint=None, fit_intercept=intercept, tol=_PROVEN_ABSOLUTE, max_iter=200,
    )  # fmt: skip
    x = design[:, 1:] if intercept else design
    coef, offset, strength, solution = problem.solve(x, target[:, None], count, start=None, seed=0)
    full = np.concatenate([offset, coef[0]]) if intercept else coef[0]
    residual = np.abs(target - design @ full)
    scale = _inner_deviation(residual, count)
    ones, proof = np.ones(len(target)), solution.certificate
    gap = 0.0 if proof is None else proof.value
    if not few_for(count, design.shape[1]):
        return RobustFit(full, scale, ones, ones, float(len(target)), absolute_gap=gap)
    unseen = problem.left_out(x, target[:, None], count, strength=strength, seed=0)[:, 0]
    scale = max(scale, _inner_deviation(unseen, count))
    return RobustFit(
        full, scale, ones, ones, float(len(target)), absolute_gap=gap, apart=np.abs(unseen)
    )


def _inner_deviation(residual: Vector, count: Vector) -> float:
    """Of those within 2.75 deviations, from above."""
    size = np.abs(residual)
    wide = float(np.quantile(size, 0.9)) or float(size.max(initial=0.0)) or 1.0
    return inner_scale(residual, count, start=wide, largest=np.inf, lost=0.0) or wide


def few_for(count: Vector, coefficients: int) -> bool:
    """Whether so few rows count that these coefficients may follow each of them."""
    return bool(count.sum() < _FEWEST * coefficients)


def row_counts(weights: Vector | None, n: int) -> Vector:
    """Whole weights count rows; others are brought to a mean of one over the rows that have any."""
    if weights is None:
        return np.ones(n)
    if (weights == np.round(weights)).all():
        return weights.astype(np.float64)
    counted: Vector = weights * ((weights > 0).sum() / weights.sum())
    return counted


def _typical(target: Vector, count: Vector) -> float:
    """A size of the target, so that everything can be told from its rounding."""
    used = target[count > 0]
    away = np.abs(used - np.median(used))
    size = float(np.median(away)) or (float(np.median(away[away > 0])) if away.any() else 0.0)
    return size or float(np.abs(used).max(initial=0.0)) or 1.0


def _cutoff(freedom: float, targets: int) -> float:
    """What 0.6 % of good rows exceed: the largest of `targets` studentised residuals."""
    share = 1.0 - (1.0 - FALSE_FLAGS) ** (1.0 / targets)
    return float(student.ppf(1.0 - share / 2.0, max(1.0, freedom - 1.0)))


def _proof(
    design: Vector, y: Array, count: Vector, fits: list[RobustFit], intercept: bool
) -> tuple[float, float]:
    """Objective of the weighted fits, and how far above the optimum at these weights it may be.

    sum_targets mean_i w_i r_i^2 + strength ||b||^2; a quadratic with gradient g and Hessian H lies
    exactly g' H^-1 g / 2 above its least value. Least absolute residuals have mean_i |r_i| and the
    gap of their own solver; an exact fit of the rows that count has none.
    """
    objective, above = 0.0, 0.0
    for j, fit in enumerate(fits):
        mass = count * fit.trust
        total = float(mass.sum()) or 1.0
        residual = y[:, j] - design @ fit.coef
        if fit.absolute_gap is not None:
            size = float(mass @ np.abs(residual)) / total
            objective, above = objective + size, above + fit.absolute_gap * size
            continue
        charged = fit.coef.copy()
        if intercept:
            charged[0] = 0.0
        objective += float(mass @ residual**2) / total + fit.ridge * float(charged @ charged)
        gram, moment = gram_and_moment(design, residual, mass / total)
        ridged = gram + fit.ridge * np.diag((charged != 0).astype(float)) if fit.ridge else gram
        slope = moment - fit.ridge * charged
        if float(mass @ residual**2) <= EXACT**2 * float(mass @ y[:, j] ** 2) and not fit.ridge:
            continue
        above += float(slope @ np.linalg.lstsq(ridged, slope, rcond=1e-12)[0])
    return objective, max(0.0, above) / objective if objective > 0 else 0.0
