"""The loss of one row: ||r||_p, or ||r||_2^2 for the smooth baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from proxlin._checks import check_exponent
from proxlin.errors import InvalidInputError
from proxlin.prox import norm, norm_subgradient

Exponent = float | Literal["mse"]

_STEEPEST = 8.0  # larger exponents have this one's curvature: theirs is all in their few kinks


@dataclass(frozen=True)
class RowLoss:
    """r -> ||r||_p for p in [1, inf], or r -> ||r||_2^2 for p = "mse"."""

    p: Exponent

    def __post_init__(self) -> None:
        if self.p == "mse":
            return
        if isinstance(self.p, str):
            raise InvalidInputError(f'p must be a number >= 1, inf or "mse"; got {self.p!r}.')
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

    def curvature_weights(
        self, residual: Tensor, floor: float, mean_size: Tensor | None = None
    ) -> Tensor:
        """Weights w with diag(w) at least the curvature of the loss in r.

        For 1 <= p <= 2 it is w = (|r| / ||r||_p)^(p-2) / ||r||_p: the quadratic with the loss's
        slope at r and this curvature majorises the loss. For p > 2 it is p - 1 times that, the
        Hessian without its negative rank-one part, and for p > 8 that of p = 8. Entries below
        `floor` times the mean |r| of all rows count as that: where |r| -> 0 the weights of p < 2
        grow without bound. That mean is given where other processes hold some of the rows.
        """
        if self.p == "mse":
            return torch.full_like(residual, 2.0)
        p = min(float(self.p), _STEEPEST)
        size = residual.abs()
        mean_size = size.mean() if mean_size is None else mean_size
        least = (floor * mean_size).clamp_min(torch.finfo(size.dtype).tiny ** 0.5)
        size = size.clamp_min(least)
        length = norm(size, p=p).unsqueeze(-1)
        if p == 2.0:
            return (1.0 / length).expand_as(size)
        return max(1.0, p - 1.0) * (size / length).pow(p - 2.0) / length

    def quadratic(
        self, residual: Tensor, floor: float, mean_size: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Slope and weights of the quadratic model at r, both (B, N); see `curvature_weights`.

        For p <= 2 the slope is w * r, that of the loss with its kinks rounded off below the floor:
        a step is not led by the sign of a residual that is as good as zero.
        """
        weights = self.curvature_weights(residual, floor, mean_size)
        if self.p == "mse" or float(self.p) > 2.0:
            return self.value_and_slope(residual)[1], weights
        return weights * residual, weights
