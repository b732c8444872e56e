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

from proxlin.methods.contract import Budget
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
    curve: list[float]  # objective on the curve's rows of what would be returned then
    objective: float  # on the rows for the end, at the best of the method's candidates
    steps: int
    clean: float | None = None  # mean loss of the clean ones among the rows for the end

    def when_below(self, objective: float) -> float | None:
        """The first second at which the curve is at most this."""
        pairs = zip(self.seconds, self.curve, strict=True)
        return next((when for when, value in pairs if value <= objective), None)


@dataclass(frozen=True)
class Finish:
    """A run that is over, whose curve has not been drawn yet."""

    notes: list[tuple[float, list[Tensor]]]  # seconds and the method's candidates
    last: Tensor  # what is returned
    objective: float
    steps: int

    def drawn(self, problem: Problem, seed: int, clean: Tensor | None = None) -> Run:
        """The same with its curve, and with the loss of the rows that `clean` (n,) marks."""
        few, choosing = _rows(problem, _CURVE_ROWS, 1_000 + seed), _rows(problem, _CURVE_ROWS, seed)
        points = [_choice(problem, candidates, choosing) for _, candidates in self.notes]
        return Run(
            seconds=[when for when, _ in self.notes],
            curve=[problem.objective(theta, few) for theta in [*points[:-1], self.last]],
            objective=self.objective,
            steps=self.steps,
            clean=None if clean is None else clean_loss(problem, self.last, clean, seed),
        )


def clean_loss(problem: Problem, theta: Tensor, clean: Tensor, seed: int) -> float:
    """The mean loss of the clean rows among those for the end."""
    rows = _rows(problem, _FINAL_ROWS, 1_000 + seed)
    return problem.data_term(theta, rows[clean[rows]])


def measured(problem: Problem, theta: Tensor, seed: int) -> float:
    """The objective on the rows for the end."""
    return problem.objective(theta, _rows(problem, _FINAL_ROWS, 1_000 + seed))


def race(problem: Problem, method: Any, seconds: float, seed: int, *, notes: bool = True) -> Finish:
    """Let the method step until the time is up; objectives are estimates on fixed rows.

    Without `notes` no curve can be drawn of the run, and none of its points are kept.
    """
    torch.set_flush_denormal(True)
    marks = [seconds * _FIRST_NOTE ** (1 - k / (_NOTES - 1)) for k in range(_NOTES)]
    marks = marks if notes else []
    start = problem.penalty.project(problem.theta())
    # A step to be thrown away: the first calls of a net load code, which is nobody's merit.
    brief = Budget(_FIRST_NOTE * seconds, None, clock=time.process_time)
    thrown = method.init(problem, start.clone(), torch.Generator().manual_seed(seed))
    method.step(problem, thrown, brief)
    budget = Budget(seconds, None, clock=time.process_time)
    state = method.init(problem, start.clone(), torch.Generator().manual_seed(seed))
    points: list[tuple[float, list[Tensor]]] = []
    while not budget.expired():
        method.step(problem, state, budget)
        budget.iteration += 1
        if marks and budget.seconds >= marks[0]:
            points.append((budget.seconds, [theta.clone() for theta in method.candidates(state)]))
            marks = [mark for mark in marks if mark > budget.seconds]
    points.append((seconds, method.candidates(state)))
    last = _choice(problem, method.candidates(state), _rows(problem, _CHOICE_ROWS, 2_000 + seed))
    return Finish(points if notes else [], last, measured(problem, last, seed), budget.iteration)


def _choice(problem: Problem, candidates: list[Tensor], rows: Tensor) -> Tensor:
    """What a method that is stopped now returns: the best of its points on these rows."""
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda theta: problem.objective(theta, rows))


def _rows(problem: Problem, count: int, seed: int) -> Tensor:
    order = torch.randperm(problem.n_rows, generator=torch.Generator().manual_seed(seed))
    return order[:count]
