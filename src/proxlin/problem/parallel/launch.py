"""Which processes belong together: those that torchrun started."""

from __future__ import annotations

import atexit
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

import torch
import torch.distributed as dist

from proxlin._checks import check_positive
from proxlin.errors import CommunicationError, InvalidInputError
from proxlin.problem.parallel.communicator import Communicator
from proxlin.problem.parallel.distributed import Distributed, reason_of
from proxlin.problem.parallel.rendezvous import meet

TIMEOUT = "PROXLIN_TIMEOUT"  # environment variable: seconds without an answer that end a run
DEFAULT_TIMEOUT = 300.0

_ALONE: ContextVar[bool] = ContextVar("proxlin_alone", default=False)


def communicator() -> Communicator:
    """That of all processes if torch.distributed is set up or torchrun started us.

    The first call under torchrun sets torch.distributed up, with the seconds of the environment
    variable PROXLIN_TIMEOUT (300) as its timeout.
    """
    if _ALONE.get() or not dist.is_available():
        return Communicator()
    if not dist.is_initialized() and _launched():
        _set_up()
    if dist.is_initialized() and dist.get_world_size() > 1:
        return Distributed()
    return Communicator()


@contextmanager
def alone() -> Iterator[None]:
    """Inside, this process works by itself, also under torchrun."""
    before = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(before)


def _launched() -> bool:
    """Whether torchrun started this very process and others; its children inherit its marks."""
    own = multiprocessing.current_process().name == "MainProcess"
    return own and dist.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1


def _set_up() -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    seconds = _timeout()
    try:
        meet(backend, timedelta(seconds=seconds))
    except (RuntimeError, ValueError) as cause:
        reason = reason_of(cause)
        raise CommunicationError(
            f"the processes of torchrun did not find each other within {seconds:g} s ({reason})."
            " Check the address of --rdzv-endpoint or --master-addr and the firewall."
        ) from cause
    atexit.register(_tear_down)


def _tear_down() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _timeout() -> float:
    seconds = os.environ.get(TIMEOUT)
    if seconds is None:
        return DEFAULT_TIMEOUT
    try:
        return check_positive(TIMEOUT, float(seconds))
    except ValueError as cause:
        raise InvalidInputError(
            f"the environment variable {TIMEOUT} must be a number of seconds > 0; got {seconds!r}."
        ) from cause
