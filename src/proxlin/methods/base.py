"""What the loop needs of a method: frozen settings that make a state and take one step on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from proxlin.budget import Budget
from proxlin.problem import Problem
from proxlin.result import Status


@dataclass(frozen=True)
class Step:
    """What one step tells the loop; None where the method did not measure it."""

    objective: float | None = None  # full objective at the new point
    stationarity: float | None = None  # h * ||theta - minimiser of the model|| before the step
    status: Status | None = None  # set when the method cannot go on
    details: dict[str, float] = field(default_factory=dict)  # extra columns of the history
    remarks: tuple[str, ...] = ()


class State(Protocol):
    """The memory of a run; `theta` is the present point, the rest belongs to the method."""

    theta: Tensor


class Method(Protocol):
    """Settings of an algorithm. It only knows how to begin and how to take one step."""

    @property
    def measures_stationarity(self) -> bool:
        """Whether its steps can report a stationarity, which `tol` needs."""
        ...

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> Any:
        """The state before the first step, at theta."""
        ...

    def step(self, problem: Problem, state: Any, budget: Budget) -> Step:
        """Advance the state by one step."""
        ...

    def candidates(self, state: Any) -> list[Tensor]:
        """Points worth an evaluation of the full objective, the present one first."""
        ...
