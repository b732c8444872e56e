"""One clock for all processes, and Ctrl-C that reaches all of them in the same step."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import torch

from proxlin.problem.parallel.communicator import Communicator


class SharedInterrupt(KeyboardInterrupt):
    """Ctrl-C that all processes hear at the same place of the same step."""


class SharedClock:
    """The clock of rank 0, as of the last `renew`: schedules read off it agree everywhere.

    `renew` also raises SharedInterrupt on all processes if Ctrl-C was pressed on any of them: a
    KeyboardInterrupt in the middle of a step on one alone leaves the others waiting for its sums.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._interrupted = False
        self._before: Any = None  # the handler of Ctrl-C outside
        self._now = 0.0
        self.renew()

    def __call__(self) -> float:
        """The last reading."""
        return self._now

    def renew(self) -> None:
        """Read the clock of rank 0 on all processes."""
        mine = time.perf_counter() if self._communicator.leads else 0.0
        readings = torch.tensor([mine, float(self._interrupted)], dtype=torch.float64)
        self._now, interrupted = self._communicator.sum(readings).tolist()
        if interrupted:
            self._interrupted = False
            raise SharedInterrupt

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """Inside, Ctrl-C waits for the next `renew`; a second one ends this process at once."""
        if threading.current_thread() is not threading.main_thread():  # Python forbids it there
            yield
            return
        self._before = signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            signal.default_int_handler(number, frame)
        self._interrupted = True
        if callable(self._before):  # whoever keeps count of them should know
            with suppress(KeyboardInterrupt):
                self._before(number, frame)


def clock_of(communicator: Communicator) -> Callable[[], float]:
    """The clock of rank 0 for several processes, a plain one for a process by itself."""
    return time.perf_counter if communicator.size == 1 else SharedClock(communicator)


@contextmanager
def interrupted_together(clock: Callable[[], float]) -> Iterator[None]:
    """Inside, Ctrl-C is heard by all processes that share the clock, in the same step."""
    if isinstance(clock, SharedClock):
        with clock.interrupts():
            yield
        return
    yield
