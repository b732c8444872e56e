"""HeldOut: among the points of a run, the one that serves rows best which training never saw.

A net that is large enough lowers the objective by learning outliers by heart, whatever the norm.
The median loss of rows held out of training does not fall for that, and fewer than half of bad rows
among them hardly move it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proxlin._checks import check_open_interval
from proxlin.errors import InvalidInputError
from proxlin.problem import Problem

_LOOKS = 0.1  # the next look comes after this share of the steps taken
_PATIENCE = 3.0  # a run is over when it took so many times the steps of its best point,
_LEAST = 60  # and so many steps at least
_FEWEST = 4  # rows of which a share can be held out


@dataclass(init=False, eq=False, repr=False)
class HeldOut:
    """Judges the points of one run by the median loss of other rows; looks ever more rarely."""

    theta: Tensor | None = None  # (d,) the best point by these rows
    best: float = math.inf  # its median loss
    latest: float = math.inf  # median loss at the latest look
    best_at: int = 0  # the step of the best point
    next_look: int = 0

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def due(self, iteration: int) -> bool:
        """Whether a look is worth its time after so many steps."""
        return iteration >= self.next_look

    def look(self, candidates: list[Tensor], iteration: int) -> None:
        """Judge the points, and keep the best of them if none before was better."""
        self.next_look = iteration + max(1, math.ceil(_LOOKS * iteration))
        losses = [_verdict(self.problem, theta) for theta in candidates]
        self.latest, theta = min(zip(losses, candidates, strict=True), key=lambda pair: pair[0])
        if self.theta is None or self.latest < self.best:
            self.best, self.best_at, self.theta = self.latest, iteration, theta.clone()

    def hopeless(self, iteration: int) -> bool:
        """Whether the best point lies so far back that no better one is expected."""
        return iteration >= max(_PATIENCE * self.best_at, _LEAST)


def set_aside(problem: Problem, held_out: Any, seed: int) -> tuple[Problem, HeldOut]:
    """The problem to train on, and its judge: rows of its own, or a share of the problem's.

    The rows of a share are drawn with the seed, the same on every process.
    """
    if isinstance(held_out, bool | int):
        raise InvalidInputError(
            "held_out must be a share of the rows between 0 and 1, such as 0.1, or rows of their"
            f" own; got {held_out!r}."
        )
    if isinstance(held_out, float):
        check_open_interval("held_out", held_out, 0, 1)
        if problem.streamed:
            raise InvalidInputError(
                f"held_out={held_out!r} needs rows that can be numbered; got a stream. Give rows of"
                " their own."
            )
        if problem.n_rows < _FEWEST:
            raise InvalidInputError(
                f"held_out={held_out!r} needs {_FEWEST} rows to divide; got {problem.n_rows}."
            )
        order = torch.randperm(problem.n_rows, generator=torch.Generator().manual_seed(seed))
        count = min(max(round(held_out * problem.n_rows), 1), problem.n_rows - 1)
        kept_out, kept = order[:count].sort().values, order[count:].sort().values
        return problem.restricted(kept), HeldOut(problem.restricted(kept_out))
    numbers = isinstance(held_out, Tensor) and not held_out.is_floating_point()
    if numbers and (problem.example[0].is_floating_point() or len(problem.example) > 1):
        raise InvalidInputError(
            "held_out must be rows in the form of the problem's data, or a share such as 0.1;"
            f" got a tensor of {held_out.dtype}, which looks like row numbers. Take those rows"
            " out of the data yourself: held_out=(x[index], y[index])."
        )
    return problem, HeldOut(problem.with_data(held_out))


def _verdict(problem: Problem, theta: Tensor) -> float:
    """The median loss, infinite where it is no number: NaN would be smaller than nothing, for ever.

    For quantiles the mean, which alone is least at them; no row's pull on it is unbounded.
    """
    losses = problem.row_losses(theta)
    value = float(losses.mean() if problem.p == "pinball" else losses.median())
    return math.inf if math.isnan(value) else value
