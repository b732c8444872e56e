"""g and C in the coordinates of the linear solver: a quadratic part, and a rest that is split off.

The rest h is replaced by its envelope min_c h(c) + rho/2 ||c - theta - dual/rho||^2. Its gradient D
is a sub-gradient of h at c, so that h*(D) = <D, c> - h(c) is known without any conjugate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from proxlin.exact.linear.coordinates import Coordinates
from proxlin.prox import norm, prox_norm
from proxlin.terms.joint import Coefficients, add_up
from proxlin.terms.penalty import Penalty
from proxlin.terms.pieces import Coupled, Piece, Separable


@dataclass(frozen=True)
class PenaltyHessian:
    """A generalised Hessian on (m, t): diag(diagonal) - sum_i rows_i rows_i^T + matrix."""

    diagonal: Tensor  # (m, t)
    rows: Tensor | None = None  # (m, t) a rank-one part within each row
    matrix: Tensor | None = None  # (m t, m t) anything else, row by row

    def __matmul__(self, direction: Tensor) -> Tensor:
        """The product with a direction (m, t)."""
        product = self.diagonal * direction
        if self.rows is not None:
            product -= self.rows * (self.rows * direction).sum(1, keepdim=True)
        if self.matrix is not None:
            product += (self.matrix @ direction.reshape(-1)).reshape(direction.shape)
        return product


class SplitPenalty(Protocol):
    """h(theta), convex, on the penalised rows of theta (m, t)."""

    separable: bool

    def split(self, theta: Tensor, dual: Tensor, rho: float) -> tuple[Tensor, Tensor]:
        """The minimiser c of the envelope, and the envelope's gradient D."""

    def curvature(self, theta: Tensor, dual: Tensor, rho: float) -> PenaltyHessian:
        """Generalised Hessian of the envelope."""

    def value(self, c: Tensor) -> Tensor:
        """h(c) for c in C: (t,) if separable, else (1,)."""

    def excess(self, pull: Tensor) -> Tensor:
        """The least f with h*(pull / f) = 0: (t,) if separable, else (1,); inf if not known."""


@dataclass(frozen=True)
class EntrywisePenalty:
    """sum_ij l1_ij |c_ij|, low_ij <= c_ij <= high_ij."""

    l1: Tensor
    low: Tensor
    high: Tensor
    separable = True

    def split(self, theta: Tensor, dual: Tensor, rho: float) -> tuple[Tensor, Tensor]:
        """Soft-threshold, then clip."""
        v = theta + dual / rho
        step = self.l1 / rho
        c = torch.minimum(torch.maximum(v - v.clamp(-step, step), self.low), self.high)
        return c, rho * (v - c)

    def curvature(self, theta: Tensor, dual: Tensor, rho: float) -> PenaltyHessian:
        """Rho where c does not move with theta, else 0."""
        c, _ = self.split(theta, dual, rho)
        kink = (c == 0) & (self.l1 > 0)
        return PenaltyHessian(rho * (kink | (c == self.low) | (c == self.high)).to(theta.dtype))

    def value(self, c: Tensor) -> Tensor:
        """sum_i l1_ij |c_ij|."""
        return (self.l1 * c.abs()).sum(0)

    def excess(self, pull: Tensor) -> Tensor:
        """max_i |pull_ij| / l1_ij, where the interval leaves room on that side of zero."""
        up = torch.where(self.high > 0, pull, 0.0)
        down = torch.where(self.low < 0, -pull, 0.0)
        inside = (self.low <= 0) & (self.high >= 0)
        share = torch.maximum(up, down).clamp(min=0.0) / self.l1
        return torch.where(inside, share, math.inf).nan_to_num(0.0, math.inf).amax(0)


@dataclass(frozen=True)
class RowGroups:
    """sum_i weight_i ||c_i||_2 over the rows of c."""

    weight: Tensor  # (m,)
    separable = False

    def split(self, theta: Tensor, dual: Tensor, rho: float) -> tuple[Tensor, Tensor]:
        """Shrink each row."""
        v = theta + dual / rho
        c = prox_norm(v, p=2, step=self.weight / rho)
        return c, rho * (v - c)

    def curvature(self, theta: Tensor, dual: Tensor, rho: float) -> PenaltyHessian:
        """Rho at rows that are zero, rho s/|v| (I - v v^T/|v|^2) at the others, s = weight/rho."""
        v = theta + dual / rho
        length = norm(v, p=2)
        zero = length * rho <= self.weight
        length = torch.where(zero, 1.0, length)
        share = torch.where(zero, rho, self.weight / length)[:, None]
        along = torch.where(zero, 0.0, (self.weight / length).sqrt() / length)[:, None]
        return PenaltyHessian(share.expand_as(v), along * v)

    def value(self, c: Tensor) -> Tensor:
        """The weighted l2,1 norm."""
        return (self.weight @ norm(c, p=2)).reshape(1)

    def excess(self, pull: Tensor) -> Tensor:
        """max_i ||pull_i||_2 / weight_i."""
        return (norm(pull, p=2) / self.weight).nan_to_num(0.0, math.inf).amax().reshape(1)


@dataclass(frozen=True)
class AnyPenalty:
    """h(S theta) / unit for any `Penalty` h on the coefficients B = S theta."""

    penalty: Penalty
    spread: Tensor  # (m, t) S
    unit: float
    separable = False

    def split(self, theta: Tensor, dual: Tensor, rho: float) -> tuple[Tensor, Tensor]:
        """The prox in the units of B, where all entries share one step."""
        v, own = self._anchor(theta, dual, rho)
        c = self.penalty.prox(v.reshape(-1), 1.0 / (own * self.unit)).reshape(v.shape)
        return c / self.spread, self.spread * own * (v - c)

    def curvature(self, theta: Tensor, dual: Tensor, rho: float) -> PenaltyHessian:
        """rho S (I - J) S with the derivative J of the prox."""
        v, own = self._anchor(theta, dual, rho)
        jacobian = _jacobian(self.penalty, v.reshape(-1), 1.0 / (own * self.unit))
        s = self.spread.reshape(-1)
        part = torch.eye(len(s), dtype=s.dtype) - (jacobian + jacobian.T) / 2
        return PenaltyHessian(torch.zeros_like(theta), matrix=own * s[:, None] * part * s)

    def value(self, c: Tensor) -> Tensor:
        """h(S c) / unit."""
        return self.penalty.value((self.spread * c).reshape(-1)).reshape(1) / self.unit

    def excess(self, pull: Tensor) -> Tensor:
        """Not known for penalties in general."""
        return pull.new_full((1,), math.inf)

    def _anchor(self, theta: Tensor, dual: Tensor, rho: float) -> tuple[Tensor, float]:
        # One parameter for all entries: rho for a typical one in the units of theta.
        own = rho / float(self.spread.log().mul(2).mean().exp())
        return self.spread * theta + dual / (self.spread * own), own


def _jacobian(penalty: Penalty, v: Tensor, step: float) -> Tensor:
    """The derivative of the prox at v, all rows in one backward pass where torch can batch it."""
    v = v.detach().requires_grad_()
    unit = torch.eye(len(v), dtype=v.dtype)
    with torch.enable_grad():
        image = penalty.prox(v, step)
        if not image.requires_grad:
            return torch.zeros_like(unit)
        try:
            whole: Tensor = torch.autograd.grad(
                image, v, unit, retain_graph=True, is_grads_batched=True
            )[0]
            return whole
        except RuntimeError:  # exponents whose prox has its own derivative are not batched
            rows = [torch.autograd.grad(image, v, row, retain_graph=True)[0] for row in unit]
            return torch.stack(rows)


@dataclass(frozen=True)
class ScaledPenalty:
    """1/2 sum_ij quadratic_ij theta_ij^2 + rest, on the first m rows of theta."""

    quadratic: Tensor  # (m, t)
    rest: SplitPenalty | None

    @property
    def rows(self) -> int:
        """How many rows of theta are charged for; the intercept is not."""
        return len(self.quadratic)


def is_separable(penalty: Penalty) -> bool:
    """Whether the penalty is a sum over single coefficients."""
    return all(isinstance(piece, Separable) for piece in penalty.pieces)


def scaled_penalty(penalty: Penalty, where: Coordinates, unit: Tensor) -> ScaledPenalty:
    """The penalty on theta, divided by the unit (t,) of the objective."""
    m, t = len(where.size), len(where.scale)
    pieces = penalty.pieces
    if not pieces:
        return ScaledPenalty(where.scale.new_zeros(0, t), None)
    spread = where.scale / where.size[:, None]
    quadratic = penalty.quadratic.reshape(m, t) * spread**2 / unit
    separable = [piece for piece in pieces if isinstance(piece, Separable)]
    coupled = [piece for piece in pieces if not isinstance(piece, Separable)]
    sums = add_up(separable, 1)[0]
    only_quadratic = sums == Coefficients(quadratic=sums.quadratic)
    rest: SplitPenalty | None
    if only_quadratic and not coupled:
        rest = None
    elif not coupled:
        ones = torch.ones_like(spread)
        rest = EntrywisePenalty(
            sums.l1 * spread / unit, sums.low * ones / spread, sums.high * ones / spread
        )
    elif only_quadratic and all(_is_row_groups(piece) for piece in coupled):
        weight = sum(piece.size for piece in coupled if isinstance(piece, Coupled))
        rest = RowGroups(weight * spread[:, 0] / unit[0])
    else:
        rest = AnyPenalty(penalty.rest, spread, float(unit[0]))
    return ScaledPenalty(quadratic, rest)


def _is_row_groups(piece: Piece) -> bool:
    return (
        isinstance(piece, Coupled)
        and (piece.kind, piece.p, piece.groups) == ("norm", 2.0, "rows")
        and not piece.bounds
    )
