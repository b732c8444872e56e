"""The arguments of this package: vectors along the last dimension, one scalar for each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proxlin._checks import check_floating, check_non_negative
from proxlin.errors import InvalidInputError


def check_vectors(name: str, v: Any) -> Tensor:
    """Return `v` if it is a float32 or float64 tensor with at least one dimension."""
    tensor = check_floating(name, v)
    if tensor.dim() == 0:
        raise InvalidInputError(
            f"{name} must have at least one dimension; got a scalar. Pass {name}.reshape(1)."
        )
    return tensor


def column_per_vector(name: str, value: float | Tensor, v: Tensor) -> Tensor:
    """Return a number or tensor >= 0 as one column (..., 1) per vector of `v`."""
    if not isinstance(value, Tensor):
        return v.new_full((1,) * v.dim(), check_non_negative(name, value))
    if bool((value < 0).any()):
        raise InvalidInputError(f"{name} must be >= 0; got {float(value.min())}.")
    leading = v.shape[:-1]
    try:
        column = torch.broadcast_to(value, leading)
    except RuntimeError as error:
        raise InvalidInputError(
            f"{name} must be a number or have a shape that broadcasts to {tuple(leading)}, one"
            f" value per vector; got shape {tuple(value.shape)}."
        ) from error
    return column.to(v).unsqueeze(-1)
