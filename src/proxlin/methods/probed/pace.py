"""How many steps the budget is enough for, told by a few of them.

A machine that others use stops for a moment now and then. The median of some steps knows nothing of
it; a single step, or their mean, would decide with how many rows a whole run goes on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

_MOST = 16  # steps that are timed
_DEAR = 2.5  # times as much for twice the rows: they do not fit into the cache


@dataclass
class Pace:
    """The progress of the budget at the beginning of each of some steps of the same kind."""

    marks: list[float] = field(default_factory=list)

    def begin_step(self, progress: float) -> None:
        """Look at the clock."""
        if len(self.marks) < _MOST:
            self.marks.append(progress)

    @property
    def steps(self) -> int:
        """How many are timed: all but the first, which loads code."""
        return max(0, len(self.marks) - 2)

    @property
    def share(self) -> float:
        """Of the budget, that a typical step takes."""
        return median(after - before for before, after in pairwise(self.marks[1:]))

    @property
    def steps_of_a_run(self) -> float:
        """How many of them the whole budget is enough for."""
        return 1.0 / max(self.share, 1e-9)


@dataclass
class OtherRows:
    """Steps with another number of rows, timed beside those that had `rows`."""

    rows: int = 0  # none are timed
    share: float = 0.0  # of the budget, that a step with them takes
    half: bool = False  # whether the other number is half of them, which may be cheaper by more
    pace: Pace = field(default_factory=Pace)  # of steps with the other number

    def settled_rows(self, fewer: int) -> int:
        """How many to go on with, where `fewer` are the other number."""
        if self.half:
            return fewer if twice_is_dear(self.pace.share, self.share) else self.rows
        return self._balanced_rows(fewer)

    def _balanced_rows(self, fewer: int) -> int:
        """So many that they cost as much as the rest of a step, between the two numbers.

        A small net's step costs some milliseconds whatever the batch, and fewer rows than cost as
        much as that make each step worse and hardly any more of them.
        """
        saved = self.share - self.pace.share
        if saved <= 0 or fewer >= self.rows:
            return self.rows
        of_a_row = saved / (self.rows - fewer)
        balanced = power_of_two(self.pace.share / of_a_row - fewer)
        return min(max(balanced, fewer), self.rows)


def twice_is_dear(share: float, share_of_twice: float) -> bool:
    """Whether a step with twice the rows costs far more than twice as much."""
    return share_of_twice > _DEAR * share


def power_of_two(number: float) -> int:
    """The one nearest to the number, by its logarithm."""
    return 1 << round(math.log2(max(number, 1.0)))
