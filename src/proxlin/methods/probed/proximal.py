"""A Newton step with a term that its factor cannot hold, by ADMM on that factor."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.methods.curvature import Curvature
from proxlin.terms import Penalty

_STEPS = 10


def proximal_step(
    curvature: Curvature,
    rest: Penalty,
    theta: Tensor,
    dual: Tensor,
    split: float,
    *,
    slope: Tensor,
    length: float,
) -> tuple[Tensor, Tensor]:
    """About argmin_s slope . s + 1/2 s^T A s + length * rest(theta + s), and the multiplier.

    A holds the penalty `split`. The last step is the proximal one, so that zeros and bounds hold
    exactly; `dual` is the scaled multiplier of the step before.
    """
    move = torch.zeros_like(slope)
    for _ in range(_STEPS):
        free = curvature.solve(split * (move - dual) - slope)
        move = rest.prox(theta + free + dual, length / split) - theta
        dual = dual + free - move
    return move, dual
