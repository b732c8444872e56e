"""Where a factorisation begins: the leading directions of a clipped sample of the rows."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.exact.factorize.cells import Cells

_NORMAL_MAD = 1.4826
_POWER_STEPS = 4
_EXTRA = 8  # directions more than asked for, so that the last ones are accurate too
_PARTS_STEPS = 60  # of alternating non-negative least squares for each random start


def sample_rows(n: int, limit: int, generator: torch.Generator) -> Tensor | None:
    """`limit` row numbers in rising order, drawn without repetition; None if all n may be taken."""
    if n <= limit:
        return None
    return torch.randperm(n, generator=generator)[:limit].sort().values


def leading_directions(
    cells: Cells, rank: int, generator: torch.Generator, *, clip: float = 1.0
) -> Tensor:
    """(rank, m): the leading right singular vectors of the table, gross cells and rows clipped.

    Missing cells are taken as their column's median. A cell counts up to `clip` robust standard
    deviations from the median of its column, a row up to twice the median norm.
    """
    table = _clipped(cells, clip)
    n, m = table.shape
    size = min(rank + _EXTRA, m)
    probe = torch.randn(n, size, generator=generator, dtype=torch.float64).to(table)
    right = torch.linalg.qr(table.T @ probe).Q  # (m, size)
    for _ in range(_POWER_STEPS):
        right = torch.linalg.qr(table.T @ torch.linalg.qr(table @ right).Q).Q
    inner = torch.linalg.svd(table @ right, full_matrices=False).Vh  # (size, size)
    basis: Tensor = (inner @ right.T)[:rank]
    if len(basis) < rank:  # fewer rows than directions: fill up with what is orthogonal to them
        basis = right.T[:rank]
    return basis.contiguous()


def _clipped(cells: Cells, clip: float) -> Tensor:
    table = cells.values
    if cells.observed is not None:
        table = torch.where(cells.observed, table, torch.nan)
    middle = table.nanmedian(0).values.nan_to_num()
    distance = (table - middle).abs()
    spread = _NORMAL_MAD * distance.nanmedian(0).values.nan_to_num()
    # A column that is mostly one value has no MAD.
    spread = torch.where(spread > 0, spread, distance.nanmean(0).nan_to_num())
    if cells.observed is not None:
        table = torch.where(cells.observed, table, middle)
    table = torch.clamp(table, middle - clip * spread, middle + clip * spread)
    norms = torch.linalg.vector_norm(table, dim=1, keepdim=True)
    limit = 2 * norms.median()
    clipped: Tensor = table * (limit / norms.clamp(min=torch.finfo(table.dtype).tiny)).clamp(max=1)
    return clipped


def non_negative_parts(
    left: Tensor, right: Tensor, generator: torch.Generator, *, starts: int
) -> Tensor:
    """V >= 0 (r, m) of the best of some runs of min ||left right - U V||_F over U, V >= 0.

    Only products with the factors are formed, never the table itself.
    """
    rank = len(right)
    norm2 = float(((left.T @ left) * (right @ right.T)).sum())
    size = (norm2 / (len(left) * right.shape[1])) ** 0.25 / rank**0.25
    best, answer = torch.inf, right.clamp(min=0)
    for _ in range(starts):
        u = size * torch.rand(len(left), rank, generator=generator, dtype=torch.float64).to(left)
        v = size * torch.rand(rank, right.shape[1], generator=generator, dtype=torch.float64)
        v = v.to(left)
        for _ in range(_PARTS_STEPS):
            u = _descend(u, v @ v.T, left @ (right @ v.T))
            v = _descend(v.T, u.T @ u, right.T @ (left.T @ u)).T
        inner = 2 * float((u * (left @ (right @ v.T))).sum())
        distance = norm2 - inner + float(((u.T @ u) * (v @ v.T)).sum())
        if distance < best:
            best, answer = distance, v.contiguous()
    return answer


def _descend(u: Tensor, gram: Tensor, linear: Tensor) -> Tensor:
    """One pass of exact minimisation over one column of u >= 0 after the other."""
    u = u.clone()
    floor = gram.diagonal().max().clamp(min=torch.finfo(u.dtype).tiny) * torch.finfo(u.dtype).eps
    for k in range(u.shape[1]):
        u[:, k] += (linear[:, k] - u @ gram[:, k]) / gram[k, k].clamp(min=floor)
        u[:, k].clamp_(min=0)
    return u
