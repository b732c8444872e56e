"""Many small quadratic problems of one size at once, free or over u >= 0."""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDS = 30  # of coordinate descent and face steps; rows that need more are rare and stay feasible
_PASSES = 2  # of coordinate descent before the face steps


def weighted_grams(weights: Tensor, basis: Tensor) -> Tensor:
    """(B, r, r): sum_j w_ij v_j v_j^T for each row i of `weights` (B, m), `basis` (r, m).

    One matrix product with the distinct products of basis rows instead of B small ones.
    """
    return full_matrices(weights @ distinct_products(basis), len(basis))


def distinct_products(basis: Tensor) -> Tensor:
    """(m, r (r + 1) / 2): v_kj v_lj for k <= l."""
    upper, lower = torch.triu_indices(len(basis), len(basis), device=basis.device)
    return (basis[upper] * basis[lower]).T


def full_matrices(packed: Tensor, rank: int) -> Tensor:
    """The symmetric matrices (B, r, r) whose upper triangles are `packed` row by row."""
    upper, lower = torch.triu_indices(rank, rank, device=packed.device)
    place = torch.empty(rank, rank, dtype=torch.long, device=packed.device)
    numbers = torch.arange(len(upper), device=packed.device)
    place[upper, lower] = numbers
    place[lower, upper] = numbers
    return packed[:, place.flatten()].view(-1, rank, rank)


def minimize_quadratics(
    grams: Tensor, linear: Tensor, start: Tensor, *, non_negative: bool
) -> Tensor:
    """argmin_u 1/2 u^T A u - b^T u, over u >= 0 if asked, for each A (B, r, r) and b (B, r).

    A is semi-definite; where it is singular the answer stays near `start` (B, r) in the directions
    that A does not see. Entries at the bound are exactly 0.
    """
    rank = grams.shape[-1]
    diagonal = grams.diagonal(dim1=-2, dim2=-1)
    size = diagonal.amax(-1, keepdim=True)
    # A proximal term far below the rounding of A's largest entries: no factor breaks down.
    damping = size * (8 * rank * torch.finfo(grams.dtype).eps)
    damping = torch.where(size > 0, damping, torch.ones_like(size))
    damped = grams + torch.diag_embed(damping.expand(-1, rank))
    right = linear + damping * start
    if not non_negative:
        return _solve(damped, right)
    return _non_negative(damped, right, start)


def _solve(grams: Tensor, right: Tensor) -> Tensor:
    """A^-1 b for each; A^+ b where rounding has left A indefinite."""
    factor, failed = torch.linalg.cholesky_ex(grams)
    solution = torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
    bad = (failed != 0) | ~torch.isfinite(solution).all(-1)
    if bool(bad.any()):
        pseudo = torch.linalg.pinv(grams[bad], hermitian=True)
        solution[bad] = (pseudo @ right[bad].unsqueeze(-1)).squeeze(-1)
    return solution


def _non_negative(grams: Tensor, right: Tensor, start: Tensor) -> Tensor:
    """Coordinate descent finds which entries are 0, solves on the others finish exactly.

    Both only ever lower the quadratic: a face step that would leave u >= 0 stops at the border,
    and the next one goes on without the entry that met it. A round thus ends at the minimiser of
    its face, and no face comes twice.
    """
    answer = start.clone()
    rows = torch.arange(len(start), device=start.device)
    tolerance = 64 * torch.finfo(grams.dtype).eps
    for _ in range(_ROUNDS):
        a, b, u = grams[rows], right[rows], answer[rows]
        u = _coordinate_passes(a, b, u)
        for _ in range(u.shape[-1]):
            free = u > 0
            u = _face_step(a, b, u)
            if not bool((free & (u == 0)).any()):
                break
        answer[rows] = u
        slope = (a @ u.unsqueeze(-1)).squeeze(-1) - b
        missing = torch.where(u > 0, slope.abs(), (-slope).clamp(min=0))
        scale = b.abs().amax(-1) + (a.abs().amax((-2, -1)) * u.abs().amax(-1))
        rows = rows[missing.amax(-1) > tolerance * scale]
        if len(rows) == 0:
            break
    return answer


def _coordinate_passes(a: Tensor, b: Tensor, u: Tensor) -> Tensor:
    """`_PASSES` rounds of exact minimisation over one entry at a time, every row in step."""
    columns = list(u.unbind(-1))
    by_entry = a.transpose(0, 1).contiguous()  # (r, B, r): the k-th rows of all matrices together
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    u = u.clone()
    for _ in range(_PASSES):
        for k in range(len(columns)):
            slope = (by_entry[k] * u).sum(-1) - b[:, k]
            u[:, k] = (u[:, k] - slope / diagonal[:, k]).clamp(min=0)
    return u


def _face_step(a: Tensor, b: Tensor, u: Tensor) -> Tensor:
    """Towards the minimiser over the entries that are not 0, as far as they stay >= 0."""
    free = (u > 0).to(a.dtype)
    masked = a * free.unsqueeze(-1) * free.unsqueeze(-2) + torch.diag_embed(1 - free)
    target = _solve(masked, b * free) * free
    towards = target - u
    inside = torch.where(
        towards < 0, u / (-towards).clamp(min=torch.finfo(u.dtype).tiny), torch.inf
    )
    share = inside.amin(-1, keepdim=True).clamp(max=1.0)
    moved = (u + share * towards).clamp(min=0)
    # The entry that meets the border is 0 exactly, whatever rounding left of it.
    moved = torch.where((inside <= share) & (share < 1), torch.zeros_like(moved), moved)
    return torch.where(share >= 1, target.clamp(min=0), moved)
