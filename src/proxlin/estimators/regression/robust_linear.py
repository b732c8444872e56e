"""The linear model of RobustRegressor by default: what most rows say, target by target.

The bulk of the features is found first; each target is fitted by a high-breakdown estimate of the
rows in it, or where rows are few by a robust ridge; rows far out come back if they fit. A target
whose majority is one value (zero-inflated, discrete) has no scale to judge by: it gets the least
absolute residuals of all rows, and a remark says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import f as fisher

from proxlin.estimators.regression.high_breakdown import high_breakdown_fit
from proxlin.estimators.regression.judged_rows import (
    FEW,
    FEWEST,
    UNLIKE,
    Judged,
    cutoff_of,
    row_counts,
)
from proxlin.estimators.regression.likely_fit import EXACT, FARTHEST, RobustFit, distances
from proxlin.estimators.regression.near_rows import near_rows, rarely_copied, spanned
from proxlin.estimators.regression.robust_ridge import robust_ridge_fit
from proxlin.estimators.regression.s_estimate import RegressionRows, gram_and_moment
from proxlin.estimators.regression.tied_targets import (
    LEAST_DESCRIBED,
    PROVEN_ABSOLUTE,
    least_absolute,
    unfounded,
)
from proxlin.estimators.robust_scale import INNER, Vector
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array
from proxlin.methods.contract import Status
from proxlin.run.result import Callback, Certificate, History, Progress, Result

_ROUNDED = 1e-6  # of a column's scale
_PROVEN = 1e-8  # relative duality gap of squares
_FALLEN = (
    "A target has too few rows beyond its most common value for rows to be judged; it was fitted by"
    " least absolute residuals, all rows counting but for those far out in their features that the"
    " others contradict."
)


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
    many = count.sum() >= FEW * (x.shape[1] + intercept)  # a ridge depends on the units
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
        if unfounded(rows, fit, near):
            fit, fallen = least_absolute(rows, near, intercept), fallen + 1
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
        if gap <= (PROVEN_ABSOLUTE if fallen else _PROVEN)
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
    cutoff = cutoff_of(min(fit.freedom for fit in fits), len(fits))
    distance = np.column_stack(
        [distances(column, fit) for column, fit in zip(residual.T, fits, strict=True)]
    )
    left_out = np.column_stack(
        [fit.left_out(column) for column, fit in zip(residual.T, fits, strict=True)]
    )
    unseen = np.array([fit.scale_of_unseen(count) for fit in fits])
    unknown = np.full(len(x), np.nan)
    psi_slopes = [unknown if fit.slope is None else fit.slope for fit in fits]
    line = RobustLinear(
        weight, bias, np.column_stack([fit.trust for fit in fits]),
        max(fit.ridge for fit in fits), np.column_stack(psi_slopes),
        Judged(scale, distance, cutoff, left_out, unseen), result,
    )  # fmt: skip
    if not leverage or near.all():
        return line
    untold = 0.0 if basis is None else np.abs(columns - design[:, int(intercept) :] @ basis.T).max()
    if untold <= _ROUNDED and _least_described(line, count) >= LEAST_DESCRIBED:
        return line
    # The bulk of the features may be one half of a table in two halves: it tells nothing of the
    # other half, or no majority is of its opinion.
    other = fit_robust_linear(
        x, y, weights, intercept=intercept, leverage=False, seed=seed, callbacks=callbacks
    )
    described = [_least_described(fit, count) for fit in (line, other)]
    founded = described[0] >= LEAST_DESCRIBED
    if described[1] <= described[0] or (founded and _contradicted(x, y, count, line, other)):
        return line
    return other


def _contradicted(
    x: Array, y: Array, count: Vector, line: RobustLinear, other: RobustLinear
) -> bool:
    """Whether the rows in the first fit have residuals by the second that chance does not explain.

    Fisher's F for the coefficients of the second among them. A wider scale describes more rows,
    whatever they say.
    """
    misses = [y - (x @ fit.coef.T + fit.intercept) for fit in (line, other)]
    mass = count[:, None] * line.trust * (line.judged.distance <= INNER)
    own, others = ((mass * np.where(mass > 0, miss, 0.0) ** 2).sum(axis=0) for miss in misses)
    k = x.shape[1] + 1
    freedom = np.maximum(1.0, mass.sum(axis=0) - k)
    with np.errstate(over="ignore"):
        ratio = (others - own) / k * freedom / np.maximum(own, np.finfo(np.float64).tiny)
    return bool((fisher.sf(ratio, k, freedom) < UNLIKE).any())


def _scaled(x: Array, count: Vector, intercept: bool) -> tuple[RobustScaling, Vector]:
    """Columns in robust units of the rows that count; without an intercept nothing is shifted."""
    scaling = RobustScaling.fit(x, count)
    if not intercept:
        scaling = RobustScaling(np.zeros_like(scaling.center), scaling.scale)
    return scaling, np.asarray(scaling.apply(x), dtype=np.float64)


def _least_described(line: RobustLinear, count: Vector) -> float:
    """The share of all rows that the fit to some target is for, and that lie in its middle."""
    inside = (line.trust > 0) & (line.judged.distance <= INNER)
    return float((count @ inside).min() / count.sum())


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


def _fit_target(
    rows: RegressionRows, near: NDArray[np.bool_], *, intercept: bool, seed: int
) -> RobustFit:
    """By a high-breakdown estimate, with a ridge where there are few rows for each coefficient."""
    k = rows.design.shape[1]
    if float(rows.weights[near].sum()) < FEWEST * k:
        near = np.ones_like(near)
    rows_each = float(rows.weights.sum()) / k
    fit = high_breakdown_fit(rows, near, seed) if rows_each >= FEWEST else None
    if fit is not None and (rows_each >= FEW or fit.scale == 0):
        return fit
    return robust_ridge_fit(rows, near, intercept=intercept, start=fit)


def _typical(target: Vector, count: Vector) -> float:
    """A size of the target, so that everything can be told from its rounding."""
    used = target[count > 0]
    away = np.abs(used - np.median(used))
    size = float(np.median(away)) or (float(np.median(away[away > 0])) if away.any() else 0.0)
    return size or float(np.abs(used).max(initial=0.0)) or 1.0


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
