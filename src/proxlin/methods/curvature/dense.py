"""A running average of curvature C = E[v v^T]: what is asked of one, and C as a dense matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from proxlin.prox.linear_algebra import shifted_cholesky, solve_cholesky

UNFACTORED = (
    "the curvature of the model must be finite; it could not be factored."
    " Scale the data or start from smaller parameters."
)


class AveragedCurvature(Protocol):
    """A running average of probes that can be damped, factored and solved with."""

    def add(self, probes: Tensor, weight: float) -> None:
        """C <- (1 - weight) C + weight * mean of v v^T over the probes (K, d)."""
        ...

    def factor(self, damping: float, extra: Tensor) -> None:
        """Renew the factor of A = C + damping * (size of C) I + diag(extra)."""
        ...

    def solve(self, vector: Tensor) -> Tensor:
        """A^{-1} vector, with the latest factor; (d,)."""
        ...

    def quadratic(self, vector: Tensor) -> float:
        """vector^T C vector, with the latest factor's C."""
        ...

    @property
    def costly(self) -> bool:
        """Whether averaging in a probe costs as much as the backward pass that gave it."""
        ...

    @property
    def rows_of_a_solve(self) -> int:
        """How many rows cost about as much to differentiate as one solve; 0 if hardly any."""
        ...

    @property
    def scale(self) -> float:
        """The mean of the diagonal of C."""
        ...


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
        self._factor = shifted_cholesky(self.matrix, damping * self.scale + extra, UNFACTORED)

    def solve(self, vector: Tensor) -> Tensor:
        """A^{-1} vector."""
        return solve_cholesky(self._factor, vector)

    def quadratic(self, vector: Tensor) -> float:
        """vector^T C vector."""
        wide = vector.double()
        return float(wide @ (self.matrix @ wide))
