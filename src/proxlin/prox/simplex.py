"""Projection on the simplex, and the water level that it shares with the l1 ball."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.prox.norms import check_vectors, column_per_vector

_BLOCK = 1 << 19  # numbers per block: the buffers of a block stay in a processor's cache
_MAX_ROUNDS = 30


def project_simplex(v: Tensor, *, total: float | Tensor = 1.0) -> Tensor:
    """argmin_x 1/2 ||x - v||_2^2 with x >= 0, sum(x) = total, for each vector along the last dim.

    `total` >= 0 is a number, or a tensor with one value per vector. An empty vector stays empty.

    >>> project_simplex(torch.tensor([1.0, 0.5, -3.0]))
    tensor([0.7500, 0.2500, 0.0000])
    """
    check_vectors(v)
    volume = column_per_vector("total", total, v)
    if v.numel() == 0:
        return v.clone()
    below, _, level = below_top(v, volume)
    return torch.relu(below - level)


def below_top(v: Tensor, volume: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """v - top, top = max(v), and the level below it at which sum((v - top - level)+) = volume.

    Which entries stand above the level is found without a record for autograd; given those the
    level is a mean, which is differentiated as it stands.
    """
    top = v.detach().amax(-1, keepdim=True)
    below = v - top  # <= 0: a mean of such numbers never rises above the top by rounding
    volume = volume.expand(top.shape)
    with torch.no_grad():
        above = _above(below.reshape(-1, v.shape[-1]), volume.reshape(-1, 1)).view(v.shape)
    count = above.sum(-1, keepdim=True)
    level = ((below * above).sum(-1, keepdim=True) - volume) / count
    return below, top, level


def _above(below: Tensor, volume: Tensor) -> Tensor:
    """1 for the entries at or above the level, 0 for the others (rows, n)."""
    above = torch.empty_like(below)
    size = below.shape[-1]
    rows = max(1, _BLOCK // size) if below.device.type == "cpu" else max(1, len(below))
    space = torch.empty_like(below[:rows])
    for first in range(0, len(below), rows):
        here = slice(first, first + rows)
        _above_block(below[here], volume[here], above[here], space[: len(below[here])])
    return above


def _above_block(below: Tensor, volume: Tensor, above: Tensor, space: Tensor) -> None:
    """Newton's method on the convex, piecewise linear sum((v - level)+), from below: it ends."""
    level = torch.maximum((below.sum(-1, keepdim=True) - volume) / below.shape[-1], -volume)
    count = torch.full_like(level, -1.0)
    for _ in range(_MAX_ROUNDS):
        torch.ge(below, level, out=above)
        previous, count = count, above.sum(-1, keepdim=True)
        changed = count != previous
        # NaN never is above anything: its count stays 0.
        if not bool(changed.any()):
            return
        level = (torch.mul(below, above, out=space).sum(-1, keepdim=True) - volume) / count
    rest = changed.squeeze(-1)
    above[rest] = _above_by_sorting(below[rest], volume[rest])


def _above_by_sorting(below: Tensor, volume: Tensor) -> Tensor:
    """The same in one go, for the rare vectors whose level Newton's method only creeps up to."""
    ordered = below.sort(-1, descending=True).values
    ranks = torch.arange(1, below.shape[-1] + 1, device=below.device, dtype=below.dtype)
    levels = (ordered.cumsum(-1) - volume) / ranks
    last = (ordered >= levels).sum(-1, keepdim=True).clamp_min(1) - 1
    return (below >= ordered.gather(-1, last)).to(below.dtype)
