"""One sweep of alternating majorise-minimise: all embeddings, then the basis; f never rises."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.factorize.absolute import least_absolute
from proxlin.factorize.cells import Cells
from proxlin.factorize.quadratics import minimize_quadratics, weighted_grams
from proxlin.factorize.row_norm import RowNorm, known_part

_HALVINGS = 8  # of a step of the basis that raised the objective, before it stays


@dataclass(frozen=True)
class Objective:
    """(1/n) sum_i ||known_i * (u_i V - x_i)||_p + alpha/2 (||U||^2 / n + ||V||^2 / m)."""

    cells: Cells
    norm: RowNorm

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        n, m = self.cells.values.shape
        return n, m

    def row_losses(self, u: Tensor, v: Tensor) -> Tensor:
        """||known_i * (u_i V - x_i)||_p for each row, float64."""
        losses = torch.empty(self.shape[0], dtype=torch.float64, device=u.device)
        for rows, x, known in self.cells.chunks(len(v)):
            losses[rows] = self.norm.losses(known_part(u[rows] @ v - x, known)).double()
        return losses

    def column_sums(self, u: Tensor, v: Tensor) -> Tensor:
        """sum_i |known_ij (u_i V - x_i)_j| for each column, float64: the parts of f at p = 1."""
        sums = torch.zeros(self.shape[1], dtype=torch.float64, device=u.device)
        for rows, x, known in self.cells.chunks(len(v)):
            sums += known_part(u[rows] @ v - x, known).abs().sum(0).double()
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

    def scale(self, u: Tensor, v: Tensor) -> float:
        """The mean |residual| of known cells at p < 2, the mean norm of a row at p >= 2."""
        if self.norm.p >= 2:
            return float(self.row_losses(u, v).mean())
        n, m = self.shape
        count = n * m if self.cells.known is None else int(self.cells.known.sum())
        return float(self.column_sums(u, v).sum()) / max(count, 1)


class ColumnEquations:
    """A_j v_j = b_j for every column: A_j = sum_i w_ij u_i u_i^T, b_j = sum_i w_ij x_ij u_i."""

    def __init__(self, rank: int, columns: int, like: Tensor) -> None:
        self.grams = like.new_zeros(columns, rank, rank)
        self.linear = like.new_zeros(columns, rank)

    def add(self, x: Tensor, known: Tensor | None, u: Tensor, weights: Tensor) -> None:
        """Add rows with their weights (B, m) or (B, 1)."""
        w = weights if known is None else weights * known
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


def update_rows(objective: Objective, u: Tensor, v: Tensor, floor: float) -> Tensor:
    """Embeddings after one majorise-minimise step; the loss of no row rises."""
    new = torch.empty_like(u)
    norm = objective.norm
    level = u.new_tensor(floor)
    for rows, x, known in objective.cells.chunks(len(v)):
        residual = known_part(u[rows] @ v - x, known)
        new[rows] = norm.step(x, known, v, u[rows], norm.weights(residual, level))[0]
    return new


def update_basis(objective: Objective, u: Tensor, v: Tensor, floor: float) -> Tensor:
    """The basis after one majorise-minimise step; f does not rise."""
    norm = objective.norm
    n, m = objective.shape
    equations = ColumnEquations(len(v), m, v)
    level = v.new_tensor(floor)
    for rows, x, known in objective.cells.chunks(len(v)):
        residual = known_part(u[rows] @ v - x, known)
        equations.add(x, known, u[rows], norm.weights(residual, level))
    target = equations.solve(
        v, ridge=norm.alpha * n / m, non_negative=norm.non_negative
    )
    return descend_basis(objective, u, v, target)


def descend_basis(objective: Objective, u: Tensor, v: Tensor, target: Tensor) -> Tensor:
    """The longest of a few steps from V towards `target` that does not raise f.

    At p = 1 every column is a problem of its own and has its own step.
    """
    n, m = objective.shape
    share = 1.0 if objective.norm.p <= 2 else 1.0 / (objective.norm.p - 1.0)
    if objective.norm.p > 1:
        value = objective.value(u, v)
        for _ in range(_HALVINGS):
            tried = target if share == 1 else v + share * (target - v)
            if objective.value(u, tried) <= value:
                return tried
            share *= 0.5
        return v
    ridge = 0.5 * objective.norm.alpha * n / m

    def columns(basis: Tensor) -> Tensor:
        return objective.column_sums(u, basis) + ridge * basis.double().square().sum(0)

    value_by_column = columns(v)
    tried = target
    for _ in range(_HALVINGS):
        worse = ~(columns(tried) <= value_by_column)
        if not bool(worse.any()):
            return tried
        share *= 0.5
        tried = torch.where(worse, v + share * (target - v), tried)
    return torch.where(columns(tried) <= value_by_column, tried, v)
