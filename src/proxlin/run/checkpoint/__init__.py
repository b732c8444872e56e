"""Checkpoints: what a run remembers, kept in files that a later run goes on from."""

from __future__ import annotations

from proxlin.run.checkpoint.same_run import check_course, check_objective, owner_of, still_over
from proxlin.run.checkpoint.serialize import Serialized, restore, serialize
from proxlin.run.checkpoint.settings import Checkpoints, as_checkpoints
from proxlin.run.checkpoint.writer import CheckpointWriter, writer_for

__all__ = [
    "CheckpointWriter",
    "Checkpoints",
    "Serialized",
    "as_checkpoints",
    "check_course",
    "check_objective",
    "owner_of",
    "restore",
    "serialize",
    "still_over",
    "writer_for",
]
