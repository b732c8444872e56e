"""F and its Jacobian on a batch: J d, J^T u, dense rows and random probes in bounded memory."""

from proxlin.linearize.across_processes import linearize_gathered, linearize_local, linearize_parts
from proxlin.linearize.differentiable import Differentiable
from proxlin.linearize.linearization import Linearization, has_products, linearize

__all__ = [
    "Differentiable",
    "Linearization",
    "has_products",
    "linearize",
    "linearize_gathered",
    "linearize_local",
    "linearize_parts",
]
