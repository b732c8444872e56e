"""A factorisation of rows that come in chunks: what is kept does not grow with their number."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.exact.factorize.cells import Cells, column_norms, column_scales, scaled
from proxlin.exact.factorize.row_norm import RowNorm, observed_part
from proxlin.exact.factorize.run import factorize, first_state
from proxlin.exact.factorize.sweep import ColumnEquations, Objective

_FLOORS = (3.0, 1.0, 0.3, 0.1)  # under residuals, in steps for the embeddings of a chunk
_MEMORY = 1.5  # the t-th chunk leaves (1 - 1/t)^_MEMORY of what was known before it
_START_SWEEPS = 40


@dataclass
class Stream:
    """V and the running sums of its weighted normal equations, m r (r + 1) numbers in all.

    Every chunk is embedded with the present basis; its weighted rows are added to the equations,
    older ones having been discounted, and the basis moves to their solution. This is the
    majorise-minimise step of all rows seen so far, their embeddings and weights left as they were
    when they came.
    """

    norm: RowNorm
    by_column: bool
    v: Tensor  # (r, m)
    equations: ColumnEquations
    chunks: int = 0
    rows: float = 0.0  # how many rows the equations are worth
    columns: Tensor | None = None  # (m,) running mean of |c_ij|^p, for by_column

    @classmethod
    def begin(
        cls, cells: Cells, rank: int, norm: RowNorm, *, by_column: bool = False, seed: int = 0
    ) -> Stream:
        """A stream whose basis comes from a factorisation of some first rows."""
        chosen = cells.transposed if by_column else cells
        factors = factorize(chosen, rank, norm, max_iter=_START_SWEEPS, seed=seed)
        v = factors.u.T.contiguous() if by_column else factors.v
        return cls(norm, by_column, v, ColumnEquations(rank, v.shape[1], v))

    def copy(self) -> Stream:
        """The same stream, to learn on without changing this one."""
        return copy.deepcopy(self)

    def update(self, cells: Cells) -> Tensor:
        """Learn from a chunk of rows; their embeddings (n, r) in the basis as it was before."""
        scales = self._scales()
        seen = cells if scales is None else scaled(cells, scales)
        basis = self.v if scales is None else self.v * scales.to(self.v)
        u, floor = _embed_roughly(Objective(seen, self.norm), basis)
        self.chunks += 1
        share = (1 - 1 / self.chunks) ** _MEMORY
        self.equations.decay(share)
        self.rows = share * self.rows + len(u)
        for rows, x, observed in cells.chunks(len(self.v)):
            residual = observed_part(u[rows] @ self.v - x, observed)
            self.equations.add(x, observed, u[rows], self._weights(residual, floor))
        if self.by_column:
            powers = column_norms(cells, u, self.v, self.norm.p) ** self.norm.p
            kept = share if self.columns is not None else 0.0
            before = powers if self.columns is None else self.columns
            self.columns = (kept * before + powers) / (kept + 1)
        ridge = self.norm.alpha * self.rows / self.v.shape[1]
        self.v = self.equations.solve(self.v, ridge=ridge, non_negative=self.norm.non_negative)
        return u

    def _scales(self) -> Tensor | None:
        if self.columns is None:
            return None
        return column_scales(self.columns ** (1 / self.norm.p), self.norm.p)

    def _weights(self, residual: Tensor, floor: Tensor) -> Tensor:
        if not self.by_column:
            return self.norm.weights(residual, floor)
        if self.norm.p == 2:  # the weight of a column does not change its own equation
            return torch.ones_like(residual[:, :1])
        return torch.maximum(residual.abs(), floor) ** (self.norm.p - 2)


def _embed_roughly(objective: Objective, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Embeddings after a few steps with falling floors, and the last floor."""
    state = first_state(objective, basis)
    u, norm = state.u, objective.norm
    level = basis.new_tensor(state.floor)
    for rows, x, observed in objective.cells.chunks(len(basis)):
        residual = observed_part(u[rows] @ basis - x, observed)
        for share in _FLOORS if norm.p != 2 or norm.alpha > 0 else ():
            weights = norm.weights(residual, share * level)
            u[rows], residual, _ = norm.step(
                x, observed, basis, u[rows], residual=residual, weights=weights
            )
    return u, _FLOORS[-1] * level
