"""A table with missing cells, read in chunks of rows; norms and weights of its columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin._checks import counted
from proxlin.errors import InvalidInputError

_LEAST = 1e-6  # of the median column norm: a column that fits better counts as if it fitted so
_TEMPORARIES = 16  # tables of a chunk's size that a step holds at once


@dataclass(frozen=True)
class Cells:
    """values (n, m) with 0 in missing cells; known (n, m) bool, or None if nothing is missing."""

    values: Tensor
    observed: Tensor | None = None
    max_bytes: int = 16 * 2**20  # for the temporaries of one chunk: small ones stay in the cache

    @classmethod
    def of(cls, table: Tensor, *, max_bytes: int = 16 * 2**20) -> Cells:
        """The cells of a floating-point table whose missing cells hold NaN."""
        missing = torch.isnan(table)
        if not bool(missing.any()):
            return cls(table, None, max_bytes)
        return cls(torch.nan_to_num(table, nan=0.0), ~missing, max_bytes)

    @property
    def transposed(self) -> Cells:
        """The same with rows and columns exchanged."""
        observed = None if self.observed is None else self.observed.T.contiguous()
        return Cells(self.values.T.contiguous(), observed, self.max_bytes)

    def rows(self, chosen: Tensor | slice) -> Cells:
        """Some of the rows."""
        observed = None if self.observed is None else self.observed[chosen]
        return Cells(self.values[chosen], observed, self.max_bytes)

    def chunks(self, rank: int) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
        """(rows, values, known as numbers) within `max_bytes` for steps of this rank."""
        n, m = self.values.shape
        bytes_a_row = self.values.element_size() * (_TEMPORARIES * m + 6 * rank**2)
        size = max(1, min(n, self.max_bytes // bytes_a_row))
        for start in range(0, n, size):
            rows = slice(start, min(n, start + size))
            x = self.values[rows]
            yield rows, x, None if self.observed is None else self.observed[rows].to(x.dtype)


def check_size(cells: Cells) -> None:
    """Refuse cells whose squares have no sum."""
    limit = math.sqrt(torch.finfo(cells.values.dtype).max / cells.values.numel())
    largest = float(cells.values.abs().max())
    if largest > limit:
        raise InvalidInputError(
            f"X must have cells up to {limit:.0e} in size, the squares of which can be added; got"
            f" {largest:.0e}. Divide X by a typical cell."
        )


def check_observed(cells: Cells, *, columns: bool) -> None:
    """Refuse rows, and if asked columns, without a single known cell."""
    if cells.observed is None:
        return
    for axis, name in ((1, "row"), (0, "column")) if columns else ((1, "row"),):
        empty = (~cells.observed.any(axis)).nonzero().flatten()
        if len(empty):
            raise InvalidInputError(
                f"X must have a known cell in every {name}; {counted(len(empty), name)} of NaN"
                f" alone, the first is {int(empty[0])}. Drop them."
            )


# Column-wise robustness: (1/m) sum_j ||known_j * (U v_j - x_j)||_p, roles exchanged. For one row
# with the basis fixed the outer norm is not there to see: the column norms are those of many rows.
# Tangents of t -> t^(1/p) at them give sum_j w_j |u v_j - x_j|^p with w_j = ||c_j||^(1-p), which
# lies above the objective and touches it: the embedding of a row in columns scaled by w_j^(1/p).
# Columns that fit badly count less.


def column_norms(cells: Cells, u: Tensor, v: Tensor, p: float) -> Tensor:
    """(mean_i |c_ij|^p)^(1/p) over the known cells of each column, float64."""
    m = cells.values.shape[1]
    powers = torch.zeros(m, dtype=torch.float64, device=v.device)
    counts = torch.zeros_like(powers)
    for rows, x, observed in cells.chunks(len(v)):
        size = (u[rows] @ v - x).abs().double() ** p
        if observed is None:
            powers += size.sum(0)
            counts += len(x)
        else:
            powers += (size * observed).sum(0)
            counts += observed.double().sum(0)
    norms: Tensor = (powers / counts.clamp(min=1)) ** (1 / p)
    return norms


def column_scales(norms: Tensor, p: float) -> Tensor:
    """||c_j||^((1-p)/p), so that scaled residuals to the power p are weighted by ||c_j||^(1-p)."""
    median = norms.median()
    if not bool(median > 0):
        return torch.ones_like(norms)
    return (norms / median).clamp(min=_LEAST) ** ((1 - p) / p)


def scaled(cells: Cells, scales: Tensor) -> Cells:
    """The same cells with column j times scales_j."""
    values = cells.values * scales.to(cells.values)
    return Cells(values, cells.observed, cells.max_bytes)
