"""A convex model given by its Jacobian: what solvers see, without a network behind it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.methods.subproblem.metric import Euclidean, Metric
from proxlin.problem.loss import RowLoss
from proxlin.prox import norm
from proxlin.terms import Penalty
from proxlin.terms.layout import Layout

# Two parameters, so that there is something to tie and a matrix to group.
LAYOUT = Layout(("first", "second"), ((2, 3), (2, 3)))


@dataclass(frozen=True)
class LinearRows:
    """F + J (theta - anchor) for some rows."""

    residual: Tensor  # (B, N)
    jacobian: Tensor  # (B, N, d)

    def apply(self, direction: Tensor) -> Tensor:
        return self.jacobian @ direction

    def adjoint(self, rows: Tensor) -> Tensor:
        return torch.einsum("bn,bnd->d", rows, self.jacobian)

    def rows(self) -> Tensor:
        return self.jacobian


@dataclass(frozen=True)
class LinearModel:
    """The members of ConvexModel that solvers use."""

    jacobian: Tensor  # (n, N, d)
    residual: Tensor  # (n, N)
    anchor: Tensor  # (d,)
    p: float
    penalty: Penalty
    metric: Metric

    @property
    def loss(self) -> RowLoss:
        return RowLoss(self.p)

    @property
    def n_rows(self) -> int:
        return len(self.residual)

    def sample(self, size: int, generator: torch.Generator) -> Tensor:
        return torch.randint(self.n_rows, (size,), generator=generator)

    def linearization(self, index: Tensor | None = None) -> LinearRows:
        where = slice(None) if index is None else index
        return LinearRows(self.residual[where], self.jacobian[where])

    def value(self, theta: Tensor, index: Tensor | None = None) -> float:
        rows = self.linearization(index)
        loss = norm(rows.residual + rows.apply(theta - self.anchor), p=self.p).mean()
        distance = self.metric.distance(theta, self.anchor)
        return float(loss + self.penalty.value(theta) + distance)


def random_model(
    seed: int = 0,
    *,
    p: float = 2.0,
    rows: int = 12,
    outputs: int = 3,
    layout: Layout = LAYOUT,
    penalty: Penalty | None = None,
    metric: Metric | None = None,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> LinearModel:
    """Gaussian J and F; the anchor is drawn too and put into C."""
    generator = torch.Generator().manual_seed(seed)
    penalty = penalty or Penalty(layout)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    jacobian = draw(rows, outputs, layout.size)
    residual = 3 * draw(rows, outputs)
    anchor = penalty.project(scale * draw(layout.size))
    return LinearModel(jacobian, residual, anchor, p, penalty, metric or Euclidean())
