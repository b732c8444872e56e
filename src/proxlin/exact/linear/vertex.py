"""Quantiles from vertex to vertex: the exact optimum of one target without terms, few columns.

An optimal fit passes through as many rows as it has coefficients (Koenker & Bassett 1978). From
such a vertex one row is let go along the edge that falls most, past rows that change sides, to the
one where the loss turns (Barrodale & Roberts 1973). At the optimum the slopes of the rows on the
fit, which balance those of all others, lie in [tau - 1, tau]: that is the proof. A start that is
nearly right needs a few dozen steps, each two products with the design.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import qr
from torch import Tensor

from proxlin.exact.linear.arguments import read_start
from proxlin.exact.linear.linear_result import OBJECTIVE, LinearResult
from proxlin.exact.linear.objective import mean_loss
from proxlin.methods.contract import Status
from proxlin.problem.loss import Pinball
from proxlin.run.result import Certificate, History

Vector = NDArray[np.float64]

_SAMPLE = 1500  # rows of the start
_STEPS = 12  # of reweighted least squares
_NEAREST = 6  # rows a coefficient among which the first vertex is chosen
_LOOKED_AT = 256  # rows that change sides first, in one look
_SLACK = 1e-10  # of a slope beyond its bounds, that counts as none


def solve_by_vertex(
    data: tuple[Tensor, Tensor, Tensor],
    tau: float,
    *,
    fit_intercept: bool,
    start: tuple[Tensor, Tensor] | None,
    tol: float,
) -> LinearResult | None:
    """The optimum of the rows x (n, m), y (n, 1), weights (n,), or None if the gap exceeds tol."""
    began = time.perf_counter()
    x, y, weights = data
    used = weights > 0
    rows, targets = (x, y) if bool(used.all()) else (x[used], y[used])
    centre = rows.median(0).values * float(fit_intercept)
    size = (rows - centre).abs().median(0).values
    size = torch.where(size > 0, size, 1.0)
    ones = [x.new_ones(len(rows), 1)] if fit_intercept else []
    design = torch.cat([(rows - centre) / size, *ones], 1).numpy()
    begin = None
    if start is not None:
        coef, offset = read_start(start, x.shape[1], 1)
        begin = torch.cat([coef[:, 0] * size, *([offset + centre @ coef] if ones else [])]).numpy()
    vertex = vertex_quantile(design, targets[:, 0].numpy(), weights[used].numpy(), tau, begin)
    if vertex is None:
        return None
    fitted, slack, steps = vertex
    theta = torch.from_numpy(fitted)
    coef = (theta[: x.shape[1]] / size)[:, None]
    offset = theta[x.shape[1] :] - centre @ coef if ones else x.new_zeros(1)
    objective, rounding = mean_loss(data, coef, offset, Pinball(tau))
    gap = slack / min(tau, 1.0 - tau) + rounding / max(objective, 1e-300)
    if not gap <= tol:
        return None
    seconds = time.perf_counter() - began
    line = {"iteration": steps, "seconds": seconds, "objective": objective, "gap": gap}
    return LinearResult(
        status=Status.CONVERGED,
        objective=objective,
        certificate=Certificate("duality gap", gap, OBJECTIVE, len(rows)),
        seconds=seconds,
        iterations=steps,
        history=History([line]),
        theta=torch.cat([coef[:, 0], offset]),
        targets=1,
    )


def vertex_quantile(
    design: Vector, target: Vector, weights: Vector, tau: float, start: Vector | None = None
) -> tuple[Vector, float, int] | None:
    """(k,) the optimal coefficients, by how much a slope leaves its bounds, and the steps.

    None where the way is not plain: columns that depend on each other, and rows that tie.
    """
    n, k = design.shape
    theta = _start(design, target, weights, tau) if start is None else start
    residual = target - design @ theta
    near = np.argpartition(np.abs(residual), min(n - 1, _NEAREST * k))[: _NEAREST * k]
    triangle, order = qr(design[near].T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    if len(diagonal) < k or diagonal[-1] < 1e-10 * diagonal[0]:
        return None
    basis = near[order[:k]]
    for step in range(50 + 10 * k):
        inverse = np.linalg.inv(design[basis])
        theta = inverse @ target[basis]
        residual = target - design @ theta
        residual[basis] = 0.0
        pull = weights * np.where(residual > 0, tau, tau - 1.0)
        pull[basis] = 0.0
        slopes = -(inverse.T @ (design.T @ pull)) / weights[basis]
        beyond = np.maximum(slopes - tau, tau - 1.0 - slopes)
        leaving = int((beyond * weights[basis]).argmax())
        if beyond.max() <= _SLACK:
            return theta, max(0.0, float(beyond.max())), step + 1
        sign = -1.0 if slopes[leaving] > tau else 1.0
        change = design @ (sign * inverse[:, leaving])
        change[basis] = 0.0
        entering = _turn(residual, change, weights, (beyond * weights[basis])[leaving])
        if entering is None:
            return None
        basis[leaving] = entering
    return None


def _turn(residual: Vector, change: Vector, weights: Vector, falls: float) -> int | None:
    """The row at which a loss that falls at this rate falls no more, as r - t change, t > 0."""
    moving = np.flatnonzero(residual * change > 0)
    times = residual[moving] / change[moving]
    looked = min(_LOOKED_AT, len(times))
    while looked:
        first = np.argpartition(times, looked - 1)[:looked] if looked < len(times) else slice(None)
        rows = moving[first]
        ordered = rows[np.argsort(times[first], kind="stable")]
        slope = np.cumsum(weights[ordered] * np.abs(change[ordered]))
        place = int(np.searchsorted(slope, falls))
        if place < len(ordered):
            return int(ordered[place])
        if looked == len(times):
            return None
        looked = min(8 * looked, len(times))
    return None


def _start(design: Vector, target: Vector, weights: Vector, tau: float) -> Vector:
    """A few steps of reweighted least squares on every so many-th row."""
    part = slice(None, None, max(1, len(design) // _SAMPLE))
    a, y, w = design[part], target[part], weights[part]
    heavy = np.argpartition(weights, -2)[-2:]  # sums of many rows must have their say
    a, y = np.concatenate([a, design[heavy]]), np.concatenate([y, target[heavy]])
    w = np.concatenate([w * (weights.sum() - weights[heavy].sum()) / w.sum(), weights[heavy]])
    theta: Vector = np.zeros(a.shape[1])
    pull = w
    for step in range(_STEPS):
        weighted = (a * pull[:, None]).T
        gram = weighted @ a
        gram[np.diag_indices(len(gram))] *= 1.0 + 1e-10
        theta = np.asarray(np.linalg.lstsq(gram, weighted @ y, rcond=None)[0], dtype=np.float64)
        off = y - a @ theta
        size = np.abs(off)
        floor = np.median(size) * 0.3**step + 1e-12 * size.max()
        pull = w * np.where(off > 0, tau, 1.0 - tau) / np.maximum(size, max(floor, 1e-300))
    return theta
