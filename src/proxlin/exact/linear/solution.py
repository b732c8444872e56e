"""LinearSolution: what the linear solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.methods.contract import Status
from proxlin.run.result import History, Result


@dataclass(frozen=True)
class LinearSolution:
    """A minimiser and the measured distance of its objective from the optimum."""

    coef: Tensor  # (m, t) float64
    intercept: Tensor  # (t,) float64; zeros without an intercept
    objective: float  # at (coef, intercept), in the units of the data
    gap: float  # (objective - lower bound) over the objective: at most so much can be gained
    status: Status
    iterations: int  # Newton steps
    seconds: float
    history: History  # one record for each outer step: iteration, seconds, objective, gap, rho

    def result(self) -> Result:
        """The same as a `Result`; theta holds coef row by row, then the intercept."""
        return Result(
            status=self.status,
            objective=self.objective,
            stationarity=self.gap,
            seconds=self.seconds,
            iterations=self.iterations,
            history=self.history,
            theta=torch.cat([self.coef.reshape(-1), self.intercept]),
        )
