"""Checkpoints: where a run keeps itself, how often, and how many are kept."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxlin._checks import check_count, check_positive
from proxlin.errors import InvalidInputError


@dataclass(frozen=True)
class Checkpoints:
    """A folder of checkpoints, one written whenever either interval has passed, and at the end.

    The folder belongs to one run. The same call of `minimize` goes on from what it finds there.

    >>> Checkpoints("run", every_seconds=None, every_steps=100)
    Checkpoints(folder='run', every_seconds=None, every_steps=100, keep=2)
    """

    folder: str | os.PathLike[str]
    every_seconds: float | None = field(default=60.0, kw_only=True)
    every_steps: int | None = field(default=None, kw_only=True)
    keep: int = field(default=2, kw_only=True)  # the latest ones; the others are removed

    def __post_init__(self) -> None:
        if not _is_path(self.folder):
            raise InvalidInputError(
                f"Checkpoints(folder=...) must be the path of a folder; got {self.folder!r}."
            )
        if self.every_seconds is not None:
            check_positive("Checkpoints(every_seconds=...)", self.every_seconds)
        if self.every_steps is not None:
            check_count("Checkpoints(every_steps=...)", self.every_steps)
        check_count("Checkpoints(keep=...)", self.keep)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)


def _is_path(asked: Any) -> bool:
    """Whether it may name a folder: a text or path, not empty and without NUL."""
    return isinstance(asked, str | os.PathLike) and "\0" not in (os.fspath(asked) or "\0")


def as_checkpoints(asked: Any) -> Checkpoints:
    """The settings themselves, or the defaults in the folder that is named."""
    if isinstance(asked, Checkpoints):
        return asked
    if _is_path(asked):
        return Checkpoints(asked)
    raise InvalidInputError(
        f"checkpoint must be the path of a folder or Checkpoints(folder, ...); got {asked!r}."
    )
