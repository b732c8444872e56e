"""Matrix factorisation X ~ H G^T with the rows' embeddings as parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from proxlin._checks import check_count, check_positive, check_seed
from proxlin.errors import InvalidInputError


class Factorization(nn.Module):
    """i -> G h_i: row i of H G^T, with H (n, rank) the embeddings and G (m, rank) the basis.

    The data are pairs of a row number and a row: `Problem(net, (torch.arange(n), X))`. With cells
    missing, give a mask too: `Problem(net, (torch.arange(n), X, known), residual=known_cells)`.
    """

    def __init__(
        self,
        n_rows: int,
        n_columns: int,
        rank: int,
        *,
        non_negative: bool = False,
        scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_count("n_rows", n_rows)
        check_count("n_columns", n_columns)
        if check_count("rank", rank) > min(n_rows, n_columns):
            raise InvalidInputError(
                f"rank must be at most {min(n_rows, n_columns)}, the smaller side; got {rank}."
            )
        check_positive("scale", scale)
        generator = torch.Generator().manual_seed(check_seed("seed", seed))
        # Products of two factors of this size have entries of about `scale`.
        size = (scale / rank**0.5) ** 0.5
        rows = size * torch.randn(n_rows, rank, generator=generator)
        basis = size * torch.randn(n_columns, rank, generator=generator)
        self.rows = nn.Parameter(rows.abs() if non_negative else rows)  # H
        self.basis = nn.Parameter(basis.abs() if non_negative else basis)  # G

    def forward(self, index: Tensor) -> Tensor:
        """Rows `index` of H G^T, (B, m)."""
        return self.rows[index] @ self.basis.T


def known_cells(module: nn.Module, index: Tensor, x: Tensor, known: Tensor) -> Tensor:
    """The residual of the known cells; a missing cell contributes nothing whatever it holds."""
    difference: Tensor = torch.where(known.bool(), module(index) - x, torch.zeros_like(x))
    return difference
