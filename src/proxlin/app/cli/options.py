"""Lists on the command line: values separated by commas."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import TypeVar

from proxlin.errors import InvalidInputError

T = TypeVar("T")


def comma_separated(name: str, text: str | None, kind: Callable[[str], T]) -> tuple[T, ...] | None:
    """The values of the option `name`; None if it was not given.

    A value with a comma in it stands between double quotes.

    >>> comma_separated("--targets", 'a, "b,c"', str)
    ('a', 'b,c')
    """
    if text is None:
        return None
    try:
        rows = list(csv.reader([text], skipinitialspace=True))
        parts = [part.strip() for row in rows for part in row if part.strip()]
        return tuple(kind(part) for part in parts)
    except (ValueError, csv.Error) as cause:
        words = {float: "numbers", int: "whole numbers"}.get(kind, "names")  # type: ignore[call-overload]
        raise InvalidInputError(
            f"{name} must be {words} separated by commas; got {text!r}."
        ) from cause
