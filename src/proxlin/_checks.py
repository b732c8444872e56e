"""Argument checks. Each raises one sentence: what, expected, got."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proxlin.errors import InvalidInputError

_STRETCH = 2**24  # numbers that are looked at together
_MOST_WEIGHTS = 2**30  # of a net, 4 GB
_LONGEST = 100  # characters of a value in a message


def shown(value: Any) -> str:
    """The value in a message: on one line, short whatever it is.

    >>> shown("a" * 1000)[-20:]
    "aaaaaaa... (a 'str')"
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a stranger's __repr__, or a whole number of too many digits
        return f"a {type(value).__name__!r}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... (a {type(value).__name__!r})"


def counted(number: int, noun: str) -> str:
    """So many of these.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def check_real(name: str, value: Any) -> float:
    """Return `value` as a float, or say that it is not a finite number."""
    number = math.nan
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number beyond all floats
            number = float(value)
    if not math.isfinite(number):
        raise InvalidInputError(f"{name} must be a finite number; got {shown(value)}.")
    return number


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a float > 0."""
    number = check_real(name, value)
    if number <= 0:
        raise InvalidInputError(f"{name} must be > 0; got {shown(value)}.")
    return number


def check_non_negative(name: str, value: Any) -> float:
    """Return `value` as a float >= 0."""
    number = check_real(name, value)
    if number < 0:
        raise InvalidInputError(f"{name} must be >= 0; got {shown(value)}.")
    return number


def check_open_interval(name: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float strictly between `low` and `high`."""
    number = check_real(name, value)
    if not low < number < high:
        raise InvalidInputError(
            f"{name} must lie strictly between {low} and {high}; got {shown(value)}."
        )
    return number


def check_interval(name: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float in [low, high]."""
    number = check_real(name, value)
    if not low <= number <= high:
        raise InvalidInputError(f"{name} must lie in [{low}, {high}]; got {shown(value)}.")
    return number


def check_share(name: str, value: Any) -> float:
    """Return `value` as a float in [0, 1)."""
    number = check_real(name, value)
    if not 0 <= number < 1:
        raise InvalidInputError(f"{name} must be >= 0 and < 1; got {shown(value)}.")
    return number


def check_count(name: str, value: Any, minimum: int = 1) -> int:
    """Return `value` as an int >= minimum."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise InvalidInputError(f"{name} must be a whole number >= {minimum}; got {shown(value)}.")
    return int(value)


def check_layers(name: str, widths: Sequence[int]) -> None:
    """Refuse widths of layers that no machine has the memory for."""
    weights = sum(before * after for before, after in pairwise(widths))
    if weights > _MOST_WEIGHTS:
        raise InvalidInputError(
            f"{name} must make a net of at most {_MOST_WEIGHTS:,} weights; got layers of"
            f" {shown(tuple(widths))}."
        )


def check_seed(name: str, value: Any) -> int:
    """Return `value` as a whole number that torch takes for a seed."""
    seed = check_count(name, value, minimum=0)
    if seed >= 2**64:
        raise InvalidInputError(f"{name} must be below 2**64; got {shown(value)}.")
    return seed


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False, so that "no" does not count as yes."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must be True or False; got {shown(value)}.")
    return bool(value)


def check_exponent(name: str, p: Any) -> float:
    """Return the exponent of a norm as a float in [1, inf]."""
    exponent = math.nan
    if isinstance(p, Real) and not isinstance(p, bool):
        try:
            exponent = float(p)
        except OverflowError:  # a whole number beyond all floats
            exponent = math.inf if p > 0 else -math.inf  # type: ignore[operator]
    if not exponent >= 1:
        raise InvalidInputError(f"{name} must be a number >= 1 or inf; got {shown(p)}.")
    return exponent


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`; otherwise name the nearest ones."""
    allowed = sorted(choices)
    if isinstance(value, str) and value in allowed:
        return value
    hint = nearest(value, allowed)
    expected = ", ".join(map(repr, allowed))
    raise InvalidInputError(f"{name} must be one of {expected}; got {shown(value)}.{hint}")


def nearest(value: Any, names: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for a value close to one of `names`, else an empty string."""
    close = difflib.get_close_matches(str(value), list(names), n=2, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(c) for c in close)}?" if close else ""


def check_floating(name: str, tensor: Any) -> Tensor:
    """Return `tensor` if it is a float32 or float64 tensor."""
    if not isinstance(tensor, Tensor):
        raise InvalidInputError(f"{name} must be a torch tensor; got {type(tensor).__name__}.")
    if tensor.layout != torch.strided:
        raise InvalidInputError(f"{name} must be dense; got {tensor.layout}. Use .to_dense().")
    if tensor.dtype not in (torch.float32, torch.float64):
        raise InvalidInputError(
            f"{name} must be float32 or float64; got {tensor.dtype}. Convert it with .float()."
        )
    return tensor


def check_finite(name: str, tensor: Tensor) -> Tensor:
    """Return `tensor` if it holds no NaN and no infinity; otherwise count them.

    A stretch at a time: a tensor mapped from a file may be larger than the memory.
    """
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor
    rows = max(1, _STRETCH * tensor.shape[0] // tensor.numel()) if tensor.ndim else 1
    stretches = torch.split(tensor, rows) if tensor.ndim else (tensor,)
    # NaN and infinity survive the maximum, so that no mask is needed when all is well.
    if all(bool(torch.isfinite(part.abs().max())) for part in stretches):
        return tensor
    bad = sum(int((~torch.isfinite(part)).sum()) for part in stretches)
    raise InvalidInputError(
        f"{name} must be finite; got {bad} NaN or infinite of {tensor.numel()} numbers."
        " Drop or impute those rows first."
    )
