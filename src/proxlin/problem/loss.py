"""The loss of one row: ||r||_p, ||r||_2^2 for the smooth baseline, or the pinball loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from proxlin._checks import check_exponent, check_open_interval, shown
from proxlin.errors import InvalidInputError
from proxlin.prox import norm, norm_subgradient, prox_norm

Exponent = float | Literal["mse"]

_STEEPEST = 8.0  # larger exponents have this one's curvature: theirs is all in their few kinks


@dataclass(frozen=True)
class RowLoss:
    """r -> ||r||_p for p in [1, inf], or r -> ||r||_2^2 for p = "mse"."""

    p: Exponent

    def __post_init__(self) -> None:
        if isinstance(self.p, str):
            if self.p == "mse":
                return
            hint = " Write float('inf')." if self.p == "inf" else ""
            raise InvalidInputError(
                f'p must be a number >= 1, inf or "mse"; got {shown(self.p)}.{hint}'
            )
        if isinstance(self.p, Tensor):
            raise InvalidInputError(
                "p must be an exponent; got a tensor. Targets are part of the data:"
                " Problem(module, (x, y))."
            )
        object.__setattr__(self, "p", check_exponent("p", self.p))

    def __call__(self, residual: Tensor) -> Tensor:
        """The loss of each row of `residual` (..., N), shape (...)."""
        if self.p == "mse":
            return residual.square().sum(-1)
        return norm(residual, p=float(self.p))

    def value_and_slope(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each row, (B,), and one sub-gradient of it in r, (B, N); 0 at a kink."""
        if self.p == "mse":
            return residual.square().sum(-1), 2 * residual
        p = float(self.p)
        return norm(residual, p=p), norm_subgradient(residual, p=p)

    @property
    def bounded_slope(self) -> bool:
        """Whether the slope is bounded, so that rows far off pull no harder than others."""
        return self.p != "mse"

    def curvature_weights(self, residual: Tensor, least: Tensor) -> Tensor:
        """Weights w with diag(w) at least the curvature of the loss in r.

        For 1 <= p <= 2 it is w = (|r| / ||r||_p)^(p-2) / ||r||_p: the quadratic with the loss's
        slope at r and this curvature majorises the loss. For p > 2 it is p - 1 times that, the
        Hessian without its negative rank-one part, and for p > 8 that of p = 8. Entries |r| below
        `least` count as that: where |r| -> 0 the weights of p < 2 grow without bound.
        """
        if self.p == "mse":
            return torch.full_like(residual, 2.0)
        p = min(float(self.p), _STEEPEST)
        size = residual.abs()
        tiny = torch.finfo(size.dtype).tiny
        size = size.clamp_min(least.to(size).clamp_min(tiny**0.5))
        if p == 1.0:
            return size.reciprocal()
        length = norm(size, p=p).unsqueeze(-1)
        if p == 2.0:
            return (1.0 / length).expand_as(size)
        return max(1.0, p - 1.0) * (size / length).clamp_min(tiny).pow(p - 2.0) / length

    def slope(self, residual: Tensor) -> Tensor:
        """One sub-gradient of the norm in r, (B, N); 0 at a kink."""
        return norm_subgradient(residual, p=float(self.p))

    def prox(self, v: Tensor, step: float | Tensor) -> Tensor:
        """argmin_u step * ||u||_p + 1/2 ||u - v||_2^2, for each row of v (..., N)."""
        return prox_norm(v, p=float(self.p), step=step)

    def quadratic(self, residual: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
        """Slope and weights of the quadratic model at r, both (B, N); see `curvature_weights`.

        For p <= 2 the slope is w * r, that of the loss with its kinks rounded off below `least`:
        a step is not led by the sign of a residual that is as good as zero.
        """
        weights = self.curvature_weights(residual, least)
        if self.p == "mse" or float(self.p) > 2.0:
            return self.value_and_slope(residual)[1], weights
        return weights * residual, weights


@dataclass(frozen=True)
class Redescending(RowLoss):
    """r -> k atan(||r||_p / k), k = `limit`: the norm near 0, at most k pi / 2 far out.

    Beyond k the pull of a row falls with the square of its distance, yet never to nothing: many
    rows that agree can still draw a fit to them. Not convex, so that it has no proximal operator of
    use. It is concave in the norm: the norm's majorising quadratic, times the pull, majorises it.
    """

    limit: float

    def __call__(self, residual: Tensor) -> Tensor:
        """The loss of each row of `residual` (..., N), shape (...)."""
        return self.limit * torch.atan(super().__call__(residual) / self.limit)

    def value_and_slope(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each row, (B,), and one sub-gradient of it in r, (B, N); 0 at a kink."""
        norms, slope = super().value_and_slope(residual)
        return self(residual), redescending_weight(norms / self.limit).unsqueeze(-1) * slope

    def curvature_weights(self, residual: Tensor, least: Tensor) -> Tensor:
        """Those of the norm times the pull."""
        strength = redescending_weight(super().__call__(residual) / self.limit)
        return strength.unsqueeze(-1) * super().curvature_weights(residual, least)


def redescending_weight(u: Tensor) -> Tensor:
    """1 / (1 + u^2), the slope of atan."""
    return 1.0 / (1.0 + u.square())


@dataclass(frozen=True)
class Pinball:
    """r -> sum_j (1 - tau) r_j+ + tau r_j-, r = prediction - target: least at the tau-quantile.

    An asymmetric gauge, half of ||r||_1 at tau = 0.5. Several levels stand for the outputs one by
    one: `Pinball((0.1, 0.9))` for a net with two outputs.

    >>> Pinball(0.9)(torch.tensor([[1.0], [-1.0]]))  # too high by 1, too low by 1
    tensor([0.1000, 0.9000])
    """

    bounded_slope = True
    tau: float | tuple[float, ...]
    p: Literal["pinball"] = field(default="pinball", init=False, repr=False)

    def __post_init__(self) -> None:
        levels = self.tau if isinstance(self.tau, tuple | list) else (self.tau,)
        if not levels:
            raise InvalidInputError("Pinball(tau=...) must hold a level; got none.")
        for level in levels:
            check_open_interval("Pinball(tau=...)", level, 0, 1)
        if isinstance(self.tau, list):
            object.__setattr__(self, "tau", tuple(self.tau))

    def levels(self, residual: Tensor) -> Tensor:
        """tau as a tensor that goes with the rows of `residual` (..., N)."""
        tau = residual.new_tensor(self.tau)
        if tau.dim() and len(tau) != residual.shape[-1]:
            raise InvalidInputError(
                "Pinball(tau=...) must hold one level for each of the"
                f" {residual.shape[-1]} outputs; got {len(tau)}."
            )
        return tau

    def __call__(self, residual: Tensor) -> Tensor:
        """The loss of each row of `residual` (..., N), shape (...)."""
        tau = self.levels(residual)
        return torch.maximum((1.0 - tau) * residual, -tau * residual).sum(-1)

    def slope(self, residual: Tensor) -> Tensor:
        """One sub-gradient of the loss in r, (B, N); 0 at the kink."""
        tau = self.levels(residual)
        return torch.where(residual > 0, 1.0 - tau, torch.where(residual < 0, -tau, 0.0))

    def value_and_slope(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each row, (B,), and one sub-gradient of it in r, (B, N); 0 at the kink."""
        return self(residual), self.slope(residual)

    def curvature_weights(self, residual: Tensor, least: Tensor) -> Tensor:
        """Half of those of the l1 norm: the loss is |r|/2 + (1/2 - tau) r."""
        return 0.5 * RowLoss(1.0).curvature_weights(residual, least)

    def quadratic(self, residual: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
        """Slope and weights of the quadratic that majorises the loss at r, both (B, N)."""
        weights = self.curvature_weights(residual, least)
        return weights * residual + (0.5 - self.levels(residual)), weights

    def prox(self, v: Tensor, step: float | Tensor) -> Tensor:
        """argmin_u step * loss(u) + 1/2 ||u - v||_2^2, for each row of v (..., N)."""
        tau = self.levels(v)
        step = step.unsqueeze(-1) if isinstance(step, Tensor) and step.dim() else step
        return v - torch.clamp(v, -tau * step, (1.0 - tau) * step)


def loss_change(loss: RowLoss | Pinball, residual: Tensor, shift: Tensor) -> Tensor:
    """loss(r + shift) - loss(r) of each row, (B,); by the slope where the shift is tiny."""
    losses, slope = loss.value_and_slope(residual)
    shifted = loss(residual + shift) - losses
    length, size = (
        torch.linalg.vector_norm(shift, dim=-1),
        torch.linalg.vector_norm(residual, dim=-1),
    )
    tiny = length <= torch.finfo(shift.dtype).eps ** 0.5 * size
    return torch.where(tiny, (slope * shift).sum(-1), shifted)


def check_pinball(loss: Any) -> Pinball:
    """Return `loss` if it is a `Pinball`."""
    if not isinstance(loss, Pinball):
        raise InvalidInputError(
            f"loss must be such as Pinball(0.9); got {loss!r}. Norms are chosen by p."
        )
    return loss
