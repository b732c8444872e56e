"""RobustRegressor on a sparse table: what most rows say, by products with the table alone.

The table is never made dense nor centred. The least absolute residuals are found first, by squares
reweighted from the median of the targets on, where rows that are far off weigh next to nothing; a
bisquare fit at a scale that half of the rows cannot move follows. Rows with a cell far beyond those
of its column have no say until the others predict them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import LinearOperator, lsmr
from scipy.stats import norm

from proxlin.estimators.inference.prediction_interval import Calibration, clean_quantile
from proxlin.estimators.regression.judged_rows import FALSE_FLAGS, FEW, Judged
from proxlin.estimators.regression.robust_linear import RobustLinear
from proxlin.estimators.robust_scale import (
    EFFICIENT,
    Vector,
    bisquare_weight,
    inner_scale,
    m_scale,
)
from proxlin.estimators.scaling import RobustScaling
from proxlin.methods.contract import Status
from proxlin.run.result import Certificate, History, Result

STRENGTHS = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # of a ridge, tried on held-out rows where rows are few
_FAR = 10.0  # times the median size of a column's cells that are not zero
_ABSOLUTE_STEPS, _BISQUARE_STEPS = 30, 50
_NARROWEST = 1e-2  # of the median residual: the kink of |r| is rounded off below


def sparse_scaling(x: csr_array) -> RobustScaling:
    """`RobustScaling.fit` of the columns without their centres, zeros counting as cells.

    A column of which three quarters are zero has its mean size as scale.
    """
    columns = csc_array(x)
    filled = np.diff(columns.indptr)
    scale = abs(columns).sum(axis=0) / max(1, x.shape[0])
    for j in np.flatnonzero(4 * filled >= x.shape[0]):
        scale[j] = RobustScaling.fit(columns[:, [j]].toarray()).scale[0]
    usable = scale > np.finfo(np.float32).tiny
    return RobustScaling(np.zeros(x.shape[1]), np.where(usable, scale, 1.0))


def fit_sparse_linear(
    x: csr_array,
    y: Vector,
    weights: Vector | None,
    *,
    intercept: bool,
    leverage: bool,
    strength: float | str,
    seed: int,
) -> RobustLinear:
    """Each target (n, targets) by itself.

    `strength` is that of a ridge; "auto" lets held-out rows choose, "few" only where rows are few.
    """
    began = time.perf_counter()
    n = x.shape[0]
    count = np.ones(n) if weights is None else weights * ((weights > 0).sum() / weights.sum())
    near = _near(x, count) if leverage else np.ones(n, dtype=bool)
    design = _Design(x, sparse_scaling(x).scale, intercept)
    used = min(int(np.count_nonzero(np.diff(csc_array(x).indptr))) + intercept, n)
    fits = []
    for column in y.T:
        few = strength == "auto" or count.sum() < FEW * used
        if isinstance(strength, str):
            chosen = _chosen_strength(design, column, count, seed) if few else 0.0
        else:
            chosen = strength
        lost = 0.0 if chosen > 0 else float(used)
        fits.append(_fit_target(design, column, count, near, strength=chosen, lost=lost))
    coef = np.stack([fit.theta[intercept:] for fit in fits])
    offset = np.array([fit.theta[0] if intercept else 0.0 for fit in fits])
    residual = np.abs(y - (x @ coef.T + offset))
    scale = np.array([fit.scale for fit in fits])
    lost = 0.0 if any(fit.strength > 0 for fit in fits) else float(used)
    spread = np.sqrt(max(0.05, 1.0 - lost / max(1.0, count.sum())))  # on average over the rows
    flagged = 1.0 - (1.0 - FALSE_FLAGS) ** (1.0 / len(fits))
    judged = Judged(
        scale, residual / (scale * spread), float(norm.ppf(1.0 - flagged / 2.0)),
        residual / spread**2, scale / spread,
    )  # fmt: skip
    objective = sum(fit.objective for fit in fits)
    slope = max(fit.slope for fit in fits)
    seconds = time.perf_counter() - began
    record = {"iteration": 1, "seconds": seconds, "objective": objective}
    result = Result(
        status=Status.CONVERGED if slope <= 1e-5 else Status.NO_DECREASE,
        objective=objective,
        certificate=Certificate(
            "stationarity", slope, "the gradient without features, at these row weights", n
        ),
        seconds=seconds,
        iterations=max(fit.steps for fit in fits),
        history=History([record]),
        theta=torch.from_numpy(np.concatenate([coef.T.reshape(-1), offset])),
    )
    trust = np.column_stack([fit.trust for fit in fits])
    strength, unknown = max(fit.strength for fit in fits), np.full_like(trust, np.nan)
    return RobustLinear(coef, offset, trust, strength, unknown, judged, result)


@dataclass(frozen=True, eq=False)
class _Fit:
    """One target."""

    theta: Vector  # intercept first, if there is one
    scale: float
    trust: Vector  # (n,)
    strength: float  # of the ridge, on scaled columns
    objective: float
    slope: float  # of the weighted squares at the end, relative to that without features
    steps: int


class _Design:
    """[1, x] with columns of length one, for least squares by products."""

    def __init__(self, x: csr_array, scale: Vector, intercept: bool) -> None:
        self.x, self.intercept = x, intercept
        length = np.sqrt(np.asarray(x.multiply(x).sum(axis=0)).reshape(-1))
        first = [np.sqrt(x.shape[0])] if intercept else []
        length = np.concatenate([first, length])
        self.length = np.where(length > 0, length, 1.0)
        charged = np.concatenate([[0.0] if intercept else [], scale])
        self.charged = charged / self.length  # scaled coefficient over unit coefficient

    def rows(self, keep: NDArray[np.bool_]) -> _Design:
        """The same columns on some of the rows."""
        part = object.__new__(_Design)
        part.x, part.intercept = self.x[keep], self.intercept
        part.length, part.charged = self.length, self.charged
        return part

    def apply(self, theta: Vector) -> Vector:
        """Fitted values for plain coefficients, the intercept first."""
        if not self.intercept:
            return np.asarray(self.x @ theta)
        fitted: Vector = np.asarray(self.x @ theta[1:]) + theta[0]
        return fitted

    def transposed(self, rows: Vector) -> Vector:
        """[1, x]' rows."""
        products = np.asarray(self.x.T @ rows)
        return np.concatenate([[rows.sum()], products]) if self.intercept else products

    def least_squares(
        self, y: Vector, weights: Vector, strength: float, start: Vector, accuracy: float
    ) -> Vector:
        """argmin sum_i w_i (y_i - a_i theta)^2 / sum w + strength ||scaled coefficients||^2."""
        root = np.sqrt(weights)
        n, k = len(y), len(self.length)
        damp = np.sqrt(strength * weights.sum()) * self.charged

        def forward(unit: Vector) -> Vector:
            unit = np.ravel(unit)
            return np.concatenate([root * self.apply(unit / self.length), damp * unit])

        def back(rows: Vector) -> Vector:
            rows = np.ravel(rows)
            pulls: Vector = self.transposed(root * rows[:n]) / self.length + damp * rows[n:]
            return pulls

        operator = LinearOperator((n + k, k), matvec=forward, rmatvec=back, dtype=np.float64)
        target = np.concatenate([root * y, np.zeros(k)])
        solved = lsmr(
            operator, target, atol=accuracy, btol=accuracy, conlim=0.0,
            maxiter=min(1000, 4 * k + 20), x0=start * self.length,
        )  # fmt: skip
        theta: Vector = np.asarray(solved[0]) / self.length
        return theta

    def slope(self, y: Vector, weights: Vector, strength: float, theta: Vector) -> Vector:
        """Half the gradient of the same, in unit coefficients."""
        pull = self.transposed(weights * (y - self.apply(theta))) / self.length
        slope: Vector = pull / weights.sum() - strength * self.charged**2 * theta * self.length
        return slope


def _fit_target(
    design: _Design,
    y: Vector,
    count: Vector,
    near: NDArray[np.bool_],
    *,
    strength: float,
    lost: float,
) -> _Fit:
    """The bisquare fit from the least absolute residuals of the rows nearby."""
    size = float(np.median(np.abs(y - np.median(y)))) or float(np.abs(y).max()) or 1.0
    target = y / size
    theta, steps = _least_absolute(design, target, np.where(near, count, 0.0), strength)
    residual = target - design.apply(theta)
    freedom = max(0.05, 1.0 - lost / max(1.0, float(count[near].sum())))
    wide = float(m_scale(residual[near], count[near], freedom=freedom))
    scale = max(wide, 1e-10)
    trust = np.ones(len(y))
    for step in range(_BISQUARE_STEPS):
        trust = bisquare_weight(residual / (EFFICIENT * scale))
        if step == 0:  # rows far out come back if they fit
            trust = np.where(near, trust, 0.0)
        mass = count * trust
        if not mass.any():
            trust, mass = np.ones(len(y)), count
        theta = design.least_squares(target, mass, strength, theta, 1e-9)
        steps += 1
        new = target - design.apply(theta)
        moved = float(np.median(np.abs(new - residual)))
        residual = new
        if step > 0 and moved <= 1e-6 * scale:
            break
    theta = design.least_squares(target, mass, strength, theta, 1e-13)
    residual = target - design.apply(theta)
    inner = inner_scale(residual, count * (trust > 0), start=scale, largest=scale, lost=lost)
    charged = design.charged * (theta * design.length)
    squares = float(mass @ residual**2) / float(mass.sum())
    at_zero = np.linalg.norm(design.slope(target, mass, 0.0, np.zeros_like(theta)))
    slope = np.linalg.norm(design.slope(target, mass, strength, theta))
    return _Fit(
        theta * size, max(inner, 1e-10) * size, trust, strength,
        (squares + strength * float(charged @ charged)) * size**2,
        float(slope / at_zero) if at_zero > 0 else 0.0, steps,
    )  # fmt: skip


def _least_absolute(
    design: _Design, y: Vector, count: Vector, strength: float
) -> tuple[Vector, int]:
    """argmin sum_i |r_i|, its kink rounded off, by squares reweighted by 1 / |r_i|."""
    theta = np.zeros(len(design.length))
    if design.intercept:
        theta[0] = np.median(y[count > 0]) if count.any() else 0.0
    residual, steps = y - design.apply(theta), 0
    for _ in range(_ABSOLUTE_STEPS):
        middle = float(np.median(np.abs(residual[count > 0]))) if count.any() else 0.0
        floor = max(_NARROWEST * middle, 1e-12)
        mass = count / np.maximum(np.abs(residual), floor)
        theta = design.least_squares(y, mass, strength, theta, 1e-6)
        steps += 1
        new = y - design.apply(theta)
        moved = float(np.median(np.abs(new - residual)))
        residual = new
        if moved <= 1e-3 * middle:
            break
    return theta, steps


def _chosen_strength(design: _Design, y: Vector, count: Vector, seed: int) -> float:
    """The strength whose held-out fifth of the rows has the smallest median residual."""
    held = np.random.default_rng(seed).permutation(len(y)) % 5 == 0
    if not count[~held].any() or not count[held].any():
        return STRENGTHS[len(STRENGTHS) // 2]
    size = float(np.median(np.abs(y - np.median(y)))) or 1.0
    kept, aside = design.rows(~held), design.rows(held & (count > 0))
    losses = []
    for strength in STRENGTHS:
        theta, _ = _least_absolute(kept, y[~held] / size, count[~held], strength)
        losses.append(np.median(np.abs(y[held & (count > 0)] / size - aside.apply(theta))))
    return STRENGTHS[int(np.argmin(losses))]


def _near(x: csr_array, count: Vector) -> NDArray[np.bool_]:
    """Rows without a cell of more than ten times the median size of its column's, if most are."""
    columns = csc_array(x)
    columns.eliminate_zeros()
    near = np.ones(x.shape[0], dtype=bool)
    size = np.abs(columns.data)
    column = np.repeat(np.arange(x.shape[1]), np.diff(columns.indptr))
    order = np.lexsort((size, column))
    filled = np.diff(columns.indptr)
    middle = columns.indptr[:-1] + (filled - 1) // 2
    typical = np.zeros(x.shape[1])
    typical[filled > 0] = size[order][middle[filled > 0]]
    near[columns.indices[size > _FAR * typical[column]]] = False
    return near if count[near].sum() > 0.5 * count.sum() else np.ones_like(near)


class EvenCalibration(Calibration):
    """Intervals of one width: the features of the rows are not kept."""

    def reach(self, x: Vector, fitted: Vector, coverage: float, *, local: bool) -> Vector:
        """(n, targets): how far intervals of new rows extend to both sides."""
        widths = [clean_quantile(column, coverage) for column in self.misfit.T]
        return np.tile(np.array(widths), (len(fitted), 1))
