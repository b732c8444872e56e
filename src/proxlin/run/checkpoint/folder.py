"""The files of checkpoints: numbered pairs of tensors and JSON, each whole and checked, or refused.

`checkpoint-000007.safetensors` holds the tensors, `checkpoint-000007.json` everything else and the
checksums of both. The JSON is written last: a checkpoint without it was never finished.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from proxlin.errors import CheckpointError
from proxlin.run.checkpoint.serialize import Serialized
from proxlin.run.storage import (
    clear_parts,
    digest,
    dump_checked,
    parse_json,
    read_regular,
    without_checksum,
    write_whole,
)

FORMAT = 1  # of the files; a change that older versions cannot read raises it

_NAME = re.compile(r"checkpoint-(\d+)\.(json|safetensors)")


class CheckpointFolder:
    """The checkpoints of one folder, by number; a later one has a higher number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self, suffix: str = "json") -> list[int]:
        """The numbers of the checkpoints that were finished, lowest first."""
        matches = [_NAME.fullmatch(path.name) for path in self.folder.glob("checkpoint-*")]
        return sorted(int(name[1]) for name in matches if name and name[2] == suffix)

    def path(self, number: int, suffix: str = "json") -> Path:
        """Where one of the two files of a checkpoint is or will be."""
        return self.folder / f"checkpoint-{number:06d}.{suffix}"

    def write(self, number: int, parts: Serialized, about: Mapping[str, Any]) -> None:
        """Put both files in their place, the tensors first."""
        tensors = save(parts.tensors)
        write_whole(self.path(number, "safetensors"), tensors)
        content = {
            "format": FORMAT,
            "about": about,
            "memory": parts.tree,
            "tensors": {"bytes": len(tensors), "sha256": digest(tensors)},
        }
        try:
            write_whole(self.path(number), dump_checked(content))
        except OSError:
            self.remove(number)  # the tensors alone would only fill the disk
            raise

    def read(self, number: int) -> tuple[Serialized, dict[str, Any]]:
        """The memory and what it is about; a `CheckpointError` says what is wrong with a file."""
        content = _content(self.path(number))
        tensors = self.path(number, "safetensors")
        try:
            raw = read_regular(tensors)
        except OSError as cause:
            raise CheckpointError(f"{tensors} cannot be read: {cause.strerror}.") from cause
        expected = content["tensors"]
        if len(raw) != expected["bytes"]:
            raise CheckpointError(
                f"{tensors} must have {expected['bytes']:,} bytes; got {len(raw):,}."
            )
        if digest(raw) != expected["sha256"]:
            raise CheckpointError(f"{tensors} is damaged: its checksum is wrong.")
        try:
            return Serialized(content["memory"], load(raw)), content["about"]
        except (SafetensorError, ValueError, KeyError, RuntimeError) as cause:
            raise CheckpointError(f"{tensors} holds no tensors: {cause}.") from cause

    def remove(self, number: int) -> None:
        """Remove a checkpoint; without its JSON it is none any more, whatever happens next."""
        for suffix in ("json", "safetensors"):
            self.path(number, suffix).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove what a killed process left unfinished. Only for the holder of the folder."""
        clear_parts(self.folder)
        for number in set(self.numbers("safetensors")) - set(self.numbers()):
            self.path(number, "safetensors").unlink(missing_ok=True)


def _content(path: Path) -> dict[str, Any]:
    """What the JSON file says, its version and its checksum found right."""
    try:
        whole = parse_json(read_regular(path))
    except OSError as cause:
        raise CheckpointError(f"{path} cannot be read: {cause.strerror}.") from cause
    except ValueError as cause:
        raise CheckpointError(f"{path} is damaged: it is no whole JSON.") from cause
    if not isinstance(whole, dict) or not isinstance(whole.get("format"), int):
        raise CheckpointError(f"{path} is no checkpoint of proxlin.")
    if whole["format"] > FORMAT:
        raise CheckpointError(
            f"{path} has format {whole['format']}, newer than the {FORMAT} that this version"
            " reads; update proxlin."
        )
    content = without_checksum(whole)
    if content is None:
        raise CheckpointError(f"{path} is damaged: its checksum is wrong.")
    tensors, about = content.get("tensors"), content.get("about")
    if (
        not isinstance(tensors, dict)
        or not isinstance(tensors.get("bytes"), int)
        or not isinstance(about, dict)
        or not isinstance(about.get("owner"), dict)
        or "memory" not in content
    ):
        raise CheckpointError(f"{path} is no checkpoint of proxlin: parts of it are missing.")
    return content
