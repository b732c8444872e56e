"""Armijo: how far to go towards the minimiser of the model (Alg. 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from proxlin._checks import check_count, check_interval, check_open_interval


@dataclass(frozen=True)
class SearchResult:
    """The accepted point, or none."""

    accepted: bool
    step: float  # eta of the last trial
    theta: Tensor  # the accepted point; the anchor when none was accepted
    objective: float  # at theta
    trials: int


@dataclass(frozen=True, kw_only=True)
class Armijo:
    """Backtracking until f(new) <= f(anchor) + slope * step * decrease (Alg. 2).

    `decrease` is the negative Delta that the model promises for a full step.
    """

    slope: float = 0.1  # gamma in Alg. 2
    shrink: float = 0.5  # delta in Alg. 2
    first: float = 1.0  # the first step tried
    max_trials: int = 40

    def __post_init__(self) -> None:
        check_open_interval("Armijo(slope=...)", self.slope, 0, 1)
        check_open_interval("Armijo(shrink=...)", self.shrink, 0, 1)
        check_interval("Armijo(first=...)", self.first, 1e-12, 1)
        check_count("Armijo(max_trials=...)", self.max_trials)

    def search(
        self,
        objective: Callable[[Tensor], float],
        anchor: Tensor,
        target: Tensor,
        value: float,
        decrease: float,
    ) -> SearchResult:
        """Search on the segment from `anchor`, where the objective is `value`, to `target`.

        Both ends lie in C, so every point of the segment does.
        """
        step = self.first
        for trial in range(1, self.max_trials + 1):
            step = self.first * self.shrink ** (trial - 1)
            theta = target if step == 1 else anchor + step * (target - anchor)
            trial_value = objective(theta)
            if trial_value <= value + self.slope * step * decrease:
                return SearchResult(True, step, theta, trial_value, trial)
        return SearchResult(False, step, anchor, value, self.max_trials)
