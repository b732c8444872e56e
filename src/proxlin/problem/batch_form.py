"""The form of a batch: tensors in a tuple, or nested in dictionaries and tuples as a model asks.

Inside, a batch is a flat tuple of tensors, rows first. Its form says where each of them stood, so
that the residual is called with what the caller gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proxlin.errors import InvalidInputError

Form = Any  # the batch with the place of each tensor in the flat tuple instead of it


def flattened(
    batch: Any, dtype: torch.dtype | None = None, *, mapped: bool = False
) -> tuple[tuple[Any, ...], Form]:
    """The tensors of a batch in order, and where each of them stood; others are refused.

    Floating-point ones become `dtype`. With `mapped`, arrays that are mapped from files may be
    among them.

    >>> tensors, form = flattened(({"a": torch.zeros(2), "b": torch.ones(2)}, torch.ones(2)))
    >>> len(tensors), form
    (3, ({'a': 0, 'b': 1}, 2))
    """
    tensors: list[Any] = []

    def place(part: Any) -> Form:
        if isinstance(part, Tensor):
            tensors.append(of_type(part, dtype))
            return len(tensors) - 1
        if mapped and isinstance(part, np.memmap):
            tensors.append(part)
            return len(tensors) - 1
        if isinstance(part, Mapping):
            return {name: place(item) for name, item in part.items()}
        if isinstance(part, tuple | list) and part:
            return tuple(place(item) for item in part)
        raise InvalidInputError(
            "data must be a tensor, a tuple of tensors (rows first) or a dictionary of them; got"
            f" {type(part).__name__} in it. Convert it, such as by torch.tensor(numpy.asarray(x))."
        )

    form = place(batch)
    if isinstance(form, int):
        form = (form,)
    return tuple(tensors), form


def of_type(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """The tensor, in this type if it holds floating-point numbers."""
    return tensor if dtype is None or not tensor.is_floating_point() else tensor.to(dtype)


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with its bytes in the order of this machine, which torch asks for."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def rebuilt(form: Form, tensors: tuple[Tensor, ...]) -> Any:
    """The batch of this form; the inverse of `flattened`."""
    if isinstance(form, int):
        return tensors[form]
    if isinstance(form, dict):
        return {name: rebuilt(item, tensors) for name, item in form.items()}
    return tuple(rebuilt(item, tensors) for item in form)


def with_tensors(data: Any, dtype: torch.dtype) -> Any:
    """The same data with numpy arrays as tensors, floating-point ones of type `dtype`.

    Arrays that are mapped from files stay: their rows are read as they are needed.
    """
    if isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        raise InvalidInputError(
            f"arrays in data must hold every number; got one of which {int(np.sum(data.mask))} are"
            " masked. Fill them, or drop their rows."
        )
    if isinstance(data, np.ndarray) and not isinstance(data, np.memmap):
        try:
            # A tensor is for writing, too: what must not be written to is copied.
            tensor = torch.as_tensor(np.require(native(data), requirements=("C", "W")))
        except TypeError as cause:
            raise InvalidInputError(
                f"arrays in data must hold numbers; got {data.dtype}. Encode it as numbers first."
            ) from cause
        return of_type(tensor, dtype)
    if isinstance(data, dict):
        return {name: with_tensors(item, dtype) for name, item in data.items()}
    if type(data) in (tuple, list):
        return tuple(with_tensors(item, dtype) for item in data)
    return data
