"""HeldOut: rows that training never sees say which point of a run is best, and how far off is far.

A net that is large enough lowers the objective by learning outliers by heart, whatever the norm.
Rows held out of training do not fall for that, and fewer than half of bad rows among them hardly
move what they say. Their median loss is also what rows that fit are off by: training rows that are
off by many times that lose their weight before they are learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from proxlin._checks import check_open_interval
from proxlin.errors import InvalidInputError
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent, Redescending, redescending_weight
from proxlin.problem.scales import median

_LOOKS = 0.1  # the next look comes after this share of the steps taken
_PATIENCE = 3.0  # a run is over when it took so many times the steps of its best point or trial,
_LEAST = 60  # and so many steps at least
_FEWEST = 4  # rows of which a share can be held out
_FAR = 3.0  # medians of the loss, two deviations of Gaussian noise, at which half a pull is left


@dataclass(init=False, eq=False, repr=False)
class HeldOut:
    """Judges the points of one run by the losses of other rows; looks ever more rarely."""

    theta: Tensor | None = None  # (d,) the best point by these rows
    losses: Tensor | None = None  # (n,) of these rows there
    latest: float = math.inf  # median loss at the latest look
    best_at: int = 0  # the step of the best point
    settled_at: int = 0  # the last step of a trial or a restart, which say nothing about patience
    next_look: int = 0
    limit: float = math.inf  # loss at which a training row has half its weight

    def __init__(self, problem: Problem, *, reweight: bool = False) -> None:
        self.problem = problem
        self.reweight = reweight

    def fits(self, theta: Tensor) -> bool:
        """Whether what it remembers can be of these rows and of points such as theta."""
        if self.theta is None or self.losses is None:
            return self.theta is self.losses
        return (self.theta.shape, self.theta.dtype, self.losses.shape) == (
            theta.shape, theta.dtype, (self.problem.n_rows,),
        )  # fmt: skip

    def due(self, iteration: int) -> bool:
        """Whether a look is worth its time after so many steps."""
        return iteration >= self.next_look

    def look(self, candidates: list[Tensor], iteration: int) -> None:
        """Judge the points, the present one first, and keep the best if none before was better."""
        self.next_look = iteration + max(1, math.ceil(_LOOKS * iteration))
        for number, theta in enumerate(candidates):
            losses = self.problem.row_losses(theta)
            middle = float(losses.median())
            if number == 0:
                self.latest = middle
                far = _FAR * float(median(losses))
                self.limit = far if self.reweight and 0 < far < math.inf else math.inf
            if self.losses is None or lower_for_most(losses, self.losses, p=self.problem.p):
                self.losses, self.best_at, self.theta = losses, iteration, theta.clone()

    def stalled(self, iteration: int) -> bool:
        """Whether the best point lies so far back that no better one is expected."""
        return iteration >= max(_PATIENCE * max(self.best_at, self.settled_at), _LEAST)


def set_aside(
    problem: Problem, held_out: Any, seed: int, *, reweight: bool
) -> tuple[Problem, HeldOut]:
    """The problem to train on, and its judge: rows of its own, or a share of the problem's.

    The rows of a share are drawn with the seed, the same on every process.
    """
    if isinstance(held_out, np.floating):
        held_out = float(held_out)
    if isinstance(held_out, int | np.integer | str) or getattr(held_out, "ndim", None) == 0:
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
        judge = HeldOut(problem.restricted(kept_out), reweight=reweight)
        return problem.restricted(kept), judge
    whole = problem.example[0].is_floating_point() or len(problem.example) > 1
    if whole and _like_row_numbers(held_out):
        kind = getattr(held_out, "dtype", "whole numbers")
        raise InvalidInputError(
            "held_out must be rows in the form of the problem's data, or a share such as 0.1;"
            f" got {type(held_out).__name__} of {kind}, which looks like row numbers. Take those"
            " rows out of the data yourself: held_out=(x[index], y[index])."
        )
    try:
        return problem, HeldOut(problem.with_data(held_out), reweight=reweight)
    except InvalidInputError as cause:
        raise InvalidInputError(
            f"held_out must be rows in the form of the problem's data, such as (x, y): {cause}"
        ) from cause


def _like_row_numbers(rows: Any) -> bool:
    if isinstance(rows, Tensor | np.ndarray):
        return not (
            rows.is_floating_point() if isinstance(rows, Tensor) else rows.dtype.kind == "f"
        )
    whole = isinstance(rows, list) and all(isinstance(row, int | np.integer) for row in rows)
    return whole or isinstance(rows, range | slice)


def far_weight(losses: Tensor, held: Tensor) -> Tensor:
    """What training rows of these losses weigh where the rows held out have those, (n,)."""
    return redescending_weight(losses / (_FAR * median(held)).clamp_min(torch.finfo().tiny))


def lower_for_most(
    losses: Tensor, others: Tensor, *, p: Exponent | Literal["pinball"], errors: float = 0.0
) -> bool:
    """Whether these losses of rows (n,) are lower than the other ones of the same rows.

    In the mean, each loss redescending beyond three of the smaller median: a row that is far off
    both times changes nothing, and no row much. For quantiles in the plain mean, which alone is
    least at them. Losses that are no numbers are never lower. `errors`: by more than so many
    standard errors of the difference.
    """
    pair = torch.stack([losses, others]).double()
    known = torch.isfinite(pair).all(dim=1)
    if not bool(known.all()):
        return bool(known[0])
    if p != "pinball":
        pair = pair.sqrt() if p == "mse" else pair
        limit = _FAR * float(torch.minimum(median(pair[0]), median(pair[1])))
        pair = Redescending(1.0, limit)(pair.unsqueeze(-1)) if limit > 0 else pair
    gain = pair[1] - pair[0]
    chance = errors * float(gain.std(correction=0)) / math.sqrt(len(gain))
    return float(gain.mean()) > chance
