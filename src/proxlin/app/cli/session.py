"""The process a command runs in: Ctrl-C that is not lost, and who speaks under torchrun.

Under torchrun rank 0 speaks and writes, the others work.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from types import FrameType

from proxlin.errors import ProxlinError


class Interrupts:
    """Within it, Ctrl-C raises KeyboardInterrupt as ever and is remembered besides.

    Compiled code may drop or change the exception it meets.
    """

    def __init__(self) -> None:
        self.hit = False
        self._before: object = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python forbids it
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
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


def leads() -> bool:
    """Whether this process speaks and writes."""
    if "RANK" not in os.environ:
        return True  # torch, which takes seconds to load, is not asked
    launch = import_module("proxlin.problem.parallel.launch")
    return bool(launch.communicator().leads)


def quiet_unless_leading() -> None:
    """Let the other processes say nothing but what is theirs alone."""
    if not leads():
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  (to the end of the process)
        logging.getLogger("proxlin").setLevel(logging.ERROR)


def worth_saying(error: Exception) -> bool:
    """Bad input is the same everywhere and said once; files and networks fail one by one."""
    if isinstance(error, OSError):
        return True
    try:
        return leads()
    except ProxlinError:  # the processes never met, and the error says why
        return os.environ.get("RANK", "0") == "0"
