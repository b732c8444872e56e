"""Checkpoints of a run over several processes: rank 0 reads and writes, all go on from the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from proxlin.errors import CheckpointError, InvalidInputError
from proxlin.problem.parallel import Communicator
from proxlin.run.checkpoint.keeper import Keeper
from proxlin.run.checkpoint.parts import Parts
from proxlin.run.checkpoint.settings import Checkpoints

T = TypeVar("T")


class SharedKeeper(Keeper):
    """A keeper on every process; what rank 0 finds and decides counts for all.

    All that a run remembers is the same on every process, so that a run may go on with another
    number of them. A signal to any one ends the run on all of them after the same step.
    """

    def __init__(
        self, settings: Checkpoints, owner: dict[str, Any], communicator: Communicator
    ) -> None:
        super().__init__(settings, owner)
        self._communicator = communicator

    def __enter__(self) -> Keeper:
        self._by_the_first(super().__enter__)
        if not self._communicator.leads:
            self.signals.hold()
        return self

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal to any process wants the run to end after this step."""
        return any(self._communicator.largest([float(super().asked_to_stop)]))

    def newest(self) -> Parts | None:
        """The checkpoint that rank 0 finds."""
        return self._by_the_first(super().newest)

    def due(self, step: int) -> bool:
        """Whether rank 0 finds that it is time."""
        time_for_it = self._communicator.leads and super().due(step)
        return any(self._communicator.largest([float(time_for_it)]))

    def keep(self, step: int, memory: dict[str, Any], *, wait: bool = False) -> list[str]:
        """Rank 0 begins to write; what went wrong is known to all."""
        write = super().keep
        return self._by_the_first(lambda: write(step, memory, wait=wait)) or []

    def _by_the_first(self, work: Callable[[], T]) -> T | None:
        """What the work of rank 0 gives or raises, on all processes; a keeper stays where it is."""
        found: T | None = None
        refusal: InvalidInputError | None = None
        if self._communicator.leads:
            try:
                found = work()
            except InvalidInputError as error:
                refusal = error
        told = None if isinstance(found, Keeper) else found
        told, reason = self._communicator.first((told, None if refusal is None else str(refusal)))
        if refusal is not None:
            raise refusal
        if reason is not None:
            raise CheckpointError(reason)
        answer: T | None = told
        return answer


def keeper_for(settings: Checkpoints, owner: dict[str, Any], communicator: Communicator) -> Keeper:
    """The keeper of a run by one process or by several."""
    if communicator.size == 1:
        return Keeper(settings, owner)
    return SharedKeeper(settings, owner, communicator)
