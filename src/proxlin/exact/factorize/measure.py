"""How far f is from what either factor alone could reach: the stationarity of a factorisation."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.exact.factorize.absolute import least_absolute, lower_bound
from proxlin.exact.factorize.row_norm import observed_part
from proxlin.exact.factorize.sweep import ColumnEquations, Objective, descend_basis
from proxlin.prox import dual_exponent
from proxlin.prox import norm as lp_norm

_STEPS = 20  # of the basis for one measurement at p > 1
_RISE = 0.05  # of the remaining gap that a step must close to be followed by another


def best_basis(
    objective: Objective, u: Tensor, v: Tensor, *, floor: float, tolerance: float
) -> tuple[Tensor, float]:
    """(a basis no worse than V, a lower bound of min_V f(U, V)), work ending at a relative gap.

    At p = 1 the basis is the exact minimiser. Otherwise it comes from weighted least squares
    steps, whose bound is tight where they have nothing left to do.
    """
    if objective.norm.p == 1:
        return _absolute(objective, u, v, tolerance)
    # Weights span many orders of magnitude: in float32 the bound would be rounding.
    basis, bound = _weighted(objective, u.double(), v.double(), floor, tolerance)
    return basis.to(v.dtype), bound


def _absolute(objective: Objective, u: Tensor, v: Tensor, tolerance: float) -> tuple[Tensor, float]:
    n, m = objective.shape
    norm, cells = objective.norm, objective.cells
    ridge = norm.alpha * n / m
    target, total = torch.empty_like(v), 0.0
    rows = u.double().T.contiguous()
    # Columns in blocks, so that their transposed copies stay within the budget of a chunk.
    block = max(1, 4 * cells.max_bytes // (8 * 24 * (n + len(v) ** 2)))
    for start in range(0, m, block):
        columns = slice(start, min(m, start + block))
        x = cells.values[:, columns].T.double().contiguous()
        observed = (
            None if cells.observed is None else cells.observed[:, columns].T.double().contiguous()
        )
        solution, y = least_absolute(
            x, observed, rows, alpha=ridge, non_negative=norm.non_negative, tolerance=tolerance
        )
        target[:, columns] = solution.T.to(v.dtype)
        total += float(
            lower_bound(x, y, solution, rows, alpha=ridge, non_negative=norm.non_negative).sum()
        )
    bound = total / n + 0.5 * norm.alpha * float(u.double().square().sum()) / n
    return descend_basis(objective, u, v, target, value=objective.value(u, v))[0], bound


def _weighted(
    objective: Objective, u: Tensor, v: Tensor, floor: float, tolerance: float
) -> tuple[Tensor, float]:
    """Steps until the bound stops rising: rows fitted almost exactly make the first ones loose."""
    n, m = objective.shape
    norm, cells = objective.norm, objective.cells
    level = v.new_tensor(floor)
    value, bound = objective.value(u, v), -torch.inf
    reached = value
    for _ in range(_STEPS):
        equations = ColumnEquations(len(v), m, v)
        for rows, x, observed in cells.chunks(len(v)):
            residual = observed_part(u[rows] @ v - x, observed)
            equations.add(x, observed, u[rows], norm.weights(residual, level))
        target = equations.solve(v, ridge=norm.alpha * n / m, non_negative=norm.non_negative)
        new_bound = _bound(objective, u, v, target, level)
        stuck = new_bound - bound < _RISE * (value - new_bound)
        bound = max(bound, new_bound)
        v, reached = descend_basis(objective, u, v, target, value=reached)
        if stuck or value - bound < tolerance * value:
            break
    return v, bound


def _bound(objective: Objective, u: Tensor, v: Tensor, target: Tensor, level: Tensor) -> float:
    """min_V f(U, V) >= -<Y, X>/n for Y the weighted residuals of `target`, ||y_i||_q <= 1.

    U^T Y is 0 (>= 0 for V >= 0) by the normal equations; what is left of it is charged.
    """
    n, m = objective.shape
    norm = objective.norm
    inner, longest = 0.0, 1.0
    slope = torch.zeros_like(v, dtype=torch.float64)  # U^T Y
    for rows, x, observed in objective.cells.chunks(len(v)):
        weights = norm.weights(observed_part(u[rows] @ v - x, observed), level)
        y = weights * observed_part(u[rows] @ target - x, observed)
        longest = max(longest, float(lp_norm(y, p=dual_exponent(norm.p)).max()))
        inner += float((y * x).sum(dtype=torch.float64))
        slope += (u[rows].T @ y).double()
    slope = slope / longest / n
    if norm.non_negative:
        slope = slope.clamp(max=0)
    bound = -inner / longest / n + 0.5 * norm.alpha * float(u.double().square().sum()) / n
    if norm.alpha > 0:
        return bound - float(slope.square().sum()) * m / (2 * norm.alpha)
    return bound - 2 * float((slope.abs() * target.abs()).sum())
