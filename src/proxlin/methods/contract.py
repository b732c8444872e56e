"""What the loop and a method tell each other: Status, Budget, Step, Method."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import wraps
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from proxlin._checks import check_count, check_positive
from proxlin.errors import InvalidTypeError
from proxlin.problem import Problem

_MOST_RESERVE = 0.3  # of a time budget that is kept back for the last evaluation


class Status(Enum):
    """Why a run ended. The value is a sentence that says what to do next."""

    CONVERGED = "Converged: the certificate is at most tol."
    NO_DECREASE = (
        "No further decrease: the method could not lower the objective any more."
        " Solve the models more exactly, or take the point as it is."
    )
    ITERATIONS = "The steps are used up; raise max_iter to go further."
    TIME = "The time is used up; raise max_seconds to go further."
    HELD_OUT = "The loss of the held-out rows falls no more; the best point by them is kept."
    STOPPED = "A callback asked to stop; the best point so far is kept."
    INTERRUPTED = "Interrupted; the best point so far is kept."
    NON_FINITE = (
        "The method ran into NaN or infinity; the best point so far is kept."
        " Lower the learning rate or scale the data."
    )

    def __str__(self) -> str:
        return self.value


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

    def hold_back(self, cost: float) -> None:
        """Keep time for a last evaluation that costs about as much as one of so many seconds.

        Never most of the budget: a machine that was busy for a moment must not end the run.
        """
        limit = math.inf if self.max_seconds is None else _MOST_RESERVE * self.max_seconds
        self.reserve = min(1.2 * cost, limit)

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
        used = [0.0]
        if self.max_iter is not None:
            used.append(self.iteration / max(self.max_iter, 1))
        if self.max_seconds is not None:
            used.append(self.seconds / max(self.max_seconds - self.reserve, 1e-9))
        return min(1.0, max(used))

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


@dataclass(frozen=True)
class Step:
    """What one step tells the loop; None where the method did not measure it."""

    objective: float | None = None  # full objective at the new point
    stationarity: float | None = None  # h * ||theta - minimiser of the model|| before the step
    stationarity_rows: int | None = None  # rows that the model was solved on; None: all of them
    status: Status | None = None  # set when the method cannot go on
    tentative: bool = False  # of a trial, or thrown away by a restart
    details: dict[str, float] = field(default_factory=dict)  # extra columns of the history
    remarks: tuple[str, ...] = ()


class State(Protocol):
    """The memory of a run; `theta` is the present point, the rest belongs to the method."""

    theta: Tensor


class Method(Protocol):
    """Settings of an algorithm. It only knows how to begin and how to take one step."""

    @property
    def measures_stationarity(self) -> bool:
        """Whether its steps can report a stationarity, which `tol` needs."""
        ...

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> Any:
        """The state before the first step, at theta."""
        ...

    def step(self, problem: Problem, state: Any, budget: Budget) -> Step:
        """Advance the state by one step."""
        ...

    def candidates(self, state: Any) -> list[Tensor]:
        """Points worth an evaluation of the objective, the present one first."""
        ...


Settings = TypeVar("Settings")


def settings_by_name(cls: type[Settings]) -> type[Settings]:
    """Let a dataclass say which settings it has, to whoever takes it for a torch optimizer."""
    init, known = cls.__init__, [item.name for item in fields(cls) if item.init]  # type: ignore[arg-type]

    @wraps(init)
    def checked(self: Settings, *others: Any, **settings: Any) -> None:
        wrong = [type(other).__name__ for other in others] + sorted(set(settings) - set(known))
        if wrong:
            name = cls.__name__
            raise InvalidTypeError(
                f"{name} must be given settings of its own by name, such as {', '.join(known)}; got"
                f" {wrong[0]}. It is for minimize(problem, {name}(...)); a torch optimizer is"
                " proxlin.optim.Probed(module.named_parameters())."
            )
        init(self, **settings)

    cls.__init__ = checked  # type: ignore[assignment]
    return cls
