"""LinearResult: what the solvers of linear models return."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from proxlin.run.result import Result

OBJECTIVE = "the objective, rows clipped at 5 typical targets"  # what gaps are relative to


@dataclass(frozen=True, kw_only=True)
class LinearResult(Result):
    """The result of a linear model: theta is B (m, t) row by row, then the intercept (t,)."""

    targets: int

    @property
    def coef(self) -> Tensor:
        """B (m, t) in float64."""
        return self.theta[: -self.targets].reshape(-1, self.targets)

    @property
    def intercept(self) -> Tensor:
        """b (t,) in float64; zeros without an intercept."""
        return self.theta[-self.targets :]
