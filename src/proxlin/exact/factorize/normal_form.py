"""One representative of the many factors with the same product."""

from __future__ import annotations

import torch
from torch import Tensor


def normal_form(u: Tensor, v: Tensor, *, alpha: float, non_negative: bool) -> tuple[Tensor, Tensor]:
    """(U', V') with U' V' = U V and the same penalty, in a form that does not depend on the run.

    Without a penalty components have unit length; free ones are orthonormal as well and ordered by
    the spread of the embeddings along them, outlying rows counting no more than others. With a
    penalty free components are only turned, until they are orthogonal, and non-negative ones stay.
    """
    if non_negative:
        return (u, v) if alpha > 0 else _unit_length(u, v)
    return _turned(u, v) if alpha > 0 else _orthonormal(u, v)


def _unit_length(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    lengths = torch.linalg.vector_norm(v, dim=1)
    lengths = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    return u * lengths, v / lengths[:, None]


def _orthonormal(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    basis, upper = torch.linalg.qr(v.T)  # V = upper^T basis^T
    left, right = u @ upper.T, basis.T
    lengths = torch.linalg.vector_norm(left, dim=1, keepdim=True)
    limit = lengths.median().clamp(min=torch.finfo(u.dtype).tiny)
    clipped = left * (limit / lengths.clamp(min=limit))
    _, axes = torch.linalg.eigh(clipped.T @ clipped)
    axes = axes.flip(1)
    return _signed(left @ axes, axes.T @ right)


def _turned(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    _, axes = torch.linalg.eigh(v @ v.T)
    axes = axes.flip(1)
    return _signed(u @ axes, axes.T @ v)


def _signed(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The largest entry of each component positive."""
    largest = v.gather(1, v.abs().argmax(1, keepdim=True))
    signs = torch.where(largest < 0, -1.0, 1.0).to(v.dtype)
    return u * signs.T, v * signs
