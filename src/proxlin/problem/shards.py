"""Which rows are whose: the rows of a problem spread over the processes that work on it.

Rows are numbered through all processes. A batch is a list of such numbers, the same everywhere;
each process takes its own rows of it, and what they give is summed up over all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from proxlin.errors import InvalidInputError
from proxlin.problem.batch_form import Form
from proxlin.problem.parallel import Communicator
from proxlin.problem.rows import Batch, Rows, as_rows, evenly_spread, subset


@dataclass(frozen=True)
class LocalBatch:
    """This process's rows of one batch; `communicator` sums up over those that hold the others."""

    tensors: Batch  # rows first; empty if none is ours
    n_rows: int  # of the batch, over all processes
    positions: Tensor | None = None  # (b,) ascending: where in the batch ours stand; None: all are
    communicator: Communicator = field(default_factory=Communicator)

    @property
    def count(self) -> int:
        """How many rows are ours."""
        return self.tensors[0].shape[0] if self.tensors else 0

    def parts(self, size: int) -> Iterator[LocalBatch]:
        """Each `size` rows of the batch in order, of which we hold ours."""
        for first in range(0, self.n_rows, size):
            last = min(first + size, self.n_rows)
            low, high, positions = first, last, None
            if self.positions is not None:
                ends = torch.tensor([first, last])
                low, high = torch.searchsorted(self.positions, ends).tolist()
                positions = self.positions[low:high] - first
            tensors = tuple(tensor[low:high] for tensor in self.tensors) if low < high else ()
            yield LocalBatch(tensors, last - first, positions, self.communicator)

    def own(self, rows: Tensor) -> Tensor:
        """Our rows of a tensor that has one for each row of the batch, in its last but one."""
        return rows if self.positions is None else rows.index_select(-2, self.positions)

    def gathered(self, rows: Tensor) -> Tensor:
        """All rows of the batch, on every process, from each one's own (b, ...)."""
        return rows if self.positions is None else self.communicator.sum(self.spread(rows))

    def spread(self, rows: Tensor) -> Tensor:
        """Our own rows (b, ...) at their places in the batch, zeros at those of the others."""
        if self.positions is None:
            return rows
        everything = rows.new_zeros(self.n_rows, *rows.shape[1:])
        everything[self.positions] = rows
        return everything

    def sample(self, count: int) -> tuple[Tensor | slice, LocalBatch]:
        """At most `count` rows, evenly spread: which of ours they are, and where they stand."""
        if self.n_rows <= count:
            return slice(None), self
        index = evenly_spread(self.n_rows, count)
        if self.positions is None:
            return index, LocalBatch((), count)
        ours = torch.isin(self.positions, index).nonzero().flatten()
        places = torch.searchsorted(index, self.positions[ours])
        return ours, LocalBatch((), count, places, self.communicator)

    def part_of_mean(self, values: Tensor) -> Tensor:
        """What our rows add to the mean of the batch; `values` has one or several of each row."""
        if self.positions is None:
            return values.mean()
        return values.sum() / (self.n_rows * math.prod(values.shape[1:]))


class Shards(ABC):
    """All rows of a problem and the part of them that is this process's."""

    communicator: Communicator
    rows: Rows | None  # what is held here; None: nothing
    n_rows: int  # over all processes
    own: slice  # our rows in a pass over all, as numbers of `rows`
    most: int  # rows that any process has in such a pass
    streamed = False  # batches are rows that come by, of which only a sample is held

    def take(self, index: Tensor | slice) -> LocalBatch:
        """Our rows of the batch with these row numbers."""
        if self.communicator.size == 1 and self.rows is not None:
            batch = self.rows.take(index)
            return LocalBatch(batch, batch[0].shape[0])
        numbers = torch.arange(*index.indices(self.n_rows)) if isinstance(index, slice) else index
        positions = self._positions(numbers)
        held = self._held(numbers[positions])
        batch = self.rows.take(held) if self.rows is not None and len(held) else ()
        return LocalBatch(batch, len(numbers), positions, self.communicator)

    def chunks(self, size: int, index: Tensor | None = None) -> Iterator[Batch]:
        """Our rows in order, or those of `index`, `size` at a time."""
        if self.rows is None:
            return
        if index is not None:
            ours = index if self.communicator.size == 1 else index[self._positions(index)]
            for part in torch.split(self._held(ours), size) if len(ours) else ():
                yield self.rows.take(part)
            return
        for first in range(self.own.start, self.own.stop, size):
            yield self.rows.take(slice(first, min(first + size, self.own.stop)))

    def numbers(self) -> Tensor:
        """Our rows in a pass over all, numbered through all processes."""
        return self._positions(torch.arange(self.n_rows))

    def example(self) -> Batch:
        """Two rows, also on a process that has none."""
        own = None if self.rows is None else self.rows.take(slice(0, min(2, len(self.rows))))
        if own is not None and self.communicator.size == 1:
            return own
        batches = self.communicator.each(own)
        elsewhere: Batch = next(batch for batch in batches if batch is not None)
        return own or elsewhere

    def form(self) -> Form:
        """The form of the batches, also on a process that has no rows."""
        own = None if self.rows is None else self.rows.form
        if self.communicator.size == 1:
            return own
        return next((form for form in self.communicator.each(own) if form is not None), None)

    @abstractmethod
    def restricted(self, index: Tensor) -> Shards:
        """The rows of `index` alone."""

    @abstractmethod
    def replaced(self, data: Any, dtype: torch.dtype | None = None) -> Shards:
        """Other rows, spread in the same way."""

    @abstractmethod
    def _positions(self, numbers: Tensor) -> Tensor:
        """Where in the batch with these row numbers our rows stand, ascending."""

    @abstractmethod
    def _held(self, numbers: Tensor) -> Tensor:
        """Row numbers of ours as numbers of `rows`."""


class Everywhere(Shards):
    """Every process holds all rows and works on its part of each batch, by position in it."""

    def __init__(self, rows: Rows, communicator: Communicator) -> None:
        self.rows: Rows = rows
        self.communicator = communicator
        self.n_rows = len(rows)
        _check_alike(communicator, self.n_rows)
        self.own = self._part(self.n_rows)
        self.most = -(-self.n_rows // communicator.size)

    def restricted(self, index: Tensor) -> Shards:
        """Every process keeps the rows of `index`."""
        return Everywhere(subset(self.rows, index), self.communicator)

    def replaced(self, data: Any, dtype: torch.dtype | None = None) -> Shards:
        """Every process is given all rows."""
        return Everywhere(as_rows(data, dtype), self.communicator)

    def _part(self, count: int) -> slice:
        rank, size = self.communicator.rank, self.communicator.size
        return slice(count * rank // size, count * (rank + 1) // size)

    def _positions(self, numbers: Tensor) -> Tensor:
        part = self._part(len(numbers))
        return torch.arange(part.start, part.stop)

    def _held(self, numbers: Tensor) -> Tensor:
        return numbers


class Owned(Shards):
    """Every process holds rows of its own; those of rank 0 come first, then those of rank 1, ..."""

    def __init__(self, rows: Rows | None, communicator: Communicator) -> None:
        self.rows = rows
        self.communicator = communicator
        here = 0 if rows is None else len(rows)
        counts: list[int] = communicator.each(here)
        self.n_rows = sum(counts)
        if not self.n_rows:
            raise InvalidInputError("data must hold at least one row; got none on any process.")
        self.most = max(counts)
        self._first = [0, *accumulate(counts)][communicator.rank]
        self.own = slice(0, here)

    def restricted(self, index: Tensor) -> Shards:
        """Every process keeps its own of the rows of `index`."""
        return self.replaced(self.take(index).tensors or None)

    def replaced(self, data: Any, dtype: torch.dtype | None = None) -> Shards:
        """Every process is given its own."""
        return own_rows(data, self.communicator, dtype)

    def _positions(self, numbers: Tensor) -> Tensor:
        last = self._first + self.own.stop
        ours = (numbers >= self._first) & (numbers < last)
        positions: Tensor = torch.nonzero(ours).flatten()
        return positions

    def _held(self, numbers: Tensor) -> Tensor:
        return numbers - self._first


def own_rows(data: Any, communicator: Communicator, dtype: torch.dtype | None = None) -> Owned:
    """Shards of which this process holds `data`, which may be None or have no row."""
    empty = data is None or _length(data) == 0
    return Owned(None if empty else as_rows(data, dtype), communicator)


def _length(data: Any) -> int | None:
    """The number of rows, where that can be said without reading any."""
    first = data[0] if isinstance(data, tuple | list) and data else data
    if isinstance(first, Tensor):
        return first.shape[0] if first.ndim else None
    return len(first) if hasattr(first, "__len__") else None


def _check_alike(communicator: Communicator, n_rows: int) -> None:
    counts = communicator.each(n_rows)
    if len(set(counts)) > 1:
        raise InvalidInputError(
            f"every process must hold all rows, and they hold {', '.join(map(str, counts))};"
            " use Problem.sharded(...) where each process has rows of its own."
        )
