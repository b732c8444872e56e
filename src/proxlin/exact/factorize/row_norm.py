"""The loss of one row of residuals, its weights, and a majorise-minimise step for its embedding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin._checks import check_exponent, check_non_negative
from proxlin.errors import InvalidInputError
from proxlin.exact.factorize.absolute import lower_bound
from proxlin.exact.factorize.quadratics import minimize_quadratics, weighted_grams
from proxlin.prox import dual_exponent, norm

_HALVINGS = 8  # of a step that raised the loss, before the row stays where it is


@dataclass(frozen=True)
class RowNorm:
    """u -> ||observed * (u V - x)||_p + alpha/2 ||u||_2^2 for each row, u free or u >= 0."""

    p: float = 1.0
    alpha: float = 0.0
    non_negative: bool = False

    def __post_init__(self) -> None:
        if check_exponent("p", self.p) == math.inf:
            raise InvalidInputError(
                "p must be a finite number >= 1; got inf, where the worst cell of a row is all that"
                " counts. Use p=1 against bad cells or p=2 against bad rows."
            )
        check_non_negative("alpha", self.alpha)

    def losses(self, residual: Tensor) -> Tensor:
        """||r_i||_p for each row (B,); missing cells hold 0."""
        if self.p == 2:
            return residual.square().sum(-1).sqrt()
        return norm(residual, p=self.p)

    def weights(self, residual: Tensor, floor: Tensor) -> Tensor:
        """(|r|/||r||_p)^(p-2) / ||r||_p with |r| and ||r||_p at least `floor` (B,) or ().

        For 1 <= p <= 2 and floor -> 0 half of sum_j w_j r_j^2, plus a constant, lies above the
        loss and touches it. One column for all cells, (B, 1), at p = 2.
        """
        floor = floor.reshape(-1, 1).clamp(min=torch.finfo(residual.dtype).tiny ** 0.25)
        if self.p == 2:
            return 1.0 / torch.maximum(self.losses(residual).unsqueeze(-1), floor)
        size = torch.maximum(residual.abs(), floor)
        if self.p == 1:
            return 1.0 / size
        length = torch.maximum(self.losses(residual).unsqueeze(-1), floor)
        return (size / length) ** (self.p - 2.0) / length

    def penalty(self, u: Tensor) -> Tensor:
        """alpha/2 ||u_i||^2 for each row."""
        return 0.5 * self.alpha * u.square().sum(-1)

    def step(
        self,
        x: Tensor,
        observed: Tensor | None,
        basis: Tensor,
        u: Tensor,
        *,
        residual: Tensor,
        weights: Tensor,
        bounded: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """(u, its residual, if asked a lower bound of each row's least loss): no row's loss rises.

        The weighted least squares answer gives the direction and, its weighted residual y being
        orthogonal to the basis, a dual point: min_u ||u V - x||_p >= -<y, x> once ||y||_q <= 1.
        """
        value = self.losses(residual) + self.penalty(u)
        w = weights.expand_as(x) if observed is None else weights * observed
        grams = weighted_grams(w, basis) if not _alike(w) else _shared_gram(w, basis)
        if self.alpha > 0:
            grams = grams + self.alpha * torch.eye(len(basis), dtype=x.dtype, device=x.device)
        target = minimize_quadratics(grams, (w * x) @ basis.T, u, non_negative=self.non_negative)
        aim = observed_part(target @ basis - x, observed)
        bound = self._lower_bound(x, basis, w * aim, target) if bounded else None
        u, residual = self._descend(u, target, residual, aim, value)
        return u, residual, bound

    def _lower_bound(self, x: Tensor, basis: Tensor, y: Tensor, target: Tensor) -> Tensor:
        length = norm(y, p=dual_exponent(self.p)).unsqueeze(-1)
        if self.alpha == 0:  # any multiple of y is orthogonal to the basis: the longest is best
            y = y / torch.where(length > 0, length, 1.0)
        else:
            y = y / length.clamp(min=1.0)
        return lower_bound(x, y, target, basis, alpha=self.alpha, non_negative=self.non_negative)

    def _descend(
        self, u: Tensor, target: Tensor, residual: Tensor, aim: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The longest of a few steps towards `target` that lowers the loss, row by row."""
        share = torch.full_like(value, 1.0 if self.p <= 2 else 1.0 / (self.p - 1.0))
        for _ in range(_HALVINGS):
            t = share.unsqueeze(-1)
            tried = torch.where(t == 1, target, u + t * (target - u))
            left = torch.where(t == 1, aim, residual + t * (aim - residual))
            worse = ~(self.losses(left) + self.penalty(tried) <= value)
            if not bool(worse.any()):
                return tried, left
            share = torch.where(worse, 0.5 * share, share)
        keep = worse.unsqueeze(-1)
        return torch.where(keep, u, tried), torch.where(keep, residual, left)


def observed_part(residual: Tensor, observed: Tensor | None) -> Tensor:
    """The residual with 0 in the cells that are missing."""
    return residual if observed is None else residual * observed


def _alike(w: Tensor) -> bool:
    """Whether every row has one weight for all its cells and no cell is missing."""
    return w.stride(-1) == 0 and w.shape[-1] > 1


def _shared_gram(w: Tensor, basis: Tensor) -> Tensor:
    return w[:, :1, None] * (basis @ basis.T)
