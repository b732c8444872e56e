"""Dense curvature: the whole d x d average in float64, for small d."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.methods.curvature.factor import damped_cholesky


@dataclass(init=False, eq=False, repr=False)
class DenseCurvature:
    """C as a d x d matrix; memory 2 * 8 d^2 bytes, a Cholesky factorisation for each renewal."""

    matrix: Tensor  # (d, d) C
    _factor: Tensor  # (d, d) Cholesky factor of A, older than C by up to a renewal

    def __init__(self, size: int, device: torch.device) -> None:
        self.matrix = torch.zeros(size, size, dtype=torch.float64, device=device)
        self._factor = torch.empty(0)

    costly = False
    rows_of_a_solve = 0

    @property
    def scale(self) -> float:
        """The mean of the diagonal of C."""
        return float(self.matrix.diagonal().mean())

    def add(self, probes: Tensor, weight: float) -> None:
        """C <- (1 - weight) C + weight * mean of v v^T over the probes (K, d)."""
        rows = probes.double()
        self.matrix.addmm_(rows.T, rows, beta=1 - weight, alpha=weight / rows.shape[0])

    def factor(self, damping: float, extra: Tensor) -> None:
        """Renew the Cholesky factor of C + damping * scale * I + diag(extra)."""
        self._factor = damped_cholesky(self.matrix, damping * self.scale + extra)

    def solve(self, vector: Tensor) -> Tensor:
        """A^{-1} vector."""
        solution = torch.cholesky_solve(vector.double().unsqueeze(1), self._factor)
        return solution.squeeze(1).to(vector.dtype)

    def quadratic(self, vector: Tensor) -> float:
        """vector^T C vector."""
        wide = vector.double()
        return float(wide @ (self.matrix @ wide))
