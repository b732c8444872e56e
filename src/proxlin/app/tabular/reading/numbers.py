"""Numbers in a column of whatever was in the file: plain, as text, dates, times, yes and no."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from proxlin.app.tabular.reading.dates import Slashed, days_since, read_days, read_hours
from proxlin.app.tabular.reading.number_text import LARGEST, number_in, unit_behind
from proxlin.estimators.tables import Vector

Form = Literal["number", "date", "clock", "truth"]

_SHARE = 0.95  # of the known cells that must be numbers
_COMMAS = 0.2  # of the cells with a point or comma that must show how points are meant
_LOOK = 1000  # cells that tell whether a way of reading is worth trying:
_VAIN = 0.9  # not if it leaves more of them unread
_WORDS = 3  # that may stand for a missing number in any share of the cells,
_MANY = 20  # beside so many different numbers
_AGAIN = 3  # rows for each different code, or it tells rows apart
_FORMS_OF_TWO = 12  # texts that two words can be written as: yes, Yes, YES, with spaces
_BOUND = re.compile(r"[<>\u2264\u2265]=?\s*")  # < 0.01, of what could not be measured
_CODE = re.compile(r"\d{3,}", re.ASCII)  # fewer are days, months or hours
_TRUTH = {"true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0}


@dataclass(frozen=True)
class Reading:
    """How the cells of one column become numbers."""

    form: Form
    comma: bool = False  # whether a comma stands before the decimals of numbers in text
    slashed: Slashed = "not read"  # which number of a date like 12/31/2024 is the day
    unit: str = ""  # what may stand behind numbers in text, such as "kg"
    bounded: bool = False  # whether "< 0.01" counts as 0.01


_SLASHED = (Reading("date", slashed="day first"), Reading("date", slashed="month first"))


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of a column, NaN where there is none, and what was not one."""

    values: Vector  # (rows,)
    reading: Reading
    from_text: bool = False
    unreadable: int = 0  # cells that are there but hold no usable number
    example: str = ""  # one of them

    def different(self) -> int:
        """How many different numbers there are."""
        return len(np.unique(self.values[~np.isnan(self.values)]))


def find_numbers(
    column: pd.Series[Any], *, comma_decimals: bool, codes: bool = True
) -> Numbers | None:
    """The column as numbers, or None if it does not hold any to speak of.

    Up to 5 % of the cells may be something else, and any share one of a few words beside many
    different numbers, such as "unknown". Codes such as 01067 are no numbers, unless `codes` is off.
    """
    direct = _direct(column)
    if direct is not None:
        return direct
    cells = TextCells.of(column)
    if cells is None or not len(cells.texts):
        return None
    if cells.are_truths():
        return cells.read(Reading("truth"))
    if codes and cells.are_codes():
        return None
    commas = (comma_decimals, not comma_decimals) if cells.show_commas() else (False,)
    some = cells.sample()
    unit = some.unit()
    readings = [*(Reading("number", comma, unit=unit) for comma in commas), Reading("date")]
    tries = [
        cells.read(reading)
        for reading in readings
        if some.read(reading).unreadable <= _VAIN * some.count
    ]
    if some.mostly(lambda text: ":" in text):
        tries.append(cells.read(Reading("clock")))
    if some.mostly(lambda text: "/" in text):
        tries += _settled(*(cells.read(reading) for reading in _SLASHED))
    best = min(tries, key=lambda numbers: numbers.unreadable, default=None)
    if best and best.unreadable and best.reading.form == "number":
        bounded = cells.read(replace(best.reading, bounded=True))
        gained = best.unreadable - bounded.unreadable
        if 0 < 2 * gained <= cells.count and bounded.different() >= _MANY:
            best = bounded
    return best if best and cells.may_be(best) else None


def read_numbers(column: pd.Series[Any], reading: Reading) -> Numbers:
    """The column as numbers in the way that another column of the same meaning was read.

    Cells that cannot be numbers in that way, and all are with the other decimal mark, have that.
    """
    direct = _direct(column)
    if direct is not None and _kind(direct.reading) == _kind(reading):
        return direct
    cells = TextCells.of(column)
    if cells is None:
        return Numbers(np.full(len(column), np.nan), reading, unreadable=len(column))
    numbers = cells.read(reading)
    if numbers.unreadable and reading.form == "number":
        other = cells.read(replace(reading, comma=not reading.comma))
        return numbers if other.unreadable else other
    return numbers


@dataclass(frozen=True, eq=False)
class TextCells:
    """A column of text as its different values and where they stand."""

    codes: NDArray[np.intp]  # (rows,) position in texts, -1 where there is nothing
    texts: list[str]  # stripped; different unless spaces made them so

    @classmethod
    def of(cls, column: pd.Series[Any]) -> TextCells | None:
        """None for cells that are lists or the like."""
        try:
            codes, values = pd.factorize(column)
        except TypeError:
            return None
        texts = [_text(value) for value in values]
        empty = np.array([not text for text in texts] + [True])
        return cls(np.where(empty[codes], -1, codes), texts)

    @property
    def count(self) -> int:
        """The number of cells that hold something."""
        return int((self.codes >= 0).sum())

    def are_truths(self) -> bool:
        """Whether the texts are two different words for yes and no."""
        few = {text.lower() for text in self.texts[:_FORMS_OF_TWO]}
        return len(self.texts) <= _FORMS_OF_TWO and len(few) == 2 and few <= _TRUTH.keys()

    def are_codes(self) -> bool:
        """Whether all are digits of one length, some with a 0 ahead, that come again and again."""
        lengths = {len(text) for text in self.texts if text}
        return (
            len(lengths) == 1
            and all(_CODE.fullmatch(text) for text in self.texts if text)
            and any(text[0] == "0" for text in self.texts if text)
            and _AGAIN * len(self.texts) <= self.count
        )

    def may_be(self, numbers: Numbers) -> bool:
        """Whether the cells that are no numbers are few, or a few words again and again."""
        if numbers.unreadable <= (1 - _SHARE) * self.count:
            return True
        unread = self.codes[(self.codes >= 0) & np.isnan(numbers.values)]
        words = {self.texts[code].lower() for code in np.unique(unread)}
        return (
            len(words) <= _WORDS
            and not any(letter.isdigit() for word in words for letter in word)
            and numbers.different() >= _MANY
        )

    def show_commas(self) -> bool:
        """Whether enough cells have a comma, or points that can only part thousands.

        1.125 alone is one and an eighth, as in a file whose cells are all numbers; one stray text
        or comma must not make it a thousand times as large.
        """
        marked = np.array([*("," in text or "." in text for text in self.texts), False])
        sure = np.array([*("," in text or text.count(".") > 1 for text in self.texts), False])
        count = int(marked[self.codes].sum())
        return count == 0 or int(sure[self.codes].sum()) >= _COMMAS * count

    def sample(self) -> TextCells:
        """Some of the cells, evenly spread: reading a million texts in vain takes its time."""
        filled = self.codes[self.codes >= 0]
        some = filled[:: max(1, len(filled) // _LOOK)]
        return TextCells(np.arange(len(some)), [self.texts[place] for place in some])

    def unit(self) -> str:
        """What follows the number in nearly all texts alike; nothing if that is none."""
        units = Counter(unit for text in self.texts if (unit := unit_behind(text)))
        unit, count = max(units.items(), key=lambda item: item[1], default=("", 0))
        return unit if count >= _SHARE * len(self.texts) else ""

    def mostly(self, test: Callable[[str], bool]) -> bool:
        """Whether at least half of the cells that hold something pass."""
        passed = np.array([*(test(text) for text in self.texts), False])[self.codes]
        return 0 < self.count <= 2 * int(passed.sum())

    def read(self, reading: Reading) -> Numbers:
        """Each text as a number; NaN, and counted, where it is none."""
        if reading.form == "truth":
            each = np.array([_TRUTH.get(text.lower(), np.nan) for text in self.texts])
        elif reading.form == "date":
            each = read_days(self.texts, reading.slashed)
        elif reading.form == "clock":
            each = read_hours(self.texts)
        else:
            bare = [text.removesuffix(reading.unit).rstrip() for text in self.texts]
            if reading.bounded:
                bare = [_BOUND.sub("", text, count=1) for text in bare]
            each = np.array([number_in(text, comma=reading.comma) for text in bare])
        values = np.append(each, np.nan)[self.codes]
        bad = (self.codes >= 0) & np.isnan(values)
        example = self.texts[int(self.codes[np.argmax(bad)])] if bad.any() else ""
        return Numbers(values, reading, True, int(bad.sum()), example)


def _settled(day_first: Numbers, month_first: Numbers) -> list[Numbers]:
    """The order that reads more cells; none if both read as many, for then no day is above 12."""
    if day_first.unreadable == month_first.unreadable:
        return []
    return [min(day_first, month_first, key=lambda numbers: numbers.unreadable)]


def _direct(column: pd.Series[Any]) -> Numbers | None:
    """Columns whose type already says what they are."""
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind):
        return Numbers(_plain(column), Reading("truth"))
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        values = _plain(column)
        with np.errstate(invalid="ignore"):
            huge = np.abs(values) > LARGEST
        if not huge.any():
            return Numbers(values, Reading("number"))
        example = f"{values[np.argmax(huge)]:g}"
        values = np.where(huge, np.nan, values)
        return Numbers(values, Reading("number"), False, int(huge.sum()), example)
    if pd.api.types.is_datetime64_any_dtype(kind):
        times = column.dt.tz_localize(None) if column.dt.tz is None else column.dt.tz_convert(None)
        return Numbers(days_since(times), Reading("date"))
    if pd.api.types.is_timedelta64_dtype(kind):
        return Numbers(_plain(column.dt.total_seconds()) / 3600, Reading("clock"))
    return None


def _kind(reading: Reading) -> str:
    """Numbers and truth values go for each other; dates and times do not."""
    return reading.form if reading.form in ("date", "clock") else "number"


def _text(value: Any) -> str:
    """The cell as text; whole numbers alike, whether a missing cell elsewhere made them 3.0."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _plain(column: pd.Series[Any]) -> Vector:
    values: Vector = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return values
