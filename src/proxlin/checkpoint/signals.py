"""Signals that wait for the end of a step: between two steps a run can be kept, within one not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int


class PatientSignals:
    """While they are held, Ctrl-C and SIGTERM only ask for the end; the second one insists."""

    def __init__(self) -> None:
        self.asked: int | None = None  # the number of the first signal that came
        self._before: dict[int, _Handler] = {}

    def hold(self) -> None:
        """Take the place of the handlers; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if before not in (None, signal.SIG_IGN):  # None: not Python's to give back
                signal.signal(number, self._note)
                self._before[number] = before

    def release(self) -> None:
        """Give the handlers back, and SIGTERM, if it came, to its own: by default, it ends all."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
        if self.asked == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.asked is not None:
            raise KeyboardInterrupt
        self.asked = number
