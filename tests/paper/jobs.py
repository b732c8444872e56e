"""Small jobs for the runner, in a module so that worker processes can import them."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

import torch

from proxlin.errors import DataError, InvalidInputError


@dataclass(frozen=True)
class Square:
    """The job of squaring a number."""

    number: int

    @property
    def name(self) -> str:
        return f"square{self.number}"

    def config(self) -> dict[str, Any]:
        return {"number": self.number}


def square(job: Square, callbacks: Any) -> dict[str, Any]:
    return {
        "config": job.config(),
        "square": job.number**2,
        "process": os.getpid(),
        "threads": torch.get_num_threads(),
    }


def stop_at_three(job: Square, callbacks: Any) -> dict[str, Any]:
    if job.number == 3:
        raise KeyboardInterrupt
    return square(job, callbacks)


def fail_at_three(job: Square, callbacks: Any) -> dict[str, Any]:
    if job.number == 3:
        raise InvalidInputError("three is not for squaring.")
    return square(job, callbacks)


def miss_data_at_three(job: Square, callbacks: Any) -> dict[str, Any]:
    if job.number == 3:
        raise DataError("no data for three.")
    return square(job, callbacks)


def die_at_three(job: Square, callbacks: Any) -> dict[str, Any]:
    if job.number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(job, callbacks)
