"""Ctrl-C that is not lost, though compiled code may drop or change the exception it meets."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupts:
    """Within it, Ctrl-C raises KeyboardInterrupt as ever and is remembered besides."""

    def __init__(self) -> None:
        self.hit = False
        self._before: object = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python forbids it
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]
        if self.hit and isinstance(error, Exception):
            raise KeyboardInterrupt from error

    def check(self) -> None:
        """Raise if Ctrl-C was pressed and nobody heard."""
        if self.hit:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.hit = True
        signal.default_int_handler(number, frame)
