"""Dates written as text: ISO, 31.12.2024, and 12/31/2024 once it is known which is the day."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Slashed = Literal["not read", "day first", "month first"]

READ = "only dates like 2024-12-31 or 31.12.2024 are read, and 12/31/2024 if a day is above 12"

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.,+Z-]*)?", re.ASCII)
_OTHER = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(?: (\d{2}:\d{2}(?::\d{2})?))?", re.ASCII)
_ALIKE = re.compile(
    r"(\d{4}[-./ ]\d{1,2}[-./ ]\d{1,2}"  # 2024/12/31
    r"|\d{1,2}[-./ ]\d{1,2}[-./ ](\d{4}|\d{2})"  # 31-12-24
    r"|\d{1,2}[-. ]+[^\W\d_]{3,9}[-.,]? ?\d{2,4}"  # 31. December 2024
    r"|[^\W\d_]{3,9}\.? \d{1,2},? \d{4})"  # Dec 31, 2024
    r"([T ,].*)?"
)


def read_days(texts: Iterable[str], slashed: Slashed) -> NDArray[np.float64]:
    """Days since 1970, NaN where the text is no date of a form that is read."""
    dates = pd.Series([_as_iso(text, slashed) for text in texts], dtype=object)
    times = pd.to_datetime(dates, errors="coerce", format="ISO8601", utc=True)
    return days_since(times.dt.tz_convert(None))


def days_since(times: pd.Series[Any]) -> NDArray[np.float64]:
    """Days since 1970, also where nanoseconds do not reach."""
    ticks = times.to_numpy()
    if ticks.dtype.kind != "M":
        ticks = ticks.astype("datetime64[us]")
    unit, count = np.datetime_data(ticks.dtype)
    day = np.timedelta64(1, "D") / np.timedelta64(count, unit)  # type: ignore[call-overload]
    plain = ticks.astype(np.int64) / float(day)
    return np.where(np.isnat(ticks), np.nan, plain)


def looks_like_date(text: str) -> bool:
    """Whether a person would take the text for a date, in whatever form.

    >>> looks_like_date("31-Dec-24"), looks_like_date("12/31/24"), looks_like_date("1.2.3")
    (True, True, False)
    """
    return _ALIKE.fullmatch(text) is not None


def _as_iso(text: str, slashed: Slashed) -> str | None:
    if _ISO.fullmatch(text):
        return text
    match = _OTHER.fullmatch(text)
    if match is None:
        return None
    first, mark, second, year, time = match.groups()
    if mark == "/" and slashed == "not read":
        return None
    day, month = (second, first) if mark == "/" and slashed == "month first" else (first, second)
    return f"{year}-{month:0>2}-{day:0>2}" + (f"T{time}" if time else "")
