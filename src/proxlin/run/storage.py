"""Files written whole or not at all, folders that one process holds, JSON with a checksum."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import socket
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from proxlin.errors import InvalidInputError

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> None:
        file.seek(2**20)  # the lock must not cover the text that others are to read
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


_PART = re.compile(r"\.[0-9a-f]{16}\.part")  # a file of ours that is being written
_CHECKSUM = "checksum"  # the key under which it stands beside the content


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
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):  # a full disk does not say which file it was
            error.filename, error.filename2 = str(path), None
        raise
    flush_folder(path.parent)


def read_regular(path: Path) -> bytes:
    """The content of a regular file; a pipe, a device or a link to one is refused at once.

    Raises OSError, also for a path that no file can have.
    """
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"):
        flags |= getattr(os, name, 0)
    try:
        handle = os.open(path, flags)  # a pipe without a writer does not wait
    except ValueError as cause:
        raise OSError(errno.EINVAL, str(cause), repr(str(path))) from cause
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    with os.fdopen(handle, "rb") as file:
        return file.read()


def parse_json(content: bytes) -> Any:
    """What the JSON says; ValueError for everything else, also if it is nested without end."""
    try:
        return json.loads(content)
    except RecursionError as cause:
        raise ValueError("it is nested too deep") from cause


def clear_parts(folder: Path) -> None:
    """Remove the files that a killed `write_whole` left half-written in this folder.

    Only for the holder of the folder's lock. What has another name or another owner stays, and so
    do folders and links.
    """
    for path in folder.glob(".*.part"):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if _PART.fullmatch(path.name) and stat.S_ISREG(status.st_mode) and _is_mine(status):
                path.unlink()


def _is_mine(status: os.stat_result) -> bool:
    """Whether this user made it; systems without owners have nobody else."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def flush_folder(folder: Path) -> None:
    """Make a rename in it last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def locked(folder: Path, instead: str = "another --out") -> Iterator[None]:
    """Hold the folder, or refuse with a sentence that names who holds it and what to use instead.

    The system frees the lock of a process that dies, however it dies, so that a file left behind
    keeps nobody out; what is written in it only serves the message. Nothing is written before the
    lock is held, and never through a link: the libraries for locks empty the file on opening.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _open_lock(folder / "proxlin.lock") as file:
        try:
            _try_lock(file)
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


def _open_lock(path: Path) -> IO[bytes]:
    """The lock file, made if there is none; anything but a regular file of one name is refused.

    It must belong to this user or to the folder's owner, who may do here as they please.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"):
        flags |= getattr(os, name, 0)
    refusal = (
        f"{path} must be a file of proxlin's own; got a link, a special file or one of another"
        " user. Remove it, or choose another folder."
    )
    if path.is_symlink():
        raise InvalidInputError(refusal)
    handle = os.open(path, flags, 0o666)
    status = os.fstat(handle)
    trusted = _is_mine(status) or status.st_uid == path.parent.stat().st_uid
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not trusted:
        os.close(handle)
        raise InvalidInputError(refusal)
    return os.fdopen(handle, "a+b")


def json_values(value: Any, *, infinity: bool = False) -> Any:
    """The value as JSON gives it back: tuples as lists; None for NaN and infinity, which it lacks.

    With `infinity` an infinite number is text.

    >>> json_values({1: (2, float("inf"))}), json_values(float("inf"), infinity=True)
    ({'1': [2, None]}, 'inf')
    """
    if isinstance(value, Mapping):
        return {str(key): json_values(item, infinity=infinity) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item, infinity=infinity) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value) if infinity and math.isinf(value) else None
    return value


def dump_checked(body: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """The body as JSON with its checksum; it must not hold NaN or infinity, which JSON lacks.

    >>> dump_checked({"a": 1})[:24]
    b'{"a": 1, "checksum": "01'
    """
    whole = {**body, _CHECKSUM: _checksum(body)}
    return json.dumps(whole, indent=indent, allow_nan=False).encode()


def without_checksum(whole: Mapping[str, Any]) -> dict[str, Any] | None:
    """The body of what was read from such JSON; None if its checksum is wrong.

    >>> without_checksum({"a": 2, "checksum": "01"}) is None
    True
    """
    body = {key: value for key, value in whole.items() if key != _CHECKSUM}
    return body if whole.get(_CHECKSUM) == _checksum(body) else None


def digest(content: bytes) -> str:
    """The SHA-256 of the content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _checksum(body: Mapping[str, Any]) -> str:
    return digest(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
