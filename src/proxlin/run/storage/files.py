"""Files that are written whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file by `content` at once: readers see the old content or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        with beside.open("xb") as file:  # with the permissions that the user's mask leaves
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def clear_parts(folder: Path) -> None:
    """Remove the files that a killed process left half-written in this folder, not below it.

    Only for the holder of the folder's lock.
    """
    for path in folder.glob(".*.part"):
        if not path.is_dir():  # of others, who have a lock of their own
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Make a rename in it last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
