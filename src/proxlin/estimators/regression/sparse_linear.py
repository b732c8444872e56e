"""RobustRegressor on a sparse table: what most rows say, by products with the table alone.

The table is never made dense nor centred. The least absolute residuals are found first, by squares
reweighted from the median of the targets on, where rows that are far off weigh next to nothing; a
bisquare fit at a scale that half of the rows cannot move follows. Rows with a cell far beyond those
of its column have no say until the others predict them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from proxlin.estimators.regression.judged_rows import FEW, Judged, cutoff_of
from proxlin.estimators.regression.robust_linear import RobustLinear
from proxlin.estimators.regression.sparse_design import SparseDesign, sparse_scaling
from proxlin.estimators.robust_scale import (
    EFFICIENT,
    Vector,
    bisquare_weight,
    inner_scale,
    m_scale,
    tau_scale,
)
from proxlin.methods.contract import Status
from proxlin.run.result import Certificate, History, Result

STRENGTHS = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # of a ridge, tried on held-out rows where rows are few
_FAR = 10.0  # times the median size of a column's cells that are not zero
_ABSOLUTE_STEPS, _BISQUARE_STEPS = 30, 50
_PARTS = 5  # of the rows, left out in turn
_UNSEEN_STEPS, _STRENGTH_STEPS = 10, 3  # of weights by what is left out, and of a strength by it
_SETTLED = 1e-3  # mean change of the weights that ends these
_LEAST = 1e-10  # scale, of the size of the targets
_NARROWEST = 1e-2  # of the median residual: the kink of |r| is rounded off below


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
    design = SparseDesign(x, sparse_scaling(x).scale, intercept)
    used = min(int(np.count_nonzero(np.diff(csc_array(x).indptr))) + intercept, n)
    few = bool(count.sum() < FEW * used)
    fits = []
    for column in y.T:
        if isinstance(strength, str):
            asked = few or strength == "auto"
            chosen = _chosen_strength(design, column, count, seed) if asked else 0.0
        else:
            chosen = strength
        if chosen > 0 or count.sum() <= used:
            strengths = STRENGTHS if isinstance(strength, str) else (chosen,)
            judge = _Unseen.rows(design, seed)
            fit = judge.fit(column, count, near, start=chosen, strengths=strengths, used=used)
        else:
            fit = _fit_target(design, column, count, near, lost=float(used))
        fits.append(fit)
    coef = np.stack([fit.theta[intercept:] for fit in fits])
    offset = np.array([fit.theta[0] if intercept else 0.0 for fit in fits])
    unseen = np.array([fit.unseen_scale for fit in fits])
    left_out = np.column_stack([fit.left_out for fit in fits])
    cutoff = cutoff_of(float(count.sum()), len(fits))
    scale = np.array([fit.scale for fit in fits])
    judged = Judged(scale, left_out / unseen, cutoff, left_out, unseen)
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
    left_out: Vector  # (n,) |residual| of each row from a fit without it
    unseen_scale: float  # of these, for good rows
    trust: Vector  # (n,)
    strength: float  # of the ridge, on scaled columns
    steps: int
    objective: float = 0.0
    slope: float = 0.0  # of the weighted squares at the end, relative to that without features

    def proven(self, design: SparseDesign, target: Vector, count: Vector) -> _Fit:
        """With the objective, and how far from its least value it may be."""
        mass, theta = count * self.trust, self.theta
        charged = design.charged * (theta * design.length)
        squares = float(mass @ (target - design.apply(theta)) ** 2) / float(mass.sum())
        at_zero = np.linalg.norm(design.slope(target, mass, 0.0, np.zeros_like(theta)))
        slope = np.linalg.norm(design.slope(target, mass, self.strength, theta))
        return replace(
            self,
            objective=squares + self.strength * float(charged @ charged),
            slope=float(slope / at_zero) if at_zero > 0 else 0.0,
        )

    def times(self, unit: float) -> _Fit:
        """The same in other units of the target."""
        return replace(
            self, theta=self.theta * unit, scale=self.scale * unit, left_out=self.left_out * unit,
            unseen_scale=self.unseen_scale * unit, objective=self.objective * unit**2,
        )  # fmt: skip


def _fit_target(
    design: SparseDesign, y: Vector, count: Vector, near: NDArray[np.bool_], *, lost: float
) -> _Fit:
    """The bisquare fit from the least absolute residuals of the rows nearby."""
    size = _typical(y)
    target = y / size
    theta, steps = _least_absolute(design, target, np.where(near, count, 0.0), 0.0)
    residual = target - design.apply(theta)
    freedom = max(0.05, 1.0 - lost / max(1.0, float(count[near].sum())))
    wide = float(m_scale(residual[near], count[near], freedom=freedom))
    scale = max(wide, _LEAST)
    trust = np.ones(len(y))
    for step in range(_BISQUARE_STEPS):
        trust = _weights(residual / scale, near if step == 0 else None, count)
        theta = design.least_squares(target, count * trust, 0.0, theta, 1e-9)
        steps += 1
        new = target - design.apply(theta)
        moved = float(np.median(np.abs(new - residual)))
        residual = new
        if step > 0 and moved <= 1e-6 * scale:
            break
    theta = design.least_squares(target, count * trust, 0.0, theta, 1e-13)
    residual = target - design.apply(theta)
    inner = inner_scale(residual, count * (trust > 0), start=scale, largest=scale, lost=lost)
    scale = max(inner, _LEAST)
    spread = float(np.sqrt(max(0.05, 1.0 - lost / max(1.0, count.sum()))))  # over the rows
    fit = _Fit(theta, scale, np.abs(residual) / spread**2, scale / spread, trust, 0.0, steps)
    return fit.proven(design, target, count).times(size)


@dataclass(frozen=True, eq=False)
class _Unseen:
    """The same where a fit may follow its rows: each is judged by a fit to most of the others."""

    design: SparseDesign
    held: list[NDArray[np.bool_]]  # parts of the rows

    @classmethod
    def rows(cls, design: SparseDesign, seed: int) -> _Unseen:
        """In five parts."""
        part = np.random.default_rng(seed).permutation(design.x.shape[0]) % _PARTS
        return cls(design, [part == number for number in range(_PARTS)])

    def fit(
        self,
        y: Vector,
        count: Vector,
        near: NDArray[np.bool_],
        *,
        start: float,
        strengths: Sequence[float],
        used: int,
    ) -> _Fit:
        """Strength and weights in turns, from the least absolute residuals of the rows nearby.

        By least squares residuals have sqrt(1 - h) deviations of the noise in the fit, and
        1 / sqrt(1 - h) out of it: the noise lies between, where rows are more than columns.
        """
        size = _typical(y)
        target, mass = y / size, np.where(near, count, 0.0)
        kept = [self.design.rows(~part) for part in self.held]
        found = [
            _least_absolute(rows, target[~part], mass[~part], start)
            for rows, part in zip(kept, self.held, strict=True)
        ]
        thetas, steps = [theta for theta, _ in found], sum(taken for _, taken in found)
        residual, strength, before = self._residual(target, thetas), start, np.zeros(len(y))
        for step in range(_UNSEEN_STEPS):
            wide = float(m_scale(residual, count))
            unseen = inner_scale(residual, count, start=wide, largest=wide, lost=0.0)
            unseen = max(unseen, _LEAST)
            trust = _weights(residual / unseen, near if step == 0 else None, count)
            if np.abs(trust - before).mean() <= _SETTLED:
                break
            before, tried = trust, []
            for value in strengths if step < _STRENGTH_STEPS else (strength,):
                thetas = [
                    rows.least_squares(target[~part], (count * trust)[~part], value, theta, 1e-6)
                    for rows, part, theta in zip(kept, self.held, thetas, strict=True)
                ]
                residual = self._residual(target, thetas)
                tried.append((float(tau_scale(residual, count)), value, thetas, residual))
                steps += _PARTS
            _, strength, thetas, residual = min(tried, key=lambda each: each[0])
        theta = self.design.least_squares(target, count * trust, strength, thetas[0], 1e-13)
        own = target - self.design.apply(theta)
        inner = inner_scale(own, count * (trust > 0), start=unseen, largest=unseen, lost=0.0)
        scale = float(np.sqrt(inner * unseen)) if count.sum() > used else unseen
        fit = _Fit(theta, max(scale, _LEAST), np.abs(residual), unseen, trust, strength, steps)
        return fit.proven(self.design, target, count).times(size)

    def _residual(self, target: Vector, thetas: list[Vector]) -> Vector:
        residual = np.empty(len(target))
        for part, theta in zip(self.held, thetas, strict=True):
            residual[part] = target[part] - self.design.rows(part).apply(theta)
        return residual


def _typical(y: Vector) -> float:
    return float(np.median(np.abs(y - np.median(y)))) or float(np.abs(y).max()) or 1.0


def _weights(distance: Vector, near: NDArray[np.bool_] | None, count: Vector) -> Vector:
    """Those of the bisquare, at first of the rows nearby; rows far out come back if they fit."""
    trust = bisquare_weight(distance / EFFICIENT)
    if near is not None:
        trust = np.where(near, trust, 0.0)
    return trust if (count * trust).any() else np.ones(len(trust))


def _least_absolute(
    design: SparseDesign, y: Vector, count: Vector, strength: float
) -> tuple[Vector, int]:
    """argmin sum_i |r_i|, its kink rounded off, by squares reweighted by 1 / |r_i|."""
    theta = np.zeros(len(design.length))
    if not count.any():
        return theta, 0
    if design.intercept:
        theta[0] = np.median(y[count > 0])
    residual, steps = y - design.apply(theta), 0
    for _ in range(_ABSOLUTE_STEPS):
        middle = float(np.median(np.abs(residual[count > 0])))
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


def _chosen_strength(design: SparseDesign, y: Vector, count: Vector, seed: int) -> float:
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
