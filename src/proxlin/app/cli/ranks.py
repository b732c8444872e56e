"""Commands under torchrun: rank 0 speaks and writes, the others work."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from proxlin.errors import ProxlinError
from proxlin.problem.parallel import communicator


def leads() -> bool:
    """Whether this process speaks and writes."""
    return communicator().leads


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
