"""Scales of a batch that fewer than half of its rows cannot move, however large they are.

A mean over rows belongs to the largest of them. What steers a run is measured against these:
the floor under |r|, the trust region, what counts as rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.problem.shards import LocalBatch

NORMAL_MAD = 1.482602218505602  # standard deviation of a Gaussian over its median deviation
NORMAL_IQR = 1.3489795003921634  # inter-quartile range of a standard Gaussian
CLIP = 5.0  # medians at which a loss is clipped before the mean is taken
_ENTRIES = 0.8  # quantile of a row up to which its entries are trusted
_FEW = 5  # entries of a row of which none can be told to be far from the others
_FAR = 10.0  # times that quantile at which the others are clipped
_NUMBERS = 2**17  # of residuals that a scale is taken from,
_ROWS = 64  # and rows at least


@dataclass(frozen=True)
class Scales:
    """Robust sizes of a batch, the same on all processes."""

    size: Tensor  # of an entry of a residual
    loss: Tensor  # of a row


def median(values: Tensor) -> Tensor:
    """The median of what is not 0 or, where less than half of the values are 0, of all."""
    middle = values.median()
    if bool(middle == 0):
        positive = values[values > 0]
        middle = positive.median() if len(positive) else middle
    return middle


def clipped_mean(values: Tensor) -> Tensor:
    """The mean of values >= 0, each at most five times their median."""
    return values.clamp_max(CLIP * median(values)).mean()


def row_sizes(residual: Tensor) -> Tensor:
    """The mean |r| of each row of (B, N), entries far beyond four fifths of the row clipped; (B,).

    A row of zeros and few others is not clipped: most pixels of an image may be predicted exactly.
    """
    sizes = residual.abs()
    inner = int(_ENTRIES * sizes.shape[1])
    if sizes.shape[1] < _FEW:
        return sizes.mean(1)
    limit = _FAR * sizes.kthvalue(inner, dim=1, keepdim=True).values
    limit = torch.where(limit > 0, limit, torch.inf)
    return sizes.minimum(limit).mean(1)


def scales_of(
    parts: list[LocalBatch], residuals: list[Tensor], losses: list[Tensor], *, clip: bool
) -> list[Scales]:
    """Those of batches, from our rows of each, for one sum; plain means unless `clip`."""
    tables = []
    for part, residual, own in zip(parts, residuals, losses, strict=True):
        count = max(_ROWS, _NUMBERS // max(1, residual.shape[1])) if clip else part.n_rows
        chosen, sample = part.sample(count)
        sizes = row_sizes(residual[chosen]) if clip else residual.abs().mean(1)
        tables.append(sample.spread(torch.stack([sizes, own[chosen]], dim=1)))
    if parts[0].communicator.size > 1:
        tables = parts[0].communicator.sum_together(tables)
    columns = (table.unbind(1) for table in tables)
    if not clip:
        return [Scales(sizes.mean(), rows.mean()) for sizes, rows in columns]
    return [Scales(median(sizes), clipped_mean(rows)) for sizes, rows in columns]
