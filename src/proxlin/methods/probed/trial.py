"""How long normed steps may be is found out by trying lengths for a few per cent of the budget.

No theory tells beforehand; a short trial does: of two lengths, and of ever shorter ones as long as
these do better. Longer ones it would overrate, for they gain early and lose in the end. Whether
curvature steps would lead further it cannot tell: they gain at other times of a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from proxlin.methods.contract import Budget
from proxlin.methods.probed.normed import NormedMemory
from proxlin.methods.probed.pace import Pace

_TURN = 0.05  # of the budget
_STEPS = 60  # of a turn, where there is no budget
_LEAST_STEPS = 10  # of a turn
_LEAST_BUDGET = 500  # steps, below which turns would be too short to tell
_PROOF = 3  # steps that tell whether there is time for so many: one may have met a busy moment
_FEWEST = 120  # counted steps, below which each is to be worth much
_JUDGES = 4  # batches that compare where the turns have come to
_RATES = 0.0, 0.03, 0.01, 0.003  # of curvature steps, of bold, careful, very careful normed ones
_CURVATURE, _BOLD, _CAREFUL, _ = range(len(_RATES))
_LOOKS = 8  # at the loss during a turn, of which the first says nothing yet
_HOPELESS = 0.8  # of what another kind had gained at the same look: the turn ends
_SECOND_LOOK = 4  # times the steps of the winner's turn: has it come any further since?
_SHORTER = 1 / 3  # of a rate that has led nowhere


@dataclass
class Entrant:
    """A kind of step and where it has come to; a rate of 0 stands for curvature steps."""

    memory: NormedMemory
    theta: Tensor  # (d,) where its turn ended
    change: float = 0.0  # of the loss since the start, summed over the batches that compare
    losses: list[float] = field(default_factory=list)  # averaged, at each look of its turn


@dataclass
class Trial:
    """Turns of bold, of careful and perhaps of shorter normed steps, all from one start.

    Each is a small run of its own, whose steps become shorter and shorter: at a steady length,
    noise would count against long steps that are best in the end. A turn that falls far behind the
    earlier one ends at once.
    """

    start: Tensor  # (d,) where every turn begins
    entrants: list[Entrant]
    newton: bool = False  # curvature steps would be Newton's on all rows
    winner: int | None = None
    shortest: int = _CAREFUL  # of those that play; the other is the next longer one
    turn: int = 0  # whose of those that play
    began: float = 0.0  # progress of the budget at which the turn began
    steps: int = 0  # of this turn
    first_loss: float = math.nan  # of the first batch of all
    judges: int = 0  # batches that have compared
    slow: bool = False  # the time is enough for so few steps that nothing was tried
    pace: Pace = field(default_factory=Pace)  # of the first steps of all
    second_look: int = 0  # step of the winner's at which it is judged once more; 0: no more

    @property
    def over(self) -> bool:
        """Whether the winner goes on alone."""
        return self.winner is not None

    @property
    def playing(self) -> list[int]:
        """The entrants that have turns, or the winner."""
        return [self.shortest - 1, self.shortest] if self.winner is None else [self.winner]

    @property
    def comparing(self) -> bool:
        """Whether all turns are over."""
        return self.turn == len(self.playing)

    @property
    def decided(self) -> bool:
        """Whether enough batches have compared."""
        return self.judges >= _JUDGES

    @property
    def players(self) -> list[Entrant]:
        """Those that have a turn."""
        return [self.entrants[number] for number in self.playing]

    @property
    def normed(self) -> NormedMemory | None:
        """The memory of normed steps, if those are to be taken now."""
        if self.comparing:
            return None
        memory = self.entrants[self.playing[self.turn]].memory
        return memory if memory.rate else None

    def go_carefully(self, factor: float) -> None:
        """Try nothing: go on with careful steps, shortened by the factor."""
        memory = self.entrants[_CAREFUL].memory
        memory.rate *= factor
        memory.begin(self.start)
        self._close(_CAREFUL)

    @property
    def tells_pace(self) -> bool:
        """Whether the first turn goes on, whose first steps are timed."""
        return self.winner is None and not self.turn

    def begin_step(self, budget: Budget) -> None:
        """Get ready for a step; the trial is over at once if the budget is too small for it."""
        if self.tells_pace:
            self.pace.begin_step(budget.progress)
            if self.steps == 1:
                self.began = budget.progress  # the first step of all loads code
            counted = math.inf if budget.max_iter is None else budget.max_iter
            slow = self.pace.steps == _PROOF and self.pace.steps_of_a_run < _LEAST_BUDGET
            if counted < (_LEAST_BUDGET if self.newton else _FEWEST):
                self._close(_CURVATURE)
            elif counted < _LEAST_BUDGET or slow:
                self.slow = slow
                self._close(_BOLD)
        memory = self.normed
        if memory is not None and not memory.steps:
            memory.begin(self.start)

    def length(self, budget: Budget) -> float:
        """Of the next step, in those of a whole run: it falls from 1 to 0 in each turn."""
        return 1.0 if self.over else max(0.0, 1.0 - self._used(budget))

    def turn_is_over(self, budget: Budget, loss: float) -> bool:
        """Count a step; whether the present turn has had its share of the budget or no hope.

        `loss` is the running average of the typical loss in this turn.
        """
        self.steps += 1
        used = self._used(budget)
        return used >= 1 or self._hopeless(used, loss)

    def _hopeless(self, used: float, loss: float) -> bool:
        """Look at the loss; whether an earlier kind had gained far more at this look."""
        if math.isnan(self.first_loss):
            self.first_loss = loss
        entrant, look = self.players[self.turn], int(used * _LOOKS) - 1
        if look < len(entrant.losses):
            return False
        entrant.losses += [loss] * (look + 1 - len(entrant.losses))
        earlier = [
            other.losses[look] for other in self.players[: self.turn] if look < len(other.losses)
        ]
        most = max(0.0, self.first_loss - min(earlier, default=math.inf))
        if look == 0 or most == 0 or self.first_loss - loss >= _HOPELESS * most:
            return False
        entrant.change = math.inf
        return True

    def end_turn(self, theta: Tensor, budget: Budget) -> None:
        """Keep where the present entrant has come to, and let the next begin."""
        self.entrants[self.playing[self.turn]].theta = theta.clone()
        self.turn, self.began, self.steps = self.turn + 1, budget.progress, 0

    def compare(self, changes: list[float]) -> None:
        """Add the change of the loss of one more batch for each entrant."""
        for entrant, change in zip(self.players, changes, strict=True):
            entrant.change += change if math.isfinite(change) else math.inf
        self.judges += 1

    def decide(self) -> Tensor:
        """Let the entrant that lowered the loss most go on alone; the point it goes on from.

        If it takes the shortest steps so far, shorter ones have a turn first, from the start.
        """
        winner = min(self.playing, key=lambda number: self.entrants[number].change)
        best = self.entrants[winner]
        if winner == self.shortest < len(self.entrants) - 1 and best.change < 0:
            self.shortest, self.turn, self.judges, best.change = winner + 1, 1, 0, 0.0
            return self.start
        point = best.theta if best.change < 0 else self.start
        self._close(winner)
        best.theta, self.second_look = point, _SECOND_LOOK * best.memory.steps
        return point

    def led_nowhere(self, loss: float) -> bool:
        """Whether the winner, looked at once more, is no lower than at the end of its turn.

        A turn is short and its steps become shorter; at their full length they may undo what they
        had learnt.
        """
        best = self.players[0]
        if not self.second_look or best.memory.steps < self.second_look:
            return False
        if not best.losses or loss <= best.losses[-1]:
            self.second_look, best.theta = 0, best.theta.new_empty(0)
            return False
        return True

    def go_back(self) -> Tensor:
        """Shorten the steps; the point they go on from is the end of their turn."""
        best = self.players[0]
        best.memory.begin(best.theta)
        best.memory.rate *= _SHORTER
        return best.theta

    def _used(self, budget: Budget) -> float:
        """The part of the present turn that is over."""
        if not budget.bounded:
            return self.steps / _STEPS
        share = (budget.progress - self.began) / _TURN
        return min(share, self.steps / _LEAST_STEPS)

    def _close(self, winner: int) -> None:
        """Go on with this entrant alone; what the others remember is let go."""
        self.winner, self.turn = winner, 0
        empty = self.start.new_empty(0)
        for number, entrant in enumerate(self.entrants):
            entrant.theta = empty
            if number != winner:
                entrant.memory.end()


def new_trial(start: Tensor, newton: bool) -> Trial:
    """A trial whose turns begin at `start`; `newton`: curvature steps would be Newton's."""
    empty = start.new_empty(0)
    entrants = [Entrant(NormedMemory(rate, empty, empty, [], [], []), empty) for rate in _RATES]
    return Trial(start.clone(), entrants, newton)
