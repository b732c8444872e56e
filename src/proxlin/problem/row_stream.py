"""Rows that come one after another and are not kept: loaders and iterable data sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from proxlin._checks import check_finite
from proxlin.errors import InvalidInputError
from proxlin.problem.batch_form import Form, flattened
from proxlin.problem.parallel import Communicator
from proxlin.problem.rows import Batch, DatasetRows, Rows, TensorRows, as_rows
from proxlin.problem.shards import Everywhere, LocalBatch, Shards

_SAMPLE_ROWS = 4_096  # on which objectives are measured,
_SAMPLE_NUMBERS = 2**25  # and numbers in them
_AT_ONCE = 256  # rows of an iterable data set that are stacked


class Streamed(Shards):
    """Batches are the next rows of a stream, which begins anew at its end.

    Its first rows are kept: wherever rows are asked for by a slice or in a pass over all, as for
    the objective, it is those.
    """

    def __init__(
        self,
        source: Iterable[Any],
        sample: TensorRows,
        communicator: Communicator,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.dtype = dtype
        self.rows: TensorRows = sample
        self.communicator = communicator
        self.n_rows = self.most = len(sample)
        self.own = slice(0, self.n_rows)
        self.streamed = True
        self._source = source
        self._batches: Iterator[Batch] = iter(())
        self._waiting: list[Batch] = []  # read and not handed out yet

    def take(self, index: Tensor | slice) -> LocalBatch:
        """The next rows, as many as asked for; those of the sample if it is a slice."""
        if isinstance(index, slice):
            return super().take(index)
        count = len(index)
        while sum(len(batch[0]) for batch in self._waiting) < count:
            self._waiting.append(self._next())
        together = _joined(self._waiting)
        self._waiting = [tuple(tensor[count:] for tensor in together)]
        return LocalBatch(tuple(tensor[:count] for tensor in together), count)

    def restricted(self, index: Tensor) -> Shards:
        """The rows of `index` of the sample."""
        return Everywhere(TensorRows(self.rows.take(index), self.rows.form), self.communicator)

    def replaced(self, data: Any, dtype: torch.dtype | None = None) -> Shards:
        """Other rows, as they are given."""
        return shards_of(data, self.communicator, dtype)

    def _next(self) -> Batch:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = _batches(self._source, self.dtype)
            batch = next(self._batches, None)
        if batch is None:
            raise InvalidInputError(
                f"data must be rows that can be read again; the stream gave {self.n_rows} rows or"
                " more and then none. Give a DataLoader or an IterableDataset, not a generator."
            )
        return batch

    def _positions(self, numbers: Tensor) -> Tensor:
        return torch.arange(len(numbers))

    def _held(self, numbers: Tensor) -> Tensor:
        return numbers


def shards_of(data: Any, communicator: Communicator, dtype: torch.dtype | None = None) -> Shards:
    """The rows of tensors, arrays, data sets and loaders, all of them on every process."""
    if not isinstance(data, DataLoader | IterableDataset):
        return Everywhere(as_rows(data, dtype), communicator)
    rows = _plain_rows(data, dtype)
    if rows is not None:
        return Everywhere(rows, communicator)
    if communicator.size > 1:
        raise InvalidInputError(
            "a stream of rows is read by one process; got several. Give each process rows of its"
            " own with Problem.sharded(...), or step by proxlin.optim.Probed."
        )
    source = data if isinstance(data, DataLoader) else DataLoader(data, batch_size=_AT_ONCE)
    sample, whole = _read_sample(source, dtype)
    if whole:
        return Everywhere(sample, communicator)
    return Streamed(source, sample, communicator, dtype)


def _plain_rows(data: Any, dtype: torch.dtype | None) -> Rows | None:
    """The rows of a loader's data set where it visits each once, in order or at random."""
    if isinstance(data, IterableDataset) or isinstance(data.dataset, IterableDataset):
        return None
    sampler = data.sampler
    each_once = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler
        and not sampler.replacement
        and sampler.num_samples == len(data.dataset)
    )
    if type(data.batch_sampler) is not BatchSampler or not each_once:
        return None
    if data.collate_fn is not default_collate:
        return DatasetRows(data.dataset, data.collate_fn, dtype)
    # To a loader, anything that has samples by number is a data set: a list of them, too.
    kept = isinstance(data.dataset, Tensor | TensorDataset)
    return as_rows(data.dataset, dtype) if kept else DatasetRows(data.dataset, dtype=dtype)


def _read_sample(source: Iterable[Any], dtype: torch.dtype | None) -> tuple[TensorRows, bool]:
    """The first rows of a stream, and whether they are all there are."""
    parts: list[Batch] = []
    form: Form = None
    count, most = 0, _SAMPLE_ROWS
    for batch in source:
        tensors, form = flattened(batch, dtype)
        parts.append(tensors)
        count += len(tensors[0])
        numbers = sum(tensor[:1].numel() for tensor in tensors)
        most = max(1, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // max(1, numbers)))
        if count >= most:
            break
    if not parts:
        raise InvalidInputError("data must hold at least one row; got a stream without any.")
    together = _joined(parts)
    return TensorRows(tuple(tensor[:most] for tensor in together), form), count < most


def _joined(batches: list[Batch]) -> Batch:
    try:
        return tuple(map(torch.cat, zip(*batches, strict=True)))
    except (RuntimeError, ValueError) as cause:
        shapes = [[tuple(tensor.shape[1:]) for tensor in batch] for batch in batches]
        other = next((shape for shape in shapes if shape != shapes[0]), shapes[0])
        raise InvalidInputError(
            f"every batch of a stream must have rows of the same shape; got {shapes[0]} and"
            f" {other}."
        ) from cause


def _batches(source: Iterable[Any], dtype: torch.dtype | None) -> Iterator[Batch]:
    for batch in source:
        tensors, _ = flattened(batch, dtype)
        for position, tensor in enumerate(tensors):
            check_finite(f"data[{position}]", tensor)
        yield tensors
