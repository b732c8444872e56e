"""The one loop around every solver: budget, history, callbacks, Ctrl-C and NaN."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from proxlin._checks import shown
from proxlin.errors import InvalidInputError, NonFiniteError
from proxlin.methods.contract import Budget, Status
from proxlin.problem.parallel import Communicator, SharedInterrupt
from proxlin.run.result import Callback, Certificate, History, Progress

_LOG = logging.getLogger("proxlin")


class Loop:
    """Advances a solver until it or its budget says why it is over, and tells who watches."""

    def __init__(
        self,
        budget: Budget,
        callbacks: tuple[Callback, ...] = (),
        communicator: Communicator | None = None,
    ) -> None:
        self.budget = budget
        self.callbacks = callbacks
        self.communicator = communicator or Communicator()
        self.history = History()
        self.remarks: list[str] = []
        self.best = math.inf  # lowest objective so far

    def run(self, advance: Callable[[], Status | None], *, at_least_once: bool = False) -> Status:
        """Why it ended: what `advance` returned, or the budget that is used up.

        `advance` takes one step and counts it. `at_least_once`: also without any budget.
        """
        status = None if at_least_once else self.budget.exhausted()
        while status is None:
            status = advance() or self.budget.exhausted()
        return status

    def guarded(self, work: Callable[[], Status]) -> Status:
        """What `work` returns; Ctrl-C and NaN end it, and what was best before is kept."""
        try:
            return work()
        except KeyboardInterrupt as interrupt:
            if self.communicator.size > 1 and not isinstance(interrupt, SharedInterrupt):
                raise  # on this process alone: the others are elsewhere, no sum can follow
            return Status.INTERRUPTED
        except NonFiniteError as error:
            sentence = str(error)
            self.remark(sentence[:1].upper() + sentence[1:])
            return Status.NON_FINITE

    def report(
        self,
        objective: float,
        theta: Callable[[], Tensor],
        *,
        certificate: Certificate | None = None,
        details: dict[str, float] | None = None,
    ) -> Status | None:
        """Record an evaluated point and tell the callbacks; a status if one of them asks to stop.

        `theta` makes the point (d,) for those who want to see it.
        """
        budget = self.budget
        self.best = min(self.best, objective)
        record = {
            "iteration": budget.iteration,
            "seconds": budget.seconds,
            "objective": objective,
            "best": self.best,
        }
        self.history.add(record | (details or {}))
        asked_to_stop = False
        if self.callbacks:
            progress = Progress(
                budget.iteration, budget.seconds, objective, self.best, certificate,
                budget.progress, theta(),
            )  # fmt: skip
            # Every callback hears of the point, also when an earlier one asks to stop.
            answers = [callback(progress) is True for callback in self.callbacks]
            asked_to_stop = any(answers)
        if any(self.communicator.largest([float(asked_to_stop)])):
            return Status.STOPPED
        return None

    def remark(self, remark: str) -> None:
        """Say once, in the result and in the log, what the run had to change or leave out."""
        if remark not in self.remarks:
            self.remarks.append(remark)
            _LOG.warning(remark)


def check_callbacks(callbacks: Iterable[Callback] | Any) -> tuple[Callback, ...]:
    """The callbacks as a tuple of functions."""
    try:
        functions = tuple(callbacks)
    except TypeError:
        functions = (None,)
    if not all(callable(given) and not isinstance(given, type) for given in functions):
        raise InvalidInputError(
            "callbacks must be functions in a list or tuple, such as [EarlyStopping()]; got"
            f" {shown(callbacks)}."
        )
    return functions
