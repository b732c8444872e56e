"""Dates and times of the day as text; 12/31/2024 is read once it is known which is the day."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Slashed = Literal["not read", "day first", "month first"]

READ = (
    "only dates like 2024-12-31, 31.12.2024 or 31-Dec-2024 are read, and 12/31/2024 if a day is"
    " above 12"
)

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.,+Z-]*)?", re.ASCII)
_OTHER = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(?: (\d{2}:\d{2}(?::\d{2})?))?", re.ASCII)
_YEAR_FIRST = re.compile(
    r"(\d{4})([./])(\d{1,2})\2(\d{1,2})(?:[ T](\d{2}:\d{2}(?::\d{2})?))?", re.ASCII
)
_NAMED = re.compile(  # 31-Dec-2024, 31 December 2024, 31. Dec 24
    r"(\d{1,2})[-. ]{1,2}([a-z]{3,9})[-., ]{1,2}(\d{4}|\d{2})(?: (\d{2}:\d{2}(?::\d{2})?))?",
    re.ASCII | re.I,
)
_MONTH_FIRST = re.compile(
    r"([a-z]{3,9})\.? (\d{1,2}),? (\d{4})(?: (\d{2}:\d{2}(?::\d{2})?))?", re.ASCII | re.I
)
_MONTHS = "january february march april may june july august september october november december"
_CENTURY = 69  # 68 is 2068 and 69 is 1969, as for everybody since POSIX
_CLOCK = re.compile(
    r"(\d{1,4}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?(?: ?([ap])\.?m\.?)?", re.ASCII | re.I
)
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


def read_hours(texts: Iterable[str]) -> NDArray[np.float64]:
    """Hours of a time of the day or a duration, NaN where the text is neither.

    >>> read_hours(["14:30", "2:30 pm", "100:00:36", "25 minutes"]).round(2)
    array([ 14.5 ,  14.5 , 100.01,    nan])
    """
    return np.array([_hours(text) for text in texts], dtype=np.float64)


def _hours(text: str) -> float:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return float("nan")
    hours, minutes, seconds, half = match.groups()
    whole = int(hours)
    if half:
        if not 1 <= whole <= 12:
            return float("nan")
        whole = whole % 12 + (12 if half in "pP" else 0)
    return whole + int(minutes) / 60 + float(seconds or 0) / 3600


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

    >>> looks_like_date("31. Dez 24"), looks_like_date("12/31/24"), looks_like_date("1.2.3")
    (True, True, False)
    """
    return _ALIKE.fullmatch(text) is not None


def _as_iso(text: str, slashed: Slashed) -> str | None:
    if _ISO.fullmatch(text):
        return text
    match = _OTHER.fullmatch(text)
    if match is None:
        return _unmistakable(text)
    first, mark, second, year, time = match.groups()
    if mark == "/" and slashed == "not read":
        return None
    day, month = (second, first) if mark == "/" and slashed == "month first" else (first, second)
    return f"{year}-{month:0>2}-{day:0>2}" + (f"T{time}" if time else "")


def _unmistakable(text: str) -> str | None:
    """Dates whose month has a name, or whose year stands first."""
    if match := _YEAR_FIRST.fullmatch(text):
        year, _, month, day, time = match.groups()
    elif match := _NAMED.fullmatch(text):
        day, month, year, time = match.groups()
    elif match := _MONTH_FIRST.fullmatch(text):
        month, day, year, time = match.groups()
    else:
        return None
    if not month.isdigit():
        known = [name.startswith(month.lower()) for name in _MONTHS.split()]
        if not any(known):
            return None
        month = str(known.index(True) + 1)
    if len(year) == 2:
        year = f"{19 if int(year) >= _CENTURY else 20}{year}"
    return f"{year}-{month:0>2}-{day:0>2}" + (f"T{time}" if time else "")
