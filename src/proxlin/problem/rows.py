"""The rows of the data: where they live, how a batch is taken, in which order they are visited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from proxlin._checks import check_finite
from proxlin.errors import InvalidInputError
from proxlin.problem.batch_form import Form, flattened, native, of_type
from proxlin.problem.file_rows import FileRows

Batch = tuple[Tensor, ...]

_MOST_SHAPES = 8  # that a sentence lists
_MOST_ORDERED = 2**26  # rows whose order is kept, 8 bytes each


class Rows(Protocol):
    """A table of rows that can be taken by index; `len(rows)` is their number."""

    @property
    def form(self) -> Form:
        """Of a batch, as the caller gave it; None: a tuple. Known once rows were taken."""
        ...

    def __len__(self) -> int: ...

    def take(self, index: Tensor | slice) -> Batch:
        """The rows at `index`, each tensor rows first."""
        ...


def _constant(position: int, tensor: Tensor) -> Tensor:
    """A tensor of the data, which gradients do not go through."""
    if tensor.is_nested or tensor.layout != torch.strided or tensor.is_complex():
        kind = "a nested tensor" if tensor.is_nested else tensor.layout
        raise InvalidInputError(
            f"data[{position}] must be a dense tensor of real numbers; got {kind},"
            f" {tensor.dtype}. Convert it with .to_dense(), torch.view_as_real or"
            " .to_padded_tensor(0)."
        )
    return tensor.clone() if tensor.is_inference() else tensor.detach()


class TensorRows:
    """Rows of one or several tensors that share their first dimension."""

    def __init__(self, tensors: Sequence[Tensor], form: Form = None) -> None:
        self.tensors = tuple(_constant(*numbered) for numbered in enumerate(tensors))
        self.form = form
        lengths = {tensor.shape[0] if tensor.ndim else 0 for tensor in self.tensors}
        if len(lengths) != 1:
            shapes = _shapes([tuple(tensor.shape) for tensor in self.tensors])
            raise InvalidInputError(
                f"data must hold tensors with the same number of rows; got shapes {shapes}."
            )
        if lengths == {0}:
            raise InvalidInputError("data must hold at least one row; got none.")
        for position, tensor in enumerate(self.tensors):
            check_finite(f"data[{position}]", tensor)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def take(self, index: Tensor | slice) -> Batch:
        """The rows at `index`; a slice gives views, an index tensor copies."""
        return tuple(tensor[index] for tensor in self.tensors)


class DatasetRows:
    """Rows of a map-style torch Dataset, read when they are taken."""

    def __init__(
        self,
        dataset: Dataset[Any],
        collate: Callable[[list[Any]], Any] = default_collate,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.dataset = dataset
        self.collate = collate
        self.dtype = dtype
        self.form: Form = None
        if len(self) == 0:
            raise InvalidInputError("data must hold at least one row; got an empty Dataset.")

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def take(self, index: Tensor | slice) -> Batch:
        """The rows at `index`, stacked; rows of different shapes are refused."""
        numbers = range(len(self))[index] if isinstance(index, slice) else index.tolist()
        samples = [self.dataset[number] for number in numbers]
        try:
            stacked = self.collate(samples)
        except (RuntimeError, TypeError) as cause:
            raise InvalidInputError(
                "every row of the Dataset must have the same shape so that rows can be stacked;"
                f" got: {cause}."
            ) from cause
        batch, self.form = flattened(stacked, self.dtype)
        for position, tensor in enumerate(batch):
            check_finite(f"data[{position}]", tensor)
        return batch


class MappedRows:
    """Rows of files and tensors that share their number, read and checked when taken."""

    def __init__(
        self,
        columns: Sequence[np.memmap[Any, Any] | Tensor],
        form: Form = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.columns = tuple(
            _constant(position, column) if isinstance(column, Tensor) else FileRows(column)
            for position, column in enumerate(columns)
        )
        self.form = form
        self.dtype = dtype
        lengths = {column.shape[0] if len(column.shape) else 0 for column in self.columns}
        if len(lengths) != 1:
            shapes = _shapes([tuple(column.shape) for column in self.columns])
            raise InvalidInputError(
                f"data must hold arrays with the same number of rows; got shapes {shapes}."
            )
        if lengths == {0}:
            raise InvalidInputError("data must hold at least one row; got none.")

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, index: Tensor | slice) -> Batch:
        """The rows at `index`, read from the files."""
        batch = tuple(
            of_type(column.read(index), self.dtype)
            if isinstance(column, FileRows)
            else column[index]
            for column in self.columns
        )
        for position, tensor in enumerate(batch):
            check_finite(f"data[{position}]", tensor)
        return batch


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    """The first of the shapes, for a sentence."""
    listed = ", ".join(map(str, shapes[:_MOST_SHAPES]))
    return listed if len(shapes) <= _MOST_SHAPES else f"{listed} and {len(shapes)} in all"


class RowSubset:
    """Some rows of others, which are read when they are taken."""

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.rows, self.index = rows, index

    @property
    def form(self) -> Form:
        """That of the others."""
        return self.rows.form

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Tensor | slice) -> Batch:
        """The rows at `index` of the subset."""
        return self.rows.take(self.index[index])


def subset(rows: Rows, index: Tensor) -> Rows:
    """The rows of `index` alone; those in memory are copied once, others read when needed."""
    if isinstance(rows, TensorRows):
        return TensorRows(rows.take(index), rows.form)
    return RowSubset(rows, index)


def as_rows(data: Any, dtype: torch.dtype | None = None) -> Rows:
    """Turn tensors, arrays mapped from files or a map-style Dataset into rows.

    What is read from files and data sets in another floating-point type becomes `dtype`.
    """
    if type(data) is TensorDataset:
        return TensorRows(tuple(of_type(tensor, dtype) for tensor in data.tensors))
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and isinstance(data, Dataset):
        return DatasetRows(data, dtype=dtype)
    if isinstance(data, Tensor | np.memmap) or (isinstance(data, tuple | list | dict) and data):
        columns, form = flattened(data, mapped=True)
        edited = [  # in memory, not in the file
            of_type(torch.from_numpy(native(np.asarray(column))), dtype)
            if isinstance(column, np.memmap) and column.mode == "c"
            else column
            for column in columns
        ]
        if all(isinstance(column, Tensor) for column in edited):
            return TensorRows(edited, form)
        return MappedRows(edited, form, dtype)
    hint = " Pass loader.dataset here." if isinstance(data, DataLoader) else ""
    raise InvalidInputError(
        "data must be a tensor, a tuple of tensors (rows first) or a dictionary of them, arrays"
        f" mapped from files or a map-style torch Dataset; got {type(data).__name__}.{hint}"
    )


def evenly_spread(n_rows: int, count: int) -> Tensor:
    """At most `count` row numbers, evenly spread over all, the first and the last among them."""
    exact = torch.float64 if n_rows > 2**24 else torch.float32  # which counts no further
    return torch.linspace(0, n_rows - 1, min(n_rows, count), dtype=exact).long()


@dataclass(eq=False)
class Shuffler:
    """Batches of row numbers, in rounds: no row twice in a round, a new order in each.

    Every row comes once in a round if the batch size divides their number. The order of more than
    2^26 rows would fill the memory; they are drawn independently, which hardly ever repeats one.
    """

    n_rows: int = field(metadata={"fixed": True})
    batch_size: int = field(metadata={"fixed": True})
    generator: torch.Generator
    order: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))  # of this round
    visited: int = 0  # how many of `order` have been handed out

    def next(self, size: int | None = None) -> Tensor:
        """The row numbers of the next batch; a last short batch is left out of its round."""
        size = min(size or self.batch_size, self.n_rows)
        if self.n_rows > _MOST_ORDERED and size < self.n_rows:
            return torch.randint(self.n_rows, (size,), generator=self.generator)
        if self.visited + size > len(self.order):
            self.order = torch.randperm(self.n_rows, generator=self.generator)
            self.visited = 0
        first, self.visited = self.visited, self.visited + size
        return self.order[first : self.visited]
