"""The embedding of rows with the basis fixed: a convex problem for each row, solved and proved."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.exact.factorize.absolute import least_absolute, lower_bound
from proxlin.exact.factorize.cells import Cells
from proxlin.exact.factorize.row_norm import RowNorm, observed_part

TOLERANCE = 1e-8  # relative duality gap of every row
_EXACT = 1e-5  # of a row's norm: a smaller loss counts as one of this size
_SHRINK = 0.6  # of the floor under residuals from step to step


@dataclass(frozen=True)
class Embedding:
    """U with the loss of every row and how far at most it is from the least one."""

    u: Tensor  # (n, r)
    losses: Tensor  # (n,) ||observed_i * (u_i V - x_i)||_p, float64
    gaps: Tensor  # (n,) loss plus penalty minus a lower bound of its least value, float64
    unsolved: Tensor  # (n,) whether the gap exceeds twice the tolerance, of ||x_i||_p


def embed(cells: Cells, basis: Tensor, norm: RowNorm, *, max_steps: int = 300) -> Embedding:
    """argmin_u ||observed_i * (u V - x_i)||_p + alpha/2 ||u||^2 for each row, u >= 0 if asked.

    Rows stop when their duality gap is at most 1e-8 of their loss; those that run out of
    steps before are `unsolved`. Work is in float64, chunk by chunk.
    """
    n = len(cells.values)
    v = basis.double()
    u = basis.new_empty(n, len(basis))
    losses = torch.empty(n, dtype=torch.float64, device=basis.device)
    gaps = torch.empty_like(losses)
    unsolved = torch.empty_like(losses, dtype=torch.bool)
    for rows, x, observed in cells.chunks(len(basis)):
        mask = None if observed is None else observed.double()
        if norm.p == 1:
            solution, bound = _absolute(x.double(), mask, v, norm)
        else:
            solution, bound = _weighted(x.double(), mask, v, norm, max_steps)
        u[rows] = solution.to(u.dtype)
        losses[rows] = norm.losses(observed_part(solution @ v - x.double(), mask))
        gaps[rows] = losses[rows] + norm.penalty(solution) - bound
        # Against the norm and not the loss: bounds of rows that almost fit are rounded most.
        unsolved[rows] = ~(gaps[rows] <= 2 * TOLERANCE * norm.losses(x.double()))
    return Embedding(u, losses, gaps, unsolved)


def _absolute(
    x: Tensor, observed: Tensor | None, v: Tensor, norm: RowNorm
) -> tuple[Tensor, Tensor]:
    u, y = least_absolute(
        x, observed, v, alpha=norm.alpha, non_negative=norm.non_negative, tolerance=TOLERANCE
    )
    bound = lower_bound(x, y, u, v, alpha=norm.alpha, non_negative=norm.non_negative)
    return u, bound.clamp(min=0)


def _weighted(
    x: Tensor, observed: Tensor | None, v: Tensor, norm: RowNorm, max_steps: int
) -> tuple[Tensor, Tensor]:
    """Majorise-minimise from least squares on, the floor under residuals falling geometrically."""
    u = x.new_zeros(len(x), len(v))
    bound = x.new_zeros(len(x))  # no loss lies below 0, and that of a row that fits reaches it
    size = norm.losses(x)
    residual, weights = -x, torch.ones_like(x[:, :1])
    floor = torch.zeros_like(size)
    active = torch.arange(len(x), device=x.device)
    for step in range(max_steps):
        rows, mask = x[active], None if observed is None else observed[active]
        solution, residual, below = norm.step(
            rows, mask, v, u[active], residual=residual, weights=weights, bounded=True
        )
        assert below is not None
        u[active] = solution
        losses = norm.losses(residual)
        bound[active] = torch.maximum(bound[active], below)
        gap = losses + norm.penalty(solution) - bound[active]
        if step == 0:
            floor = residual.abs().mean(-1) if norm.p < 2 else 1e-12 * size
        going = gap > TOLERANCE * torch.maximum(losses, _EXACT * size[active])
        if not bool(going.any()):
            break
        active, floor, residual = active[going], _SHRINK * floor[going], residual[going]
        weights = norm.weights(residual, floor)
    return u, bound
