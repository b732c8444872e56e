"""The first-order baselines: SGD with momentum (Mai & Johansson) and Adam."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from proxlin._checks import check_choice, check_count, check_positive, check_share
from proxlin.errors import InvalidInputError
from proxlin.methods.contract import Budget, Step, settings_by_name
from proxlin.problem import Problem
from proxlin.problem.rows import Shuffler

_SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
}


@dataclass
class FirstOrderState:
    """Memory of a first-order run."""

    theta: Tensor  # (d,) present point, always in C
    batches: Shuffler
    momentum: Tensor  # (d,) average of the sub-gradients
    square: Tensor  # (d,) average of the squared sub-gradients (Adam)
    steps: int = 0


@settings_by_name
@dataclass(frozen=True, kw_only=True)
class SGD:
    """theta <- project_C(theta - rate * m), m <- momentum * m + sub-gradient of a batch.

    The projected stochastic sub-gradient method with momentum of Mai & Johansson (2020). The loop
    keeps the best point by the full objective.
    """

    learning_rate: float = 1e-3
    momentum: float = 0.9
    batch_size: int = 64
    schedule: str = "constant"
    measures_stationarity: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_positive("SGD(learning_rate=...)", self.learning_rate)
        check_share("SGD(momentum=...)", self.momentum)
        check_count("SGD(batch_size=...)", self.batch_size)
        check_choice("SGD(schedule=...)", self.schedule, _SCHEDULES)

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> FirstOrderState:
        """Begin at theta with no momentum."""
        return _begin(problem, theta, self.batch_size, generator)

    def step(self, problem: Problem, state: FirstOrderState, budget: Budget) -> Step:
        """One batch, one projected step."""
        gradient = _sub_gradient(problem, state)
        state.momentum.mul_(self.momentum).add_(gradient)
        rate = self.learning_rate * _SCHEDULES[self.schedule](budget.progress)
        state.theta = problem.penalty.project(state.theta - rate * state.momentum)
        return Step()

    def candidates(self, state: FirstOrderState) -> list[Tensor]:
        """The present point."""
        return [state.theta]


@settings_by_name
@dataclass(frozen=True, kw_only=True)
class Adam:
    """theta <- project_C(theta - rate * m / (sqrt(s) + epsilon)) with Adam's averages m and s."""

    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    batch_size: int = 64
    schedule: str = "cosine"
    measures_stationarity: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_positive("Adam(learning_rate=...)", self.learning_rate)
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise InvalidInputError(f"Adam(betas=...) must be two numbers; got {self.betas!r}.")
        for beta in self.betas:
            check_share("Adam(betas=...)", beta)
        check_positive("Adam(epsilon=...)", self.epsilon)
        check_count("Adam(batch_size=...)", self.batch_size)
        check_choice("Adam(schedule=...)", self.schedule, _SCHEDULES)

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> FirstOrderState:
        """Begin at theta with empty averages."""
        return _begin(problem, theta, self.batch_size, generator)

    def step(self, problem: Problem, state: FirstOrderState, budget: Budget) -> Step:
        """One batch, one projected step with bias-corrected averages."""
        gradient = _sub_gradient(problem, state)
        state.steps += 1
        first, second = self.betas
        state.momentum.lerp_(gradient, 1 - first)
        state.square.lerp_(gradient.square(), 1 - second)
        scale = (state.square / (1 - second**state.steps)).sqrt_().add_(float(self.epsilon))
        rate = self.learning_rate * _SCHEDULES[self.schedule](budget.progress)
        move = state.momentum / scale * (rate / (1 - first**state.steps))
        state.theta = problem.penalty.project(state.theta - move)
        return Step()

    def candidates(self, state: FirstOrderState) -> list[Tensor]:
        """The present point."""
        return [state.theta]


def _begin(
    problem: Problem, theta: Tensor, batch_size: int, generator: torch.Generator
) -> FirstOrderState:
    batches = Shuffler(problem.n_rows, batch_size, generator)
    return FirstOrderState(theta, batches, torch.zeros_like(theta), torch.zeros_like(theta))


def _sub_gradient(problem: Problem, state: FirstOrderState) -> Tensor:
    with problem.dropping(state.batches.generator):
        return problem.value_and_gradient(state.theta, problem.take(state.batches.next()))[1]
