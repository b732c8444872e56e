"""What linearisation needs of a problem."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from proxlin.problem.rows import Batch
from proxlin.terms.layout import Layout


class Differentiable(Protocol):
    """F: theta -> one residual row for each sample, as a pure function of theta."""

    @property
    def layout(self) -> Layout:
        """The order of the trainable parameters in theta."""
        ...

    @property
    def network(self) -> nn.Module:
        """The module that `residual` evaluates, in eval mode."""
        ...

    @property
    def affine_in_output(self) -> bool:
        """Whether residual(theta, batch) = (network(batch[0]) - constant).flatten(1)."""
        ...

    def residual(self, theta: Tensor, batch: Batch) -> Tensor:
        """F(theta; batch), shape (B, N); row i depends on sample i only."""
        ...
