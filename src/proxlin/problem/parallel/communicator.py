"""Communicator: every sum over rows goes through one, and every value that decides something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor


class Communicator:
    """The processes that work on one problem; all call the same methods in the same order.

    This one is a single process: everything is the identity and costs nothing.
    """

    rank: int = 0  # the number of this process
    size: int = 1  # how many processes there are
    leads: bool = True  # whether this process counts what belongs to no row, writes and prints

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, the same bits on each; `tensor` may be overwritten."""
        return tensor

    def sum_together(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sums of several tensors of one type, for the price of one call."""
        return list(tensors)

    def largest(self, values: Sequence[float]) -> list[float]:
        """The largest of each value over all processes, in float64."""
        return list(values)

    def broadcast(self, tensor: Tensor) -> Tensor:
        """The tensor of rank 0 on every process."""
        return tensor

    def each(self, value: Any) -> list[Any]:
        """The value of every process, by rank; small things that can be pickled."""
        return [value]

    def first(self, value: Any) -> Any:
        """The value of rank 0; anything that can be pickled."""
        return value

    def barrier(self) -> None:
        """Wait until all processes are here, however long that takes."""
