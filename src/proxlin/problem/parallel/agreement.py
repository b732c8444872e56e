"""Refusing to go on where processes disagree: better an error message than a deadlock."""

from __future__ import annotations

import re
import zlib

from torch import Tensor

from proxlin.errors import CommunicationError
from proxlin.problem.parallel.communicator import Communicator


def check_same_call(communicator: Communicator, description: str) -> None:
    """Refuse processes that were given different problems or methods."""
    plain = re.sub(r" at 0x[0-9a-f]+", "", description)  # not where it lies in memory
    everyone = communicator.each(plain)
    other = next((rank for rank, each in enumerate(everyone) if each != everyone[0]), None)
    if other is not None:
        raise CommunicationError(
            "all processes must be given the same problem and method; rank 0 has"
            f" {everyone[0]} and rank {other} has {everyone[other]}."
        )


def check_same_point(communicator: Communicator, theta: Tensor) -> None:
    """Refuse to go on once the processes' points differ in a bit."""
    if communicator.size == 1:
        return
    mark = float(zlib.crc32(theta.detach().cpu().numpy().tobytes()))  # 32 bits: exact in float64
    highest, lowest = communicator.largest([mark, -mark])
    if highest != -lowest:
        raise CommunicationError(
            "the parameters of the processes have drifted apart, which happens where they round"
            " differently: use machines, numbers of threads and versions of torch that are alike."
        )
