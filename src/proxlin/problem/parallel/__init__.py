"""Several processes as one: what they add up, agree on and read off one clock."""

from proxlin.problem.parallel.agreement import check_same_call, check_same_point
from proxlin.problem.parallel.clock import (
    SharedClock,
    SharedInterrupt,
    clock_of,
    interrupted_together,
)
from proxlin.problem.parallel.communicator import Communicator
from proxlin.problem.parallel.distributed import Distributed
from proxlin.problem.parallel.launch import alone, communicator

__all__ = [
    "Communicator",
    "Distributed",
    "SharedClock",
    "SharedInterrupt",
    "alone",
    "check_same_call",
    "check_same_point",
    "clock_of",
    "communicator",
    "interrupted_together",
]
