"""Keeper: writes the checkpoints of one run beside it, and finds the one to go on from."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timezone
from types import TracebackType
from typing import Any

from proxlin.errors import CheckpointError
from proxlin.run.checkpoint.folder import Shelf
from proxlin.run.checkpoint.owner import first_difference
from proxlin.run.checkpoint.parts import Parts, take_apart
from proxlin.run.checkpoint.settings import Checkpoints
from proxlin.run.checkpoint.signals import PatientSignals
from proxlin.run.storage import locked

_LOG = logging.getLogger("proxlin")


class Keeper:
    """Holds the folder while a run goes on; writes at most one checkpoint at a time.

    The memory is copied between two steps and written by a thread while the next ones are taken.
    """

    def __init__(self, settings: Checkpoints, owner: dict[str, Any]) -> None:
        self.settings = settings
        self.owner = owner
        self.shelf = Shelf(settings.path)
        self.signals = PatientSignals()
        self._ours: list[int] = []  # numbers of the checkpoints that may be removed in their turn
        self._number = 0  # of the latest checkpoint in the folder
        self._latest = (0, 0.0)  # step and time of the latest one begun
        self._writing: Future[None] | None = None
        self._held = ExitStack()

    def __enter__(self) -> Keeper:
        try:
            self._held.enter_context(locked(self.settings.path, "another checkpoint folder"))
            self.shelf.tidy()
        except OSError as cause:
            self._held.close()
            raise CheckpointError(
                f"checkpoints cannot be kept in {self.settings.path}: {cause.strerror}."
                " Choose another folder."
            ) from cause
        self._threads = self._held.enter_context(ThreadPoolExecutor(max_workers=1))
        self.signals.hold()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._held.close()  # waits for the thread
        finally:
            self.signals.release()

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal wants the run to end after this step."""
        return self.signals.asked is not None

    def newest(self) -> Parts | None:
        """The latest checkpoint of this run that is whole; None in an empty folder.

        Files that are not are named in a warning and left where they are.
        """
        numbers = self.shelf.numbers()
        self._number = max(numbers, default=0)
        refusals = []
        for number in reversed(numbers):
            try:
                parts, about = self.shelf.read(number)
                if difference := first_difference(self.owner, about.get("owner", {})):
                    raise CheckpointError(f"{self.shelf.path(number)} is refused: {difference}.")
            except CheckpointError as refusal:
                refusals.append(str(refusal))
                _LOG.warning("%s An older checkpoint is looked for.", refusal)
                continue
            self._ours = [one for one in numbers if one <= number]
            return parts
        if refusals:
            raise CheckpointError(
                f"no checkpoint in {self.settings.path} can be gone on from. {' '.join(refusals)}"
                " Choose another folder, or empty this one to begin anew."
            )
        return None

    def begin(self, step: int, memory: dict[str, Any]) -> None:
        """Count the intervals from here; a memory that cannot be kept is refused now, not later."""
        take_apart(memory)
        self._latest = (step, time.monotonic())

    def due(self, step: int) -> bool:
        """Whether it is time for a checkpoint and none is being written."""
        if self._writing is not None and not self._writing.done():
            return False
        steps, seconds = self.settings.every_steps, self.settings.every_seconds
        latest, then = self._latest
        return (steps is not None and step - latest >= steps) or (
            seconds is not None and time.monotonic() - then >= seconds
        )

    def keep(self, step: int, memory: dict[str, Any], *, wait: bool = False) -> list[str]:
        """Begin to write a checkpoint; returns what went wrong with the one before, or with this.

        `wait` until it is written.
        """
        troubles = self.wait()
        self._latest = (step, time.monotonic())
        self._number += 1
        self._writing = self._threads.submit(self._write, self._number, take_apart(memory))
        return troubles + (self.wait() if wait else [])

    def wait(self) -> list[str]:
        """Wait for the checkpoint that is being written; a sentence if it could not be."""
        writing, self._writing = self._writing, None
        error = None if writing is None else writing.exception()
        if error is None:
            return []
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return [
            f"A checkpoint could not be written to {self.settings.path}: {reason}."
            " The run went on without it."
        ]

    def _write(self, number: int, parts: Parts) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.shelf.write(number, parts, {"owner": self.owner, "written": now})
        self._ours.append(number)
        while len(self._ours) > self.settings.keep:
            self.shelf.remove(self._ours.pop(0))
