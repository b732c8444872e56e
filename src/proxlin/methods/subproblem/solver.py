"""What every solver of the sub-problem takes and returns.

The sub-problem at an anchor (Eq. 6-7) is

    min_theta  (1/n) sum_i ||F_i + J_i (theta - anchor)||_p + G(theta) + 1/2 ||theta - anchor||_H^2

with G = g + indicator of C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from proxlin.methods.subproblem.convex_model import ConvexModel


class Deadline(Protocol):
    """Something that knows when the time is up."""

    def expired(self) -> bool:
        """Whether the time is up."""
        ...


@dataclass(frozen=True)
class SubproblemResult:
    """The point that a solver found, always in C, and how far it got."""

    theta: Tensor  # (d,)
    steps: int
    primal: float | None  # the solver's own residuals at the end; None if it has none
    dual: float | None
    converged: bool  # both residuals are as small as the solver was asked for
    rows: int | None = None  # of the model that the solver has seen; None: all of them
    remarks: tuple[str, ...] = ()  # what the reader should know, one sentence each


class SubproblemSolver(Protocol):
    """Frozen settings that minimise a convex model."""

    def solve(
        self,
        model: ConvexModel,
        *,
        iteration: int = 0,
        generator: torch.Generator,
        deadline: Deadline | None = None,
    ) -> SubproblemResult:
        """Minimise the model of outer iteration k = 0, 1, ... as exactly as the settings say."""
        ...


def time_is_up(deadline: Deadline | None) -> bool:
    """Whether there is a deadline and it has passed."""
    return deadline is not None and deadline.expired()
