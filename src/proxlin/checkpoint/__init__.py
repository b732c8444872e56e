"""Checkpoints: what a run remembers, kept in files that a later run goes on from."""

from __future__ import annotations

from proxlin.checkpoint.parts import Parts, put_together, take_apart

__all__ = ["Parts", "put_together", "take_apart"]
