"""Proximal operators and projections on tensors: any p in [1, inf], batched over leading dims."""

from proxlin.prox.norms import dual_exponent, norm, norm_subgradient
from proxlin.prox.proximal import project_ball, prox_norm
from proxlin.prox.simplex import project_simplex

__all__ = [
    "dual_exponent",
    "norm",
    "norm_subgradient",
    "project_ball",
    "project_simplex",
    "prox_norm",
]
