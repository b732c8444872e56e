"""Which kind of step suits a net is found out by trying them for a few per cent of the budget.

Curvature steps lead by far on many nets and fall behind normed ones on others, where averaged
blocks say little about the curvature. No theory tells which beforehand; a short trial does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from proxlin.methods.contract import Budget
from proxlin.methods.probed.normed import NormedMemory

_RATES = (0.03, 0.01), (0.01, 0.003)  # of spectral steps, and of those by the largest entry
_FIRST, _SECOND = 0.03, 0.06  # of the budget for each turn of the first and the second round
_STEPS = (30, 60)  # of each turn, where there is no budget
_LEAST_STEPS = 10  # of a turn; budgets that allow fewer are too small for a trial
_JUDGES = 4  # batches that compare where the turns have come to
_CURVATURE = 0  # the entrant that takes curvature steps


@dataclass
class Entrant:
    """A kind of step and where it has come to; a rate of 0 stands for curvature steps."""

    memory: NormedMemory
    theta: Tensor  # (d,) where its turn ended
    average: Tensor  # (d,) of its latest points
    change: float = 0.0  # of the loss since the start, summed over the batches that compare


@dataclass
class Trial:
    """Two rounds of turns, each from one start.

    First normed steps at several rates, then the best of them against curvature steps, from where
    it has come to. The averages of the latest points are compared: what a run returns that
    takes shorter and shorter steps.
    """

    start: Tensor  # (d,) where every turn of this round begins
    entrants: list[Entrant]
    finalist: int | None = None  # the winner of the first round
    winner: int | None = None
    turn: int = 0  # whose of those that play
    began: float = 0.0  # progress of the budget at which the turn began
    steps: int = 0  # of this turn
    judges: int = 0  # batches that have compared

    @property
    def over(self) -> bool:
        """Whether the winner goes on alone."""
        return self.winner is not None

    @property
    def playing(self) -> list[int]:
        """The entrants of this round."""
        if self.winner is not None:
            return [self.winner]
        if self.finalist is not None:
            return [_CURVATURE, self.finalist]
        return [number for number in range(len(self.entrants)) if number != _CURVATURE]

    @property
    def comparing(self) -> bool:
        """Whether all turns of this round are over."""
        return self.turn == len(self.playing)

    @property
    def decided(self) -> bool:
        """Whether enough batches have compared."""
        return self.judges >= _JUDGES

    @property
    def entrants_of_the_round(self) -> list[Entrant]:
        """Those that have a turn in this round."""
        return [self.entrants[number] for number in self.playing]

    @property
    def normed(self) -> NormedMemory | None:
        """The memory of normed steps, if those are to be taken now."""
        if self.comparing:
            return None
        memory = self.entrants[self.playing[self.turn]].memory
        return memory if memory.rate else None

    def begin_turn(self, budget: Budget) -> bool:
        """Count a step of this turn; False, and the trial is over, if the budget is too small."""
        first = self.finalist is None and not self.turn
        if first and self.steps == 1:
            self.began = budget.progress  # the first step of all loads code
        few = budget.max_iter is not None and budget.max_iter * _FIRST < _LEAST_STEPS
        slow = budget.progress - self.began > _FIRST and self.steps < _LEAST_STEPS
        if first and (few or slow):
            self._close(_CURVATURE)
            return False
        memory = self.normed
        if memory is not None and not memory.steps:
            memory.begin(self.start)
        self.steps += 1
        return True

    def turn_is_over(self, budget: Budget) -> bool:
        """Whether the present turn has had its share of the budget, and steps enough."""
        second = self.finalist is not None
        if not budget.bounded:
            return self.steps >= _STEPS[second]
        share = _SECOND if second else _FIRST
        return budget.progress - self.began >= share and self.steps >= _LEAST_STEPS

    def end_turn(self, theta: Tensor, average: Tensor, budget: Budget) -> None:
        """Keep where the present entrant has come to, and let the next begin."""
        if not self.over:
            entrant = self.entrants[self.playing[self.turn]]
            entrant.theta, entrant.average = theta.clone(), average.clone()
            self.turn, self.began, self.steps = self.turn + 1, budget.progress, 0

    def compare(self, changes: list[float]) -> None:
        """Add the change of the loss of one more batch for each entrant of this round."""
        for entrant, change in zip(self.entrants_of_the_round, changes, strict=True):
            entrant.change += change if math.isfinite(change) else math.inf
        self.judges += 1

    def next_round(self, budget: Budget) -> tuple[Tensor, Tensor]:
        """Begin the second round, or end the trial: the point to go on from, and its average."""
        winner = min(self.playing, key=lambda number: self.entrants[number].change)
        best = self.entrants[winner]
        point, average = best.theta, best.average
        if self.finalist is not None:
            self._close(winner)
            return point, average
        self.start, self.finalist = average.clone(), winner
        self.turn = self.judges = 0
        self.began, best.change = budget.progress, 0.0
        return self.start, self.start

    def _close(self, winner: int) -> None:
        """Go on with this entrant alone; what the others remember is let go."""
        self.winner, self.turn = winner, 0
        empty = self.start.new_empty(0)
        for number, entrant in enumerate(self.entrants):
            entrant.theta = entrant.average = empty
            if number != winner:
                entrant.memory.slope = entrant.memory.square = empty


def new_trial(start: Tensor) -> Trial:
    """A trial whose turns begin at `start`."""
    empty = start.new_empty(0)
    spectral, entrywise = _RATES
    kinds = [(False, 0.0), *((True, r) for r in spectral), *((False, r) for r in entrywise)]
    entrants = [Entrant(NormedMemory(*kind, empty, empty), empty, empty) for kind in kinds]
    return Trial(start.clone(), entrants)
