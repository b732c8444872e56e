"""One sweep of alternating majorise-minimise: all embeddings, then the basis; f never rises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from proxlin.exact.factorize.cells import Cells
from proxlin.exact.factorize.quadratics import minimize_quadratics, weighted_grams
from proxlin.exact.factorize.row_norm import RowNorm, observed_part

_LIMIT = 3.0  # median cells of its column that a residual counts for in what measures others
_MEDIAN_CELLS = 10_000_000  # of which medians are taken
_HALVINGS = 8  # of a step of the basis that raised the objective, before it stays


@dataclass(frozen=True)
class Objective:
    """(1/n) sum_i ||observed_i * (u_i V - x_i)||_p + alpha/2 (||U||^2 / n + ||V||^2 / m)."""

    cells: Cells
    norm: RowNorm

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        n, m = self.cells.values.shape
        return n, m

    def row_losses(self, u: Tensor, v: Tensor) -> Tensor:
        """||observed_i * (u_i V - x_i)||_p for each row, float64."""
        losses = torch.empty(self.shape[0], dtype=torch.float64, device=u.device)
        for rows, x, observed in self.cells.chunks(len(v)):
            losses[rows] = self.norm.losses(observed_part(u[rows] @ v - x, observed)).double()
        return losses

    def column_sums(self, u: Tensor, v: Tensor) -> Tensor:
        """sum_i |observed_ij (u_i V - x_i)_j| for each column, float64: the parts of f at p = 1."""
        sums = torch.zeros(self.shape[1], dtype=torch.float64, device=u.device)
        for rows, x, observed in self.cells.chunks(len(v)):
            sums += observed_part(u[rows] @ v - x, observed).abs().sum(0).double()
        return sums

    def penalty(self, u: Tensor, v: Tensor) -> float:
        """alpha/2 (||U||^2 / n + ||V||^2 / m)."""
        n, m = self.shape
        if self.norm.alpha == 0:
            return 0.0
        sizes = u.double().square().sum() / n + v.double().square().sum() / m
        return 0.5 * self.norm.alpha * float(sizes)

    def value(self, u: Tensor, v: Tensor) -> float:
        """f(U, V)."""
        return float(self.row_losses(u, v).mean()) + self.penalty(u, v)

    @cached_property
    def limits(self) -> Tensor:
        """(m,) three times the median size of the cells of each column that are not 0."""
        n, m = self.shape
        cells = self.cells.rows(slice(None, None, max(1, n * m // _MEDIAN_CELLS)))
        size = cells.values.abs()
        return _LIMIT * torch.where(size > 0, size, torch.nan).nanmedian(0).values.nan_to_num()

    def bounded_value(self, u: Tensor, v: Tensor) -> float:
        """f(U, V) with residuals that count up to `limits`: errors of any size are not its measure.

        Cells are bounded at p = 1, and rows otherwise.
        """
        n, m = self.shape
        norm, total = self.norm, 0.0
        for rows, x, observed in self.cells.chunks(len(v)):
            residual = observed_part(u[rows] @ v - x, observed)
            most = norm.losses(observed_part(self.limits.expand_as(x), observed))
            if norm.p == 1:
                losses = norm.losses(torch.minimum(residual.abs(), self.limits))
            else:
                losses = torch.minimum(norm.losses(residual), most)
            squares = 0.5 * norm.alpha * u[rows].square().sum(1)
            total += float((losses + torch.minimum(squares, most)).sum(dtype=torch.float64))
        squares = 0.5 * norm.alpha / m * v.square().sum(0)
        return total / n + float(torch.minimum(squares, self.limits).sum(dtype=torch.float64))

    def scale(self, u: Tensor, v: Tensor) -> float:
        """The bounded mean |residual| of known cells at p < 2, or norm of a row at p >= 2."""
        if self.norm.p >= 2:
            return Objective(self.cells, replace(self.norm, alpha=0.0)).bounded_value(u, v)
        n, m = self.shape
        count = n * m if self.cells.observed is None else int(self.cells.observed.sum())
        cells = Objective(self.cells, replace(self.norm, p=1.0, alpha=0.0))
        return cells.bounded_value(u, v) * n / max(count, 1)


class ColumnEquations:
    """A_j v_j = b_j for every column: A_j = sum_i w_ij u_i u_i^T, b_j = sum_i w_ij x_ij u_i."""

    def __init__(self, rank: int, columns: int, like: Tensor) -> None:
        self.grams = like.new_zeros(columns, rank, rank)
        self.linear = like.new_zeros(columns, rank)

    def add(self, x: Tensor, observed: Tensor | None, u: Tensor, weights: Tensor) -> None:
        """Add rows with their weights (B, m) or (B, 1)."""
        w = weights if observed is None else weights * observed
        if w.shape[1] == 1:
            self.grams += (u.T * w.T) @ u  # one for all columns
        else:
            self.grams += weighted_grams(w.T, u.T)
        self.linear += (w * x).T @ u

    def decay(self, share: float) -> None:
        """Keep this share of what was added before."""
        self.grams *= share
        self.linear *= share

    def solve(self, v: Tensor, *, ridge: float, non_negative: bool) -> Tensor:
        """The basis (r, m) of least weighted squares, near `v` where the rows do not say."""
        eye = torch.eye(len(v), dtype=v.dtype, device=v.device)
        return minimize_quadratics(
            self.grams + ridge * eye, self.linear, v.T, non_negative=non_negative
        ).T.contiguous()


@dataclass(frozen=True)
class RowsUpdate:
    """What one pass over the rows leaves for the step of the basis."""

    u: Tensor  # (n, r) embeddings, no row's loss above what it was
    value: float  # f(U, V)
    columns: Tensor | None  # (m,) sum_i |r_ij| at p = 1, where columns are problems of their own
    equations: ColumnEquations  # of the majoriser in V at these embeddings


def update_rows(objective: Objective, u: Tensor, v: Tensor, floor: float) -> RowsUpdate:
    """One majorise-minimise step for every embedding, and the equations of the basis after it."""
    norm = objective.norm
    n, m = objective.shape
    new, level, total = torch.empty_like(u), u.new_tensor(floor), 0.0
    equations = ColumnEquations(len(v), m, v)
    sums = torch.zeros(m, dtype=torch.float64, device=v.device) if norm.p == 1 else None
    for rows, x, observed in objective.cells.chunks(len(v)):
        residual = observed_part(u[rows] @ v - x, observed)
        weights = norm.weights(residual, level)
        new[rows], residual, _ = norm.step(
            x, observed, v, u[rows], residual=residual, weights=weights
        )
        equations.add(x, observed, new[rows], norm.weights(residual, level))
        if sums is not None:
            sums += residual.abs().sum(0).double()
        else:
            total += float(norm.losses(residual).sum(dtype=torch.float64))
    total = total if sums is None else float(sums.sum())
    return RowsUpdate(new, total / n + objective.penalty(new, v), sums, equations)


def update_basis(objective: Objective, rows: RowsUpdate, v: Tensor) -> tuple[Tensor, float]:
    """(the basis after one majorise-minimise step, f there): f does not rise."""
    n, m = objective.shape
    norm = objective.norm
    target = rows.equations.solve(v, ridge=norm.alpha * n / m, non_negative=norm.non_negative)
    return descend_basis(objective, rows.u, v, target, value=rows.value, columns=rows.columns)


def descend_basis(
    objective: Objective,
    u: Tensor,
    v: Tensor,
    target: Tensor,
    *,
    value: float,
    columns: Tensor | None = None,
) -> tuple[Tensor, float]:
    """The longest of a few steps from V, where f is `value`, towards `target` that lowers f.

    At p = 1 every column is a problem of its own and has its own step.
    """
    if objective.norm.p == 1:
        before = objective.column_sums(u, v) if columns is None else columns
        return _descend_columns(objective, u, v, target, before)
    share = 1.0 if objective.norm.p <= 2 else 1.0 / (objective.norm.p - 1.0)
    for _ in range(_HALVINGS):
        tried = target if share == 1 else v + share * (target - v)
        reached = objective.value(u, tried)
        if reached <= value:
            return tried, reached
        share *= 0.5
    return v, value


def _descend_columns(
    objective: Objective, u: Tensor, v: Tensor, target: Tensor, before: Tensor
) -> tuple[Tensor, float]:
    n, m = objective.shape
    ridge = 0.5 * objective.norm.alpha * n / m

    def penalty(basis: Tensor) -> Tensor:
        return ridge * basis.double().square().sum(0)

    limit = before + penalty(v)
    share, tried = 1.0, target
    for _ in range(_HALVINGS):
        sums = objective.column_sums(u, tried)
        worse = ~(sums + penalty(tried) <= limit)
        if not bool(worse.any()):
            break
        share *= 0.5
        tried = torch.where(worse, v + share * (target - v), tried)
    else:
        tried = torch.where(worse, v, tried)
        sums = torch.where(worse, before, sums)
    return tried, float(sums.sum()) / n + objective.penalty(u, tried)
