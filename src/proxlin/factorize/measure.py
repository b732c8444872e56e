"""How far f is from what either factor alone could reach: the stationarity of a factorisation."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.factorize.absolute import least_absolute, lower_bound
from proxlin.factorize.row_norm import known_part
from proxlin.factorize.sweep import ColumnEquations, Objective, descend_basis
from proxlin.prox import dual_exponent
from proxlin.prox import norm as lp_norm


def best_basis(objective: Objective, u: Tensor, v: Tensor, floor: float) -> tuple[Tensor, float]:
    """(a basis no worse than V, a lower bound of min_V f(U, V)).

    At p = 1 the basis is the exact minimiser. Otherwise it comes from one weighted least squares
    step, whose bound is tight where that step has nothing left to do.
    """
    if objective.norm.p == 1:
        return _absolute(objective, u, v)
    return _weighted(objective, u, v, floor)


def _absolute(objective: Objective, u: Tensor, v: Tensor) -> tuple[Tensor, float]:
    n, m = objective.shape
    norm, cells = objective.norm, objective.cells
    ridge = norm.alpha * n / m
    target, total = torch.empty_like(v), 0.0
    rows = u.double().T.contiguous()
    # Columns in blocks, so that their transposed copies stay within the budget of a chunk.
    block = max(1, int(cells.max_bytes // (8 * 24 * (n + len(v) ** 2))))
    for start in range(0, m, block):
        columns = slice(start, min(m, start + block))
        x = cells.values[:, columns].T.double().contiguous()
        known = None if cells.known is None else cells.known[:, columns].T.double().contiguous()
        found, y = least_absolute(x, known, rows, alpha=ridge, non_negative=norm.non_negative)
        target[:, columns] = found.T.to(v.dtype)
        total += float(lower_bound(x, y, found, rows, ridge, norm.non_negative).sum())
    bound = total / n + 0.5 * norm.alpha * float(u.double().square().sum()) / n
    return descend_basis(objective, u, v, target), bound


def _weighted(
    objective: Objective, u: Tensor, v: Tensor, floor: float
) -> tuple[Tensor, float]:
    n, m = objective.shape
    norm, cells = objective.norm, objective.cells
    level = v.new_tensor(floor)
    equations = ColumnEquations(len(v), m, v)
    for rows, x, known in cells.chunks(len(v)):
        residual = known_part(u[rows] @ v - x, known)
        equations.add(x, known, u[rows], norm.weights(residual, level))
    target = equations.solve(v, ridge=norm.alpha * n / m, non_negative=norm.non_negative)
    inner, longest = 0.0, 1.0
    slope = torch.zeros_like(v, dtype=torch.float64)  # U^T Y
    for rows, x, known in cells.chunks(len(v)):
        weights = norm.weights(known_part(u[rows] @ v - x, known), level)
        y = weights * known_part(u[rows] @ target - x, known)
        longest = max(longest, float(lp_norm(y, p=dual_exponent(norm.p)).max()))
        inner += float((y * x).sum(dtype=torch.float64))
        slope += (u[rows].T @ y).double()
    slope = slope / longest / n
    if norm.non_negative:
        slope = slope.clamp(max=0)
    bound = -inner / longest / n
    if norm.alpha > 0:
        bound -= float(slope.square().sum()) * m / (2 * norm.alpha)
    else:
        bound -= 2 * float((slope.abs() * target.abs()).sum())
    bound += 0.5 * norm.alpha * float(u.double().square().sum()) / n
    return descend_basis(objective, u, v, target), bound
