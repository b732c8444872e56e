"""Checkpoints: what a run remembers, kept in files that a later run goes on from."""

from __future__ import annotations

from proxlin.run.checkpoint.keeper import Keeper
from proxlin.run.checkpoint.owner import owner_of
from proxlin.run.checkpoint.parts import Parts, put_together, take_apart
from proxlin.run.checkpoint.resume import check_objective, still_over
from proxlin.run.checkpoint.settings import Checkpoints, as_checkpoints
from proxlin.run.checkpoint.shared import keeper_for

__all__ = [
    "Checkpoints",
    "Keeper",
    "Parts",
    "as_checkpoints",
    "check_objective",
    "keeper_for",
    "owner_of",
    "put_together",
    "still_over",
    "take_apart",
]
