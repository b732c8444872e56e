"""Column-wise robustness: (1/m) sum_j ||known_j * (U v_j - x_j)||_p, the same with roles exchanged.

For one row with the basis fixed the outer norm is not there to see: the column norms are those of
many rows. Tangents of t -> t^(1/p) at them give sum_j w_j |u v_j - x_j|^p with w_j = ||c_j||^(1-p),
which lies above the objective and touches it: the embedding of a row in columns scaled by
w_j^(1/p). Columns that fit badly count less.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.exact.factorize.cells import Cells

_LEAST = 1e-6  # of the median column norm: a column that fits better counts as if it fitted so


def column_norms(cells: Cells, u: Tensor, v: Tensor, p: float) -> Tensor:
    """(mean_i |c_ij|^p)^(1/p) over the known cells of each column, float64."""
    m = cells.values.shape[1]
    powers = torch.zeros(m, dtype=torch.float64, device=v.device)
    counts = torch.zeros_like(powers)
    for rows, x, known in cells.chunks(len(v)):
        size = (u[rows] @ v - x).abs().double() ** p
        if known is None:
            powers += size.sum(0)
            counts += len(x)
        else:
            powers += (size * known).sum(0)
            counts += known.double().sum(0)
    norms: Tensor = (powers / counts.clamp(min=1)) ** (1 / p)
    return norms


def column_scales(norms: Tensor, p: float) -> Tensor:
    """||c_j||^((1-p)/p), so that scaled residuals to the power p are weighted by ||c_j||^(1-p)."""
    middle = norms.median()
    if not bool(middle > 0):
        return torch.ones_like(norms)
    return (norms / middle).clamp(min=_LEAST) ** ((1 - p) / p)


def scaled(cells: Cells, scales: Tensor) -> Cells:
    """The same cells with column j times scales_j."""
    values = cells.values * scales.to(cells.values)
    return Cells(values, cells.known, cells.max_bytes)
