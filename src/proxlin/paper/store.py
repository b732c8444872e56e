"""The files of an experiment: one JSON file for each finished cell, written whole or not at all."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proxlin.run.storage import dump_checked, json_values, without_checksum, write_whole

FORMAT = 1  # of the files; a file of another format is not read

Record = dict[str, Any]

_LOG = logging.getLogger("proxlin")


class Store:
    """A folder of records by name.

    A record is taken as finished only if its file can be read, its checksum is right and its
    "config" is the one asked for; otherwise a warning says what is wrong and it counts as missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where the record called `name` is or will be."""
        return self.folder / f"{name}.json"

    def read(self, name: str, config: Mapping[str, Any]) -> Record | None:
        """The finished record, or None if it has to be made."""
        path = self.path(name)
        try:
            record = _parse(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as cause:
            _LOG.warning("%s is damaged (%s) and will be made anew.", path, cause)
            return None
        if record["config"] != json_values(config):
            _LOG.warning("%s comes from other settings and will be made anew.", path)
            return None
        return record

    def write(self, name: str, record: Record) -> None:
        """Put the record into its file: write beside it, flush to the disk, rename."""
        write_whole(
            self.path(name), dump_checked({"format": FORMAT, **json_values(record)}, indent=1)
        )


def pack(theta: Tensor) -> str:
    """The parameters as text: base64 of little-endian float32."""
    return base64.b64encode(theta.detach().cpu().numpy().astype("<f4").tobytes()).decode()


def unpack(text: str) -> Tensor:
    """The parameters that `pack` wrote."""
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float32))


def _parse(content: bytes) -> Record:
    record = json.loads(content)
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        raise ValueError("not a record")
    if record.get("format") != FORMAT:
        raise ValueError(f"format {record.get('format')!r} instead of {FORMAT}")
    body = without_checksum(record)
    if body is None:
        raise ValueError("its checksum is wrong")
    return body
