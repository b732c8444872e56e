"""The proximal operator of every lp norm, and the projection on every lp ball."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from proxlin._checks import check_exponent
from proxlin.prox.moreau import MoreauSplit
from proxlin.prox.norms import check_vectors, column_per_vector, dual_exponent, norm
from proxlin.prox.simplex import below_top

_LARGEST = 1e15  # exponents beyond this, and their duals, differ from inf and 1 by rounding only


def prox_norm(v: Tensor, *, p: float, step: float | Tensor) -> Tensor:
    """argmin_x step * ||x||_p + 1/2 ||x - v||_2^2, for each vector along the last dimension.

    `step` >= 0 is a number, or a tensor with one value per vector. Vectors with ||v||_q <= step
    (1/p + 1/q = 1) become exactly 0. Gradients flow to v and to step; where the operator has a kink
    they are one-sided. A vector that holds NaN or infinity becomes NaN and disturbs no other.

    >>> prox_norm(torch.tensor([[3.0, -0.5], [3.0, 4.0]]), p=1, step=1.0)
    tensor([[2., 0.],
            [2., 3.]])
    """
    p = check_exponent("p", p)
    check_vectors(v)
    t = column_per_vector("step", step, v)
    if v.numel() == 0:
        return v.clone()
    if p - 1.0 <= 1.0 / _LARGEST:
        return v - torch.clamp(v, -t, t)
    if p == 2:
        length = norm(v, p=2).unsqueeze(-1)
        return v * (torch.relu(length - t) / torch.where(length == 0, 1.0, length))
    if p >= _LARGEST:
        magnitude = v.abs()
        _, top, level = below_top(magnitude, t)
        level = torch.where(magnitude.sum(-1, keepdim=True) <= t, 0.0, torch.relu(top + level))
        return torch.clamp(v, -level, level)
    return _split(v, t, p=p, dual=False)


def project_ball(v: Tensor, *, p: float, radius: float | Tensor) -> Tensor:
    """argmin_x 1/2 ||x - v||_2^2 subject to ||x||_p <= radius, for each vector along the last dim.

    `radius` >= 0 is a number, or a tensor with one value per vector. Vectors inside the ball are
    returned bit by bit. This is the other part of Moreau's split, v = project_ball(v, p, radius) +
    prox_norm(v, q, step=radius) with 1/p + 1/q = 1, computed for itself and not as a difference.

    >>> project_ball(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, radius=1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    p = check_exponent("p", p)
    check_vectors(v)
    t = column_per_vector("radius", radius, v)
    if v.numel() == 0:
        return v.clone()
    if p >= _LARGEST:
        return torch.clamp(v, -t, t)
    if p - 1.0 <= 1.0 / _LARGEST:
        magnitude = v.abs()
        below, _, level = below_top(magnitude, t)
        inside = magnitude.sum(-1, keepdim=True) <= t
        return torch.where(inside, v, torch.relu(below - level) * v.sign())
    if p == 2:
        length = norm(v, p=2).unsqueeze(-1)
        inside = length <= t
        return v * torch.where(inside, 1.0, t / torch.where(inside, 1.0, length))
    return _split(v, t, p=dual_exponent(p), dual=True)


def _split(v: Tensor, t: Tensor, *, p: float, dual: bool) -> Tensor:
    """`MoreauSplit` for any leading dimensions; t is a column per vector, or one for all."""
    rows = v.reshape(math.prod(v.shape[:-1]), v.shape[-1]).contiguous()
    column = t.expand(*v.shape[:-1], 1).reshape(-1, 1)
    part: Tensor = MoreauSplit.apply(rows, column, p, dual)  # type: ignore[no-untyped-call]
    return part.view(v.shape)
