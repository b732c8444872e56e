"""Rows that stay in their file: read when they are taken, and never more of them than that.

A mapped file could be read like an array, but the pages it has touched count as memory of the
process. Reading keeps no more than the rows that were asked for.
"""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxlin.errors import DataError, InvalidInputError
from proxlin.problem.batch_form import native


class FileRows:
    """The rows of a numpy array that is mapped from a file (`np.load(path, mmap_mode="r")`)."""

    def __init__(self, array: np.memmap[Any, Any]) -> None:
        if not array.flags.c_contiguous or not array.ndim:
            raise InvalidInputError(
                "a mapped array must hold whole rows one after the other in its file; got one with"
                f" shape {array.shape} and strides {array.strides}. Take rows only: array[a:b]."
            )
        whole: Any = array  # the whole mapped file, of which the array may be a part
        while not isinstance(whole.base, mmap.mmap):
            if not isinstance(whole.base, np.memmap):
                raise InvalidInputError(
                    "a mapped array must be, or be a part of, np.memmap or np.load(..., mmap_mode);"
                    " got one whose file is not known."
                )
            whole = whole.base
        self.shape = array.shape
        self.dtype = array.dtype
        self._row_bytes = array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        # numpy maps from a page boundary and remembers where in the file its data begin.
        self._first = int(whole.offset) + array.ctypes.data - whole.ctypes.data
        self._path = Path(str(whole.filename))
        self._file = os.open(self._path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (str(self._path), self._first, self.shape, self.dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def read(self, index: Tensor | slice) -> Tensor:
        """The rows at `index`: one stretch, or one read for each run of neighbours."""
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step == 1:
                return self._filled([(first, max(0, last - first))])
            index = torch.arange(first, last, step)
        return self._filled(_stretches(index.numpy()))

    def _filled(self, stretches: list[tuple[int, int]]) -> Tensor:
        count = sum(rows for _, rows in stretches)
        target = np.empty((count, *self.shape[1:]), self.dtype)
        view = target.reshape(-1).view(np.uint8).data if target.size else memoryview(b"")
        filled = 0
        for first, rows in stretches:
            size = rows * self._row_bytes
            place = self._first + first * self._row_bytes
            self._read(view[filled : filled + size], place)
            filled += size
        return torch.from_numpy(native(target))

    def _read(self, target: memoryview, place: int) -> None:
        while target:
            got = self._read_into(target, place)
            if not got:
                raise DataError(f"{self._path} ends before its last row; it has been cut short.")
            target, place = target[got:], place + got

    def _read_into(self, target: memoryview, place: int) -> int:
        """How many bytes were read from the place on."""
        if hasattr(os, "preadv"):
            return os.preadv(self._file, [target], place)
        with self._lock:  # Windows: the place belongs to the file
            os.lseek(self._file, place, os.SEEK_SET)
            piece = os.read(self._file, len(target))
        target[: len(piece)] = piece
        return len(piece)


def _stretches(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of neighbours among the row numbers: where each begins and how long it is."""
    begins = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 2) != 1)
    lengths = np.diff(begins, append=len(numbers))
    return list(zip(numbers[begins].tolist(), lengths.tolist(), strict=True))


def _opened(path: str, first: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> FileRows:
    return FileRows(np.memmap(path, dtype, "r", first, shape))
