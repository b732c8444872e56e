"""Model folders on the disk: they appear complete or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from proxlin.errors import InvalidInputError
from proxlin.run.storage import flush_folder, locked, write_whole

MODEL, ARRAYS = "model.json", "model.safetensors"
FILES = (MODEL, ARRAYS, "metrics.json", "predictions.csv", "report.html")

_NEW, _OLD = "new", "old"  # in the folder beside, while a model is written
_LOCK = "proxlin.lock"


def check_destination(folder: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, a folder that could not be written or that holds other things.

    What a killed process left beside it is put right first: an old model is put back.
    """
    try:
        _clear_leftovers(Path(os.path.abspath(folder)))
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InvalidInputError(f"{folder} is no folder; choose another --out.")
        if folder.exists():
            _check_replaceable(folder, overwrite=overwrite)
        with tempfile.TemporaryDirectory(dir=_nearest_folder(folder), prefix=".proxlin-"):
            pass
    except OSError as cause:
        raise _refusal(folder, cause) from cause


def write_folder(folder: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    """Put all files into a folder beside, flush them to the disk, and give it its name.

    An old folder is away between two renames; whatever happens there, it is put back, by this
    call or, after a kill, by the next `check_destination`.
    """
    check_destination(folder, overwrite=overwrite)
    whole = Path(os.path.abspath(folder))
    try:
        whole.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=whole.parent, prefix=f".{whole.name}.", suffix=".part"))
    except OSError as cause:
        raise _refusal(folder, cause) from cause
    try:
        with locked(beside):  # so that nobody takes it for a leftover
            try:
                for name, content in files.items():
                    write_whole(beside / _NEW / name, content)
                with suppress(FileNotFoundError):
                    os.rename(whole, beside / _OLD)
                os.rename(beside / _NEW, whole)
                flush_folder(whole.parent)
            finally:
                _put_back(beside, whole)
    except OSError as cause:
        raise _refusal(folder, cause) from cause
    finally:
        _remove(beside, whole)


def _put_back(beside: Path, whole: Path) -> None:
    """Give an old model that is nowhere else its name again."""
    old = beside / _OLD
    if not old.exists() or os.path.lexists(whole):
        return
    try:
        os.rename(old, whole)
    except OSError as cause:
        raise InvalidInputError(
            f"{whole} cannot be put back: {cause.strerror or cause}. It is kept as {old}; rename"
            " it yourself."
        ) from cause
    flush_folder(whole.parent)


def _remove(beside: Path, whole: Path) -> None:
    if os.path.lexists(whole) or not (beside / _OLD).exists():  # the only copy stays
        shutil.rmtree(beside, ignore_errors=True)


def _clear_leftovers(whole: Path) -> None:
    """Put right what killed processes left of this folder, unless a living one works on it."""
    name = re.compile(rf"\.{re.escape(whole.name)}\.[a-z0-9_]{{8}}\.part")
    for beside in list(whole.parent.iterdir()) if whole.parent.is_dir() else ():
        if not name.fullmatch(beside.name) or beside.is_symlink() or not beside.is_dir():
            continue
        if _is_ours(beside):
            with ExitStack() as held:
                try:
                    held.enter_context(locked(beside))
                except InvalidInputError:
                    continue
                _put_back(beside, whole)
            _remove(beside, whole)


def _is_ours(beside: Path) -> bool:
    """Whether this user's process made it: others may write into a shared folder, too."""
    parts = list(beside.iterdir())
    mine = [beside, *parts]
    return (
        {path.name for path in parts} <= {_NEW, _OLD, _LOCK}
        and not any(path.is_symlink() for path in parts)
        and (not hasattr(os, "getuid") or all(p.stat().st_uid == os.getuid() for p in mine))
        and all(path.name in FILES for part in parts if part.is_dir() for path in part.iterdir())
    )


def _check_replaceable(folder: Path, *, overwrite: bool) -> None:
    present = sorted(path.name for path in folder.iterdir())
    strangers = [name for name in present if name not in FILES]
    if strangers:
        raise InvalidInputError(
            f"{folder} holds {strangers[0]!r}, which is not of a saved model and would be lost;"
            " choose another --out."
        )
    if present and not overwrite:
        raise InvalidInputError(
            f"{folder} already holds a model; add --overwrite to replace it (in Python"
            " overwrite=True)."
        )


def _refusal(folder: Path, cause: OSError) -> InvalidInputError:
    reason = cause.strerror or str(cause)
    return InvalidInputError(f"{folder} cannot be written: {reason}. Choose another --out.")


def _nearest_folder(folder: Path) -> Path:
    """The nearest one above it that exists: a folder is replaced as a whole, from there."""
    above = Path(os.path.abspath(folder)).parents
    nearest = next((path for path in above if path.exists()), Path(os.sep))
    if not nearest.is_dir():
        raise InvalidInputError(
            f"{folder} cannot be made: {nearest} is a file. Choose another --out."
        )
    return nearest
