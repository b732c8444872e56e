"""Budget: how much of a run's time and steps is used."""

from __future__ import annotations

import time
from collections.abc import Callable

from proxlin._checks import check_count, check_positive
from proxlin.result import Status


class Budget:
    """The time and step limits of one run; methods read their schedules off `progress`.

    `clock` tells the seconds; `time.process_time` for seconds of the processor. A clock that
    several processes share has a method `renew`, which all of them call at the same time.
    """

    def __init__(
        self,
        max_seconds: float | None,
        max_iter: int | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.max_seconds = (
            None if max_seconds is None else check_positive("max_seconds", max_seconds)
        )
        self.max_iter = None if max_iter is None else check_count("max_iter", max_iter, minimum=0)
        self.iteration = 0
        self.reserve = 0.0  # seconds kept back for the last evaluation
        self._clock = clock
        self._renew: Callable[[], None] | None = getattr(clock, "renew", None)
        self._started = clock()

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._started

    def go_on(self, iteration: int, seconds: float, reserve: float) -> None:
        """Count on from what an earlier part of the same run has used."""
        self.iteration, self.reserve = iteration, reserve
        self._started = self._clock() - seconds

    def renew(self) -> None:
        """Read a shared clock again; others are read each time they are asked."""
        if self._renew is not None:
            self._renew()

    @property
    def bounded(self) -> bool:
        """Whether any limit is set."""
        return self.max_seconds is not None or self.max_iter is not None

    @property
    def progress(self) -> float:
        """The share of the scarcer budget that is used, in [0, 1]; 0 without a budget."""
        shares = [0.0]
        if self.max_iter is not None:
            shares.append(self.iteration / max(self.max_iter, 1))
        if self.max_seconds is not None:
            shares.append(self.seconds / max(self.max_seconds - self.reserve, 1e-9))
        return min(1.0, max(shares))

    def expired(self) -> bool:
        """Whether the time is up, the reserve set aside; reads a shared clock again."""
        self.renew()
        if self.max_seconds is None:
            return False
        return self.seconds >= self.max_seconds - self.reserve

    def exhausted(self) -> Status | None:
        """The limit that is reached, if any."""
        expired = self.expired()
        if self.max_iter is not None and self.iteration >= self.max_iter:
            return Status.ITERATIONS
        return Status.TIME if expired else None
