"""What the probed method needs of a running average of curvature C = E[v v^T]."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Curvature(Protocol):
    """A running average of probes that can be damped, factored and solved with."""

    def add(self, probes: Tensor, weight: float) -> None:
        """C <- (1 - weight) C + weight * mean of v v^T over the probes (K, d)."""
        ...

    def factor(self, damping: float, extra: Tensor) -> None:
        """Renew the factor of A = C + damping * (size of C) I + diag(extra)."""
        ...

    def solve(self, vector: Tensor) -> Tensor:
        """A^{-1} vector, with the latest factor; (d,)."""
        ...

    def quadratic(self, vector: Tensor) -> float:
        """vector^T C vector, with the latest factor's C."""
        ...

    @property
    def costly(self) -> bool:
        """Whether averaging in a probe costs as much as the backward pass that gave it."""
        ...

    @property
    def rows_of_a_solve(self) -> int:
        """How many rows cost about as much to differentiate as one solve; 0 if hardly any."""
        ...

    @property
    def scale(self) -> float:
        """The mean of the diagonal of C."""
        ...
