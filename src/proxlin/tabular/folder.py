"""Model folders on the disk: they appear complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from proxlin.errors import InvalidInputError
from proxlin.files import write_whole

MODEL, ARRAYS = "model.json", "model.safetensors"
FILES = (MODEL, ARRAYS, "metrics.json", "predictions.csv", "report.html")


def check_destination(folder: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, a folder that could not be written or that holds other things."""
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InvalidInputError(f"{folder} is no folder; choose another --out.")
        if folder.exists():
            _check_replaceable(folder, overwrite=overwrite)
        with tempfile.TemporaryDirectory(dir=_nearest_folder(folder), prefix=".proxlin-"):
            pass
    except OSError as cause:
        raise _refusal(folder, cause) from cause


def write_folder(folder: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    """Put all files into a folder beside, flush them to the disk, and give it its name."""
    check_destination(folder, overwrite=overwrite)
    whole = Path(os.path.abspath(folder))
    try:
        whole.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=whole.parent, prefix=f".{whole.name}.", suffix=".part"))
    except OSError as cause:
        raise _refusal(folder, cause) from cause
    try:
        fresh, old = beside / "new", beside / "old"
        for name, content in files.items():
            write_whole(fresh / name, content)
        with suppress(FileNotFoundError):
            os.rename(whole, old)  # one rename away from the new folder, and back if that fails
        try:
            os.rename(fresh, whole)
        except BaseException:
            if old.exists():
                os.rename(old, whole)
            raise
    except OSError as cause:
        raise _refusal(folder, cause) from cause
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _check_replaceable(folder: Path, *, overwrite: bool) -> None:
    present = sorted(path.name for path in folder.iterdir())
    strangers = [name for name in present if name not in FILES]
    if strangers:
        raise InvalidInputError(
            f"{folder} holds {strangers[0]!r}, which is not of a saved model and would be lost;"
            " choose another --out."
        )
    if present and not overwrite:
        raise InvalidInputError(f"{folder} already holds a model; add --overwrite to replace it.")


def _refusal(folder: Path, cause: OSError) -> InvalidInputError:
    told = cause.strerror or str(cause)
    return InvalidInputError(f"{folder} cannot be written: {told}. Choose another --out.")


def _nearest_folder(folder: Path) -> Path:
    """The nearest one above it that exists: a folder is replaced as a whole, from there."""
    above = Path(os.path.abspath(folder)).parents
    found = next((path for path in above if path.exists()), Path(os.sep))
    if not found.is_dir():
        raise InvalidInputError(
            f"{folder} cannot be made: {found} is a file. Choose another --out."
        )
    return found
