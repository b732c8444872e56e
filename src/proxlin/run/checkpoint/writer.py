"""CheckpointWriter: writes the checkpoints of one run, and finds the one to go on from."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, TypeVar

from proxlin.errors import CheckpointError, InvalidInputError
from proxlin.problem.parallel import Communicator
from proxlin.run.checkpoint.folder import CheckpointFolder
from proxlin.run.checkpoint.same_run import first_difference
from proxlin.run.checkpoint.serialize import Serialized, serialize
from proxlin.run.checkpoint.settings import Checkpoints
from proxlin.run.checkpoint.signals import DeferredSignals
from proxlin.run.storage import locked

_LOG = logging.getLogger("proxlin")

T = TypeVar("T")


class CheckpointWriter:
    """Holds the folder while a run goes on; writes at most one checkpoint at a time.

    The memory is copied between two steps and written by a thread while the next ones are taken.
    """

    def __init__(self, settings: Checkpoints, owner: dict[str, Any]) -> None:
        self.settings = settings
        self.owner = owner
        self.folder = CheckpointFolder(settings.path)
        self.signals = DeferredSignals()
        self._ours: list[int] = []  # numbers of the checkpoints that may be removed in their turn
        self._number = 0  # of the latest checkpoint in the folder
        self._latest = (0, 0.0)  # step and time of the latest one begun
        self._writing: Future[None] | None = None
        self._held = ExitStack()

    def __enter__(self) -> CheckpointWriter:
        try:
            self._held.enter_context(locked(self.settings.path, "another checkpoint folder"))
            self.folder.tidy()
        except OSError as cause:
            self._held.close()
            raise CheckpointError(
                f"checkpoints cannot be kept in {self.settings.path}: {cause.strerror}."
                " Choose another folder."
            ) from cause
        self._threads = self._held.enter_context(ThreadPoolExecutor(max_workers=1))
        self.signals.hold()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._held.close()  # waits for the thread
        finally:
            self.signals.release()

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal wants the run to end after this step."""
        return self.signals.asked is not None

    def newest(self) -> Serialized | None:
        """The latest checkpoint of this run that is whole; None in an empty folder.

        Files that are not are named in a warning and left where they are.
        """
        numbers = self.folder.numbers()
        self._number = max(numbers, default=0)
        refusals = []
        for number in reversed(numbers):
            try:
                parts, about = self.folder.read(number)
                if difference := first_difference(self.owner, about.get("owner", {})):
                    raise CheckpointError(f"{self.folder.path(number)} is refused: {difference}.")
            except CheckpointError as refusal:
                refusals.append(str(refusal))
                _LOG.warning("%s An older checkpoint is looked for.", refusal)
                continue
            self._ours = [older for older in numbers if older <= number]
            return parts
        if refusals:
            raise CheckpointError(
                f"no checkpoint in {self.settings.path} can be gone on from. {' '.join(refusals)}"
                " Choose another folder, or empty this one to begin anew."
            )
        return None

    def begin(self, step: int, memory: dict[str, Any]) -> None:
        """Count the intervals from here; a memory that cannot be kept is refused now, not later."""
        serialize(memory)
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
        self._writing = self._threads.submit(self._write, self._number, serialize(memory))
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

    def _write(self, number: int, parts: Serialized) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.folder.write(number, parts, {"owner": self.owner, "written": now})
        self._ours.append(number)
        while len(self._ours) > self.settings.keep:
            self.folder.remove(self._ours.pop(0))


class SharedCheckpointWriter(CheckpointWriter):
    """A writer on every process; what rank 0 finds and decides counts for all.

    All that a run remembers is the same on every process, so that a run may go on with another
    number of them. A signal to any one ends the run on all of them after the same step.
    """

    def __init__(
        self, settings: Checkpoints, owner: dict[str, Any], communicator: Communicator
    ) -> None:
        super().__init__(settings, owner)
        self._communicator = communicator

    def __enter__(self) -> CheckpointWriter:
        self._on_first_rank(super().__enter__)
        if not self._communicator.leads:
            self.signals.hold()
        return self

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal to any process wants the run to end after this step."""
        return any(self._communicator.largest([float(super().asked_to_stop)]))

    def newest(self) -> Serialized | None:
        """The checkpoint that rank 0 finds."""
        return self._on_first_rank(super().newest)

    def due(self, step: int) -> bool:
        """Whether rank 0 finds that it is time."""
        time_for_it = self._communicator.leads and super().due(step)
        return any(self._communicator.largest([float(time_for_it)]))

    def keep(self, step: int, memory: dict[str, Any], *, wait: bool = False) -> list[str]:
        """Rank 0 begins to write; what went wrong is known to all."""
        write = super().keep
        return self._on_first_rank(lambda: write(step, memory, wait=wait)) or []

    def _on_first_rank(self, work: Callable[[], T]) -> T | None:
        """What the work of rank 0 gives or raises, on all processes; a writer stays where it is."""
        answer: T | None = None
        refusal: InvalidInputError | None = None
        if self._communicator.leads:
            try:
                answer = work()
            except InvalidInputError as error:
                refusal = error
        shared: T | None = None if isinstance(answer, CheckpointWriter) else answer
        reason = None if refusal is None else str(refusal)
        shared, reason = self._communicator.first((shared, reason))
        if refusal is not None:
            raise refusal
        if reason is not None:
            raise CheckpointError(reason)
        return shared


def writer_for(
    settings: Checkpoints, owner: dict[str, Any], communicator: Communicator
) -> CheckpointWriter:
    """The writer of a run by one process or by several."""
    if communicator.size == 1:
        return CheckpointWriter(settings, owner)
    return SharedCheckpointWriter(settings, owner, communicator)
