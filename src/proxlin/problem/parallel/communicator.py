"""Communicator: every sum over rows goes through one, and every value that decides something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor


class Communicator(Protocol):
    """The processes that work on one problem. All call the same methods in the same order."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many processes there are."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this process counts what belongs to no row, writes files and prints."""
        ...

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, the same bits on each; `tensor` may be overwritten."""
        ...

    def sum_together(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sums of several tensors of one type, for the price of one call."""
        ...

    def largest(self, values: Sequence[float]) -> list[float]:
        """The largest of each value over all processes, in float64."""
        ...

    def broadcast(self, tensor: Tensor) -> Tensor:
        """The tensor of rank 0 on every process."""
        ...

    def each(self, value: Any) -> list[Any]:
        """The value of every process, by rank; small things that can be pickled."""
        ...

    def first(self, value: Any) -> Any:
        """The value of rank 0; anything that can be pickled."""
        ...

    def barrier(self) -> None:
        """Wait until all processes are here, however long that takes."""
        ...


class Serial:
    """One process: everything is the identity and costs nothing."""

    rank = 0
    size = 1
    leads = True

    def sum(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        return tensor

    def sum_together(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors themselves."""
        return list(tensors)

    def largest(self, values: Sequence[float]) -> list[float]:
        """The values themselves."""
        return list(values)

    def broadcast(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        return tensor

    def each(self, value: Any) -> list[Any]:
        """The one value."""
        return [value]

    def first(self, value: Any) -> Any:
        """The value itself."""
        return value

    def barrier(self) -> None:
        """Nobody to wait for."""
