"""Moreau's split v = u + y: u = prox of t||.||_p, y = projection on the dual ball of radius t.

Alg. 3 of the paper looks for s = ||u||_p in the bracket [0, ||v||_p] by bisection. Here the same
root of K(s) = sum(x^r) = 1 is found by a straight line through K^beta, with beta such that its
second derivative vanishes (order three, exact at p = 2); a trial that leaves the bracket is
replaced by the bracket's middle. Exponents 1, 2 and inf have closed forms elsewhere.

The derivative comes from the optimality condition:
u + t n(u) = v with n(u) = sign(u) (|u|/s)^(p-1), s = ||u||_p, gives du = J (dv - n dt) with

    J^-1 = diag(1 + rho |x/a|) - rho n n^T,    a = |u|/s, x = |n|, rho = (p-1) t/s

which is inverted by the formula of Sherman and Morrison. J is symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from proxlin.prox.coordinate_equation import (
    CoordinateSolver,
    LogSolver,
    NormTrial,
    PowerSums,
    QuadraticSolver,
)
from proxlin.prox.norms import norm

_BLOCK = 1 << 19  # numbers per block: the buffers of a block stay in a processor's cache
_STEEP = 10.0  # a power of u beyond this multiplies its rounding; y then is the better source
_MAX_TRIALS = 100
_SHARED_TRIALS = 4  # after so many, vectors that still move are taken out of their block


def split(v: Tensor, t: Tensor, *, p: float, dual: bool) -> Tensor:
    """u, or y if `dual`, for each row of v (rows, n); t is (rows, 1); 1 < p < inf, p != 2."""
    part = torch.empty_like(v)
    rows, size = v.shape
    if part.numel() == 0:
        return part
    block = min(rows, max(1, _BLOCK // size)) if v.device.type == "cpu" else rows
    solver = QuadraticSolver if p in (1.5, 3.0) else LogSolver
    buffers = [torch.empty_like(v[:block]) for _ in range(solver.buffers)]
    for first in range(0, rows, block):
        here = slice(first, first + block)
        space = [buffer[: len(v[here])] for buffer in buffers]
        again = _split_rows(v[here], t[here], space, p=p, dual=dual, out=part[here])
        if again is not None:
            part[here][again] = split(v[here][again], t[here][again], p=p, dual=dual)
    return part


def _split_rows(
    v: Tensor, t: Tensor, space: Sequence[Tensor], *, p: float, dual: bool, out: Tensor
) -> Tensor | None:
    """Fill `out`; return which rows are better off in a block of their own, if any."""
    w = torch.abs(v, out=space[0])
    scale = w.amax(-1, keepdim=True)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    w.div_(scale)
    radius = t / scale
    solver: CoordinateSolver = (QuadraticSolver if p in (1.5, 3.0) else LogSolver)(
        w, radius, space[1:], p=p
    )
    sums = solver.power_sums()
    r = p / (p - 1.0)
    norm_p, norm_r = sums.p ** (1.0 / p), sums.r ** (1.0 / r)
    # A radius below the smallest normal number cannot move a vector whose maximum is 1.
    untouched, swallowed = radius < torch.finfo(w.dtype).tiny, norm_r <= radius
    broken = ~(torch.isfinite(norm_r) & (radius >= 0))
    easy = (untouched | swallowed | broken).squeeze(-1)
    if bool(easy.any()):
        keep = (swallowed == dual).to(v.dtype).masked_fill_(broken, torch.nan)
        torch.mul(v, keep, out=out)
        return None if bool(easy.all()) else ~easy
    start = _guess(sums, radius, norm_p, norm_r, p=p)
    s, moving = _root(solver, start, norm_p, p=p)
    torch.mul(solver.fraction(s, dual=dual), v, out=out)
    if dual and isinstance(solver, LogSolver):
        # Logarithms of extreme radii leave a few roundings too many; a ball wants its radius.
        length = norm(out, p=r).unsqueeze(-1)
        out.mul_(torch.where(length > 0, t / length, torch.ones_like(length)))
    return moving


def _guess(sums: PowerSums, radius: Tensor, norm_p: Tensor, norm_r: Tensor, *, p: float) -> Tensor:
    """s as a function of the radius, drawn through its values and slopes at 0 and ||w||_r."""
    r = p / (p - 1.0)
    x = radius / norm_r
    first = sums.p_steep / sums.p ** (2.0 - 2.0 / p) * (norm_r / norm_p)
    last = sums.r_steep / sums.r ** (2.0 - 2.0 / r) * (norm_p / norm_r)
    bow = (last - 1.0).clamp_min(0.0) * x + (first - 1.0).clamp_min(0.0) * (1.0 - x)
    return norm_p * ((1.0 - x) / (1.0 + x * bow)).clamp_min(torch.finfo(x.dtype).eps)


def _root(
    solver: CoordinateSolver, s: Tensor, norm_p: Tensor, *, p: float
) -> tuple[Tensor, Tensor | None]:
    """The root of K(s) = 1 of every row, and the few rows that were given up, if any."""
    eps = torch.finfo(s.dtype).eps
    # Coordinates answer to a change of s of relative size 1/(p-1) when p is large.
    near, rounding = eps ** (1 / 3) / max(1.0, p - 1.0), 8.0 * eps * norm_p
    low, high = torch.zeros_like(s), 1.001 * norm_p
    for trial in range(_MAX_TRIALS):
        total, step = _fit(solver.trial(s), p=p)
        step = step * s
        if solver.settled:
            low = torch.where(total > 1.0, s, low)
            high = torch.where(total < 1.0, s, high)
        # Order three: a step of eps^(1/3) is followed by one of eps.
        limit = torch.maximum(near * s, rounding)
        moving = ~((step.abs() <= limit) | (high - low <= rounding))
        following = torch.maximum(s + step, 0.125 * s)
        lost = torch.isnan(following) | (moving & ((following <= low) | (following >= high)))
        s = torch.where(lost, 0.5 * (low + high), following)
        if not solver.settled:
            continue
        count = int(moving.sum())
        if count == 0:
            return s, None
        if trial >= _SHARED_TRIALS and 2 * count < len(s):
            return s, moving.squeeze(-1)
    return s, None


def _fit(trial: NormTrial, *, p: float) -> tuple[Tensor, Tensor]:
    """K, and the relative change of s at which K^beta, drawn as a straight line, is 1."""
    a = min(p - 1.0, 1.0 / (p - 1.0))
    b = 1.0 - a
    weight, scale, rate, rate_scale = trial
    m0 = weight.sum(-1, keepdim=True) * scale
    m1 = weight.mul_(rate).sum(-1, keepdim=True) * (scale := scale * rate_scale)
    m2 = weight.mul_(rate).sum(-1, keepdim=True) * (scale := scale * rate_scale)
    m3 = weight.mul_(rate).sum(-1, keepdim=True) * (scale * rate_scale)
    # d rate / d log(s) is a cubic polynomial of the rate itself.
    drift = m1 - (1 + b) * m2 + b * m3 if p < 2 else m1 + (b - a) * m2 - a * b * m3
    slope = -(1 + a) * m1  # s K'(s)
    bend = (1 + a) ** 2 * m2 - (1 + a) * drift - slope  # s^2 K''(s)
    beta = 1.0 - m0 * bend / (slope * slope)
    log = m0.log()
    x = -beta * log
    growth = torch.where(x == 0, torch.ones_like(x), torch.expm1(x) / x)
    return m0, -log * growth * m0 / slope


class MoreauSplit(torch.autograd.Function):
    """u, or y if `dual`, of v = u + y; arguments as of `split`."""

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
