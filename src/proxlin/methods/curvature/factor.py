"""A Cholesky factor that rounding cannot break."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.errors import NonFiniteError

SMALLEST = 1e-20  # a curvature of zero is damped too
_TRIALS = 12


def damped_cholesky(matrix: Tensor, shift: Tensor) -> Tensor:
    """The factor of matrix + diag(shift), in float64, for one matrix or a batch of them.

    A shift below the rounding of the matrix is raised tenfold until the factor exists.
    """
    wide = matrix.to(torch.float64, copy=True)
    shift = shift.to(wide) + SMALLEST
    added = torch.zeros_like(shift)
    for _ in range(_TRIALS):
        wide.diagonal(dim1=-2, dim2=-1).add_(shift - added)
        added = shift
        factor, failed = torch.linalg.cholesky_ex(wide)
        if not bool(failed.any()):
            found: Tensor = factor
            return found
        shift = 10 * shift
    raise NonFiniteError(
        "the curvature of the model must be finite; it could not be factored."
        " Scale the data or start from smaller parameters."
    )
