"""(diag(m) + rho A^T A) x = r: the linear system in every step of ADMM, on its smaller side.

Three roads lead to the same x:

- `Gram`: Cholesky of the d x d matrix diag(m) + rho A^T A;
- `Woodbury`: Cholesky of the R x R matrix I/rho + A diag(m)^-1 A^T, for fewer rows than parameters;
- `ConjugateGradient`: products with A and A^T only, when neither matrix fits the memory.

The first two keep what does not depend on rho, so that a new rho costs one Cholesky.
Both factor in float64 whatever the type of A: the matrices are small and their condition is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from proxlin.errors import NonFiniteError
from proxlin.prox.linear_algebra import cholesky, conjugate_gradients, solve_cholesky

_SINGULAR = (
    "the linear system of the sub-problem cannot be factored: its matrix is not finite or not"
    " positive. Scale the data, lower the penalty or raise the weight of the proximal term."
)


class RowOperator(Protocol):
    """A linear map A from parameters (d,) to rows of numbers (R, N), and its adjoint."""

    def apply(self, direction: Tensor) -> Tensor:
        """A x, (R, N)."""
        ...

    def adjoint(self, rows: Tensor) -> Tensor:
        """A^T u = sum_i A_i^T u_i, (d,)."""
        ...


class DenseRows:
    """The operator of a tensor (R, N, d) that is held in memory."""

    def __init__(self, rows: Tensor) -> None:
        self.shape = rows.shape[:-1]
        self.matrix = rows.reshape(-1, rows.shape[-1])  # (R N, d)

    def apply(self, direction: Tensor) -> Tensor:
        """A x, (R, N)."""
        return (self.matrix @ direction).view(self.shape)

    def adjoint(self, rows: Tensor) -> Tensor:
        """A^T u, (d,)."""
        return rows.reshape(-1) @ self.matrix


class NormalEquations(Protocol):
    """Solves (diag(m) + rho A^T A) x = r for one A, many m, rho and r."""

    def prepare(self, weights: Tensor, rho: float) -> None:
        """Take m, (d,) or 0-dimensional, and rho for the calls of `solve` that follow."""
        ...

    def solve(self, right: Tensor) -> Tensor:
        """x, in the type of r."""
        ...


class Gram:
    """The d x d road: Cholesky of diag(m) + rho A^T A."""

    def __init__(self, gram: Tensor, matrix: Tensor | None = None) -> None:
        self._gram = gram.double()  # (d, d) A^T A
        self._matrix = matrix  # (d, d) added to diag(m) + rho A^T A; None: nothing
        self._factor = self._gram

    def prepare(self, weights: Tensor, rho: float) -> None:
        """One Cholesky of d x d."""
        matrix = rho * self._gram
        if self._matrix is not None:
            matrix += self._matrix
        matrix.diagonal().add_(weights)
        self._factor = cholesky(matrix, _SINGULAR)

    def solve(self, right: Tensor) -> Tensor:
        """Two triangular solves of size d."""
        return solve_cholesky(self._factor, right)


class Woodbury:
    """The row road: x = (r - A^T (I/rho + A diag(m)^-1 A^T)^-1 A (r/m)) / m."""

    def __init__(self, rows: DenseRows) -> None:
        self._rows = rows
        self._plain: Tensor | None = None  # A A^T, once a scalar m has asked for it
        self._weights = torch.empty(0)
        self._outer = torch.empty(0)  # (R N, R N) A diag(m)^-1 A^T in float64
        self._factor = torch.empty(0)

    def prepare(self, weights: Tensor, rho: float) -> None:
        """One product A diag(m)^-1 A^T unless m is as before, one Cholesky of R x R."""
        if self._weights.shape != weights.shape or not torch.equal(self._weights, weights):
            self._weights = weights.clone()
            self._outer = self._product(weights)
        matrix = self._outer.clone()
        matrix.diagonal().add_(1 / rho)
        self._factor = cholesky(matrix, _SINGULAR)

    def solve(self, right: Tensor) -> Tensor:
        """Two triangular solves of size R N and two products with A."""
        scaled = right / self._weights
        inner = solve_cholesky(self._factor, self._rows.apply(scaled).reshape(-1))
        return scaled - self._rows.adjoint(inner) / self._weights

    def _product(self, weights: Tensor) -> Tensor:
        matrix = self._rows.matrix
        if weights.ndim:
            return product_of_columns((matrix * weights.rsqrt()).T).double()
        if self._plain is None:
            self._plain = product_of_columns(matrix.T).double()
        return self._plain / weights


class ConjugateGradient:
    """The matrix-free road: conjugate gradients on the same system, scaled by m."""

    def __init__(self, rows: RowOperator, *, tolerance: float = 1e-4, max_steps: int = 100) -> None:
        self._rows = rows
        self._tolerance = tolerance  # on the residual, relative to r
        self._max_steps = max_steps
        self._weights = torch.empty(0)
        self._rho = 1.0

    def prepare(self, weights: Tensor, rho: float) -> None:
        """Nothing to factor."""
        self._weights, self._rho = weights, rho

    def solve(self, right: Tensor) -> Tensor:
        """At most `max_steps` products with A and A^T."""

        def times(vector: Tensor) -> Tensor:
            image = self._rows.adjoint(self._rows.apply(vector))
            if not bool(torch.isfinite(image).all()):
                raise NonFiniteError(_SINGULAR)
            return self._weights * vector + self._rho * image

        return conjugate_gradients(
            times,
            right,
            lambda vector: vector / self._weights,
            tolerance=self._tolerance,
            max_steps=self._max_steps,
        )


def on_smaller_side(rows: DenseRows) -> NormalEquations:
    """The row road for fewer rows than parameters, else the d x d road."""
    numbers, size = rows.matrix.shape
    return Woodbury(rows) if numbers < size else Gram(product_of_columns(rows.matrix))


def product_of_columns(matrix: Tensor) -> Tensor:
    """M^T M in three strips; what lies above the diagonal is mirrored: 2/3 of the work."""
    size = matrix.shape[1]
    product = matrix.new_empty(size, size)
    ends = [size * strip // 3 for strip in range(4)]
    for first, last in pairwise(ends):
        product[first:last, :last] = matrix[:, first:last].T @ matrix[:, :last]
        product[:first, first:last] = product[first:last, :first].T
    return product


def dense_side_fits(size: int, max_bytes: int) -> bool:
    """Whether a matrix of this size, its product and its factor fit, in float64."""
    return 3 * 8 * size**2 <= max_bytes


def gram_of(blocks: Iterable[Tensor], size: int) -> Tensor:
    """sum of A_b^T A_b in float64 over blocks of rows (..., d), one block in memory at a time."""
    total = torch.zeros(size, size, dtype=torch.float64)
    for block in blocks:
        total = total.to(block.device)
        total += product_of_columns(block.reshape(-1, size).double())
    return total
