"""Signals that wait for the end of a step: between two steps a run can be kept, within one not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int


class DeferredSignals:
    """While they are held, Ctrl-C and SIGTERM only ask for the end; the second one insists."""

    def __init__(self) -> None:
        self._came: list[int] = []  # the numbers of the signals, in their order
        self._before: dict[int, _Handler] = {}

    @property
    def asked(self) -> int | None:
        """The number of the first signal that came."""
        return self._came[0] if self._came else None

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
        """Give the handlers back, and to them the signals that came: by default SIGTERM ends all.

        Python's own handler of Ctrl-C is left out: the run has ended for it, and returns.
        """
        handlers, self._before = self._before, {}
        for number, before in handlers.items():
            signal.signal(number, before)
        for number in dict.fromkeys(self._came):
            if handlers.get(number) is not signal.default_int_handler:
                signal.raise_signal(number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)
        if len(self._came) > 1:
            raise KeyboardInterrupt
