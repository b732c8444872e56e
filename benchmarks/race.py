"""One run of one method against the clock; what it reached is measured after the clock stopped.

The clock tells the seconds that the processor works for the run, on one thread: what else the
machine does slows nobody down.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proxlin.budget import Budget
from proxlin.problem import Problem

_CURVE_ROWS = 512  # rows on which the curve is drawn
_CHOICE_ROWS = 2_048  # other rows, on which a method chooses between its candidates
_FINAL_ROWS = 8_192  # rows on which the end is measured
_NOTES = 48  # points of a curve, evenly spaced in log time
_FIRST_NOTE = 0.01  # share of the time


@dataclass(frozen=True)
class Run:
    """What a method reached, and when."""

    seconds: list[float]  # of the notes
    curve: list[float]  # objective on the curve's rows at those times
    objective: float  # on the rows for the end, at the best of the method's candidates
    steps: int

    def when_below(self, objective: float) -> float | None:
        """The first second at which the curve is at most this."""
        pairs = zip(self.seconds, self.curve, strict=True)
        return next((when for when, value in pairs if value <= objective), None)


def race(problem: Problem, method: Any, seconds: float, seed: int) -> Run:
    """Let the method step until the time is up; objectives are estimates on fixed rows."""
    torch.set_flush_denormal(True)
    marks = [seconds * _FIRST_NOTE ** (1 - k / (_NOTES - 1)) for k in range(_NOTES)]
    budget = Budget(seconds, None, clock=time.process_time)
    start = problem.penalty.project(problem.theta())
    state = method.init(problem, start.clone(), torch.Generator().manual_seed(seed))
    notes: list[tuple[float, Tensor]] = []
    while not budget.expired():
        method.step(problem, state, budget)
        budget.iteration += 1
        if marks and budget.seconds >= marks[0]:
            notes.append((budget.seconds, method.candidates(state)[0].clone()))
            marks = [mark for mark in marks if mark > budget.seconds]
    candidates = method.candidates(state)
    choosing = _rows(problem, _CHOICE_ROWS, 2_000 + seed)
    last = min(candidates, key=lambda theta: problem.objective(theta, choosing))
    notes.append((seconds, last))
    few = _rows(problem, _CURVE_ROWS, 1_000 + seed)
    return Run(
        seconds=[when for when, _ in notes],
        curve=[problem.objective(theta, few) for _, theta in notes],
        objective=problem.objective(last, _rows(problem, _FINAL_ROWS, 1_000 + seed)),
        steps=budget.iteration,
    )


def _rows(problem: Problem, count: int, seed: int) -> Tensor:
    order = torch.randperm(problem.n_rows, generator=torch.Generator().manual_seed(seed))
    return order[:count]
