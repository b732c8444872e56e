"""F and its Jacobian on a batch: J d, J^T u, dense rows and random probes in bounded memory."""

from proxlin.linearize.differentiable import Differentiable
from proxlin.linearize.linearization import Linearization, linearize
from proxlin.linearize.shared import linearize_gathered, linearize_share

__all__ = [
    "Differentiable",
    "Linearization",
    "linearize",
    "linearize_gathered",
    "linearize_share",
]
