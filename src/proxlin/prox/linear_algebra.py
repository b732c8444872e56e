"""Systems A x = b with A symmetric and positive: Cholesky that says when it fails, and products."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from proxlin.errors import NonFiniteError

Product = Callable[[Tensor], Tensor]  # v -> M v

SMALLEST_SHIFT = 1e-20  # a matrix of zeros is shifted too
_TRIALS = 12


def cholesky(matrix: Tensor, problem: str) -> Tensor:
    """The factor L of A = L L^T; an A that has none is refused with the sentence `problem`."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed) or not bool(torch.isfinite(factor.diagonal()).all()):
        raise NonFiniteError(problem)
    return factor


def shifted_cholesky(matrix: Tensor, shift: Tensor, problem: str, *, exact: bool = True) -> Tensor:
    """The factor of A + diag(shift), for one matrix or a batch of them.

    In float64; if it need not be exact, in the type of A. A shift below the rounding of the matrix
    is raised tenfold until the factor exists.
    """
    wide = matrix.to(torch.float64 if exact else matrix.dtype, copy=True)
    shift = shift.to(wide) + SMALLEST_SHIFT
    added = torch.zeros_like(shift)
    for _ in range(_TRIALS):
        wide.diagonal(dim1=-2, dim2=-1).add_(shift - added)
        added = shift
        factor, failed = torch.linalg.cholesky_ex(wide)
        if not bool(failed.any()):
            complete: Tensor = factor
            return complete
        shift = 10 * shift
    raise NonFiniteError(problem)


def solve_cholesky(factor: Tensor, right: Tensor) -> Tensor:
    """(L L^T)^{-1} b for one vector b or a batch of them, in the type of b."""
    solution = torch.cholesky_solve(right.to(factor).unsqueeze(-1), factor)
    return solution.squeeze(-1).to(right.dtype)


def conjugate_gradients(
    times: Product,
    right: Tensor,
    precondition: Product,
    *,
    tolerance: float,
    max_steps: int,
    largest_form: float = math.inf,
) -> Tensor:
    """x with A x = b, from x = 0, to `tolerance` in the norm of the preconditioner.

    x^T A x grows from step to step; once it is above `largest_form`, x is returned as it is.
    """
    solution = torch.zeros_like(right)
    residual = right
    direction = preconditioned = precondition(residual)
    product = first = _dot(residual, preconditioned)
    form = 0.0
    for _ in range(max_steps):
        if not product > tolerance**2 * first:
            break
        image = times(direction)
        curvature = _dot(direction, image)
        if not curvature > 0:  # rounding has used up the accuracy there is
            break
        length = product / curvature
        solution = solution + length * direction
        form += length * product
        if form > largest_form:
            break
        residual = residual - length * image
        preconditioned = precondition(residual)
        before, product = product, _dot(residual, preconditioned)
        direction = preconditioned + (product / before) * direction
    return solution


def _dot(left: Tensor, right: Tensor) -> float:
    return float(torch.dot(left.reshape(-1), right.reshape(-1)))
