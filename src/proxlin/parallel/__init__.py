"""Several processes as one: what they add up, agree on and read off one clock."""

from proxlin.parallel.agreement import check_same_call, check_same_point
from proxlin.parallel.clock import (
    SharedClock,
    SharedInterrupt,
    clock_of,
    interrupted_together,
)
from proxlin.parallel.communicator import Communicator, Serial
from proxlin.parallel.distributed import Distributed
from proxlin.parallel.launch import alone, communicator

__all__ = [
    "Communicator",
    "Distributed",
    "Serial",
    "SharedClock",
    "SharedInterrupt",
    "alone",
    "check_same_call",
    "check_same_point",
    "clock_of",
    "communicator",
    "interrupted_together",
]
