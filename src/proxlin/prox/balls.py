"""The projection on every lp ball."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin._checks import check_exponent
from proxlin.prox.arguments import check_vectors, column_per_vector
from proxlin.prox.norms import dual_exponent, norm
from proxlin.prox.proximal import LARGEST, split_vectors
from proxlin.prox.simplex import below_top


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
    check_vectors("v", v)
    t = column_per_vector("radius", radius, v)
    if v.numel() == 0:
        return v.clone()
    if p >= LARGEST:
        return torch.clamp(v, -t, t)
    if p - 1.0 <= 1.0 / LARGEST:
        magnitude = v.abs()
        below, _, level = below_top(magnitude, t)
        inside = magnitude.sum(-1, keepdim=True) <= t
        return torch.where(inside, v, torch.relu(below - level) * v.sign())
    if p == 2:
        length = norm(v, p=2).unsqueeze(-1)
        inside = length <= t
        return v * torch.where(inside, 1.0, t / torch.where(inside, 1.0, length))
    return split_vectors(v, t, p=dual_exponent(p), dual=True)
