"""A folder belongs to one process at a time."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from proxlin.errors import InvalidInputError

if sys.platform == "win32":
    import msvcrt

    def _grab(file: IO[bytes]) -> None:
        file.seek(2**20)  # the lock must not cover the text that others are to read
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _grab(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Path, instead: str = "another --out") -> Iterator[None]:
    """Hold the folder, or refuse with a sentence that names who holds it and what to use instead.

    The system frees the lock of a process that dies, however it dies, so that a file left behind
    keeps nobody out; what is written in it only serves the message.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "proxlin.lock"
    with path.open("a+b") as file:
        try:
            _grab(file)
        except OSError as cause:
            file.seek(0)
            holder = file.read(200).decode(errors="replace").strip() or "another process"
            raise InvalidInputError(
                f"{folder} is in use by {holder}. Wait for it to end, or choose {instead}."
            ) from cause
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
