"""Traced: any method, with a look at a sample of rows after ever more steps.

A full pass over MNIST takes seconds, so that a run of half a minute has only one or two of them:
too few for a curve. A sample of the rows costs a hundredth of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from proxlin.methods import Method, Step
from proxlin.methods.contract import Budget
from proxlin.problem import Problem
from proxlin.problem.rows import evenly_spread

ROWS = 500  # of the sample, evenly spread; its objective is within a few percent of the full one
_GROWTH = 1.25  # the next look comes after so many times the steps


@dataclass(frozen=True)
class Traced:
    """Steps as `method` does; `trace` collects step, seconds and objective on the sample."""

    method: Method
    trace: list[dict[str, float]] = field(default_factory=list)

    @property
    def measures_stationarity(self) -> bool:
        """As the method does."""
        return self.method.measures_stationarity

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> Any:
        """The method's state."""
        self.trace.append({"iteration": 0, "seconds": 0.0, "objective": _sampled(problem, theta)})
        return self.method.init(problem, theta, generator)

    def step(self, problem: Problem, state: Any, budget: Budget) -> Step:
        """The method's step, and a look if it is time."""
        step = self.method.step(problem, state, budget)
        taken = budget.iteration + 1  # the loop counts the step when it is back
        if taken >= math.ceil(_GROWTH * self.trace[-1]["iteration"]):
            objective = _sampled(problem, self.method.candidates(state)[0])
            self.trace.append(
                {"iteration": taken, "seconds": budget.seconds, "objective": objective}
            )
        return step

    def candidates(self, state: Any) -> list[Tensor]:
        """The method's."""
        return self.method.candidates(state)


def _sampled(problem: Problem, theta: Tensor) -> float:
    return problem.objective(theta, evenly_spread(problem.n_rows, ROWS))
