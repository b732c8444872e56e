"""Moreau's split as a differentiable function: the derivative comes from the optimality condition.

u + t n(u) = v with n(u) = sign(u) (|u|/s)^(p-1), s = ||u||_p, gives du = J (dv - n dt) with

    J^-1 = diag(1 + rho |x/a|) - rho n n^T,    a = |u|/s, x = |n|, rho = (p-1) t/s

which is inverted by the formula of Sherman and Morrison. J is symmetric.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proxlin.prox.moreau import split
from proxlin.prox.norms import norm

_STEEP = 10.0  # a power of u beyond this multiplies its rounding; y then is the better source


class Split(torch.autograd.Function):
    """u, or y if `dual`, of v = u + y; arguments as of `moreau.split`."""

    @staticmethod
    def forward(v: Tensor, t: Tensor, p: float, dual: bool) -> Tensor:
        """Solve without a record."""
        return split(v, t, p=p, dual=dual)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float, bool], output: Tensor) -> None:
        """Keep what the Jacobian is made of."""
        v, t, ctx.p, ctx.dual = inputs
        ctx.save_for_backward(v, t, output)
        ctx.save_for_forward(v, t, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Products with J, which is its own transpose."""
        (grad,) = grads
        product, normal = _jacobian_product(grad, *ctx.saved_tensors, p=ctx.p, dual=ctx.dual)
        by_t = (normal * product).sum(-1, keepdim=True)
        return (grad - product, by_t, None, None) if ctx.dual else (product, -by_t, None, None)

    @staticmethod
    def jvp(ctx: Any, dv: Tensor | None, dt: Tensor | None, *rest: Any) -> Tensor:
        """Products with J from the right."""
        v, t, part = ctx.saved_tensors
        dv = torch.zeros_like(v) if dv is None else dv
        dt = torch.zeros_like(t) if dt is None else dt
        _, normal = _jacobian_product(dv, v, t, part, p=ctx.p, dual=ctx.dual)
        product, _ = _jacobian_product(dv - normal * dt, v, t, part, p=ctx.p, dual=ctx.dual)
        return dv - product if ctx.dual else product


def _jacobian_product(
    g: Tensor, v: Tensor, t: Tensor, part: Tensor, *, p: float, dual: bool
) -> tuple[Tensor, Tensor]:
    """J g and n."""
    r = p / (p - 1.0)
    u, y = (v - part, part) if dual else (part, v - part)
    s = norm(u, p=p).unsqueeze(-1)
    alive = s > 0
    s = torch.where(alive, s, 1.0)
    if dual or p > _STEEP:
        x = y.abs() / torch.where(t > 0, t, 1.0)
        a = x ** (r - 1.0)
        ratio = x ** abs(r - 2.0)
    else:
        a = u.abs() / s
        x = a ** (p - 1.0)
        ratio = a ** abs(2.0 - p)
    rho = (p - 1.0) * t / s
    if p < 2:  # ratio = a / x
        total = ratio + rho
        inverse = torch.where(total == 0, 1.0, ratio / torch.where(total == 0, 1.0, total))
    else:  # ratio = x / a
        inverse = 1.0 / (1.0 + rho * ratio)
    normal = torch.sign(v) * x
    scaled = inverse * g
    mass = (x * a * inverse).sum(-1, keepdim=True)
    along = (normal * scaled).sum(-1, keepdim=True) / torch.where(mass > 0, mass, 1.0)
    product = scaled + rho * inverse * normal * along
    return torch.where(alive, product, 0.0), normal
