"""What an optimiser remembers, as plain numbers, tensors, lists and dictionaries, and back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor


def as_plain(value: Any) -> Any:
    """A copy that `torch.save` writes and `torch.load` reads without knowing our classes."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, torch.Generator):
        return value.get_state()
    if is_dataclass(value):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return value


def restored(like: Any, plain: Any) -> Any:
    """What `as_plain` was given, put into an object `like` it that has just begun.

    TypeError or LookupError where it is not of its kind.
    """
    if isinstance(like, torch.Generator):
        like.set_state(plain)
        return like
    if is_dataclass(like) != isinstance(plain, dict) or (
        isinstance(like, Tensor) and not isinstance(plain, Tensor)
    ):
        raise TypeError(f"{type(plain).__name__} where {type(like).__name__} belongs")
    if is_dataclass(like):
        for field in fields(like):
            held = getattr(like, field.name)
            if held is None and isinstance(plain[field.name], Tensor | dict):
                raise TypeError(f"{field.name} where none belongs")
            object.__setattr__(like, field.name, restored(held, plain[field.name]))
        return like
    if isinstance(like, list) and len(like) == len(plain):
        return [restored(entry, saved) for entry, saved in zip(like, plain, strict=True)]
    if isinstance(plain, Tensor):
        return plain.clone()
    return [restored(None, item) for item in plain] if isinstance(plain, list) else plain
