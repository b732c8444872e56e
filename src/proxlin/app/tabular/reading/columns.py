"""Columns of a table as numbers that a model takes: what was learned about each in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from proxlin._checks import counted
from proxlin.app.tabular.reading.numbers import Reading, TextCells, read_numbers
from proxlin.estimators.tables import Indices, Matrix, Vector
from proxlin.report.figure_text import show_plain

Content = float | str  # of a cell, for people and files

MISSING = "missing"

_NOUNS = {"date": "date", "clock": "time"}

_SMALLEST, LARGEST_LOG = 1e-300, 600.0  # of targets on a log scale
_OUTSIDE = 0.1  # of the training range, by which a cell must lie beyond it
_UNSEEN, _GONE = -1, -2  # instead of the place of a level
_FARTHEST = 1e6  # scaled numbers beyond it are cut there, so that a net's float32 can square them


@dataclass(frozen=True)
class NumberColumn:
    """z = (x - center) / scale, or (log x - center) / scale; the median where a cell is missing."""

    name: str
    reading: Reading
    center: float
    scale: float  # > 0
    fill: float  # the training median
    indicator: bool = False  # whether a second number says that the cell was missing
    log: bool = False  # whether the logarithm is scaled, for skewed targets
    low: float | None = None  # the usual range of the training cells
    high: float | None = None

    @property
    def labels(self) -> list[str]:
        """A name for each number of a row."""
        return [self.name, f"{self.name} is missing"] if self.indicator else [self.name]

    def encode(self, column: pd.Series[Any], *, fill: bool = True) -> tuple[Matrix, list[str]]:
        """The numbers (rows, width), and what had to be done to get them.

        Without `fill` a missing cell is NaN rather than the median.
        """
        numbers = read_numbers(column, self.reading)
        missing = np.isnan(numbers.values)
        filled = np.where(missing, self.fill if fill else np.nan, numbers.values)
        parts = [np.clip(self.scaled(filled), -_FARTHEST, _FARTHEST)]
        if self.indicator:
            parts.append(missing.astype(np.float64))
        notes = []
        if numbers.unreadable:
            notes.append(
                f"{self.name!r}: {counted(numbers.unreadable, 'cell')} such as"
                f" {numbers.example[:40]!r} became missing: not a"
                f" {_NOUNS.get(self.reading.form, 'number')}."
            )
        if missing.any() and fill:
            notes.append(
                f"{self.name!r}: {counted(int(missing.sum()), 'missing cell')} got the training"
                f" median {show_number(self.fill, self.reading)}."
            )
        return np.column_stack(parts), notes

    @property
    def scaled_fill(self) -> float:
        """The training median, scaled."""
        return float(self.scaled(np.array([self.fill]))[0])

    def scaled(self, values: Vector) -> Vector:
        """Plain numbers to scaled ones."""
        if self.log:
            values = np.log(np.maximum(values, _SMALLEST))
        with np.errstate(over="ignore"):  # a later cell may be infinitely far out
            return (values - self.center) / self.scale

    def plain(self, scaled: Vector) -> Vector:
        """Scaled numbers to plain ones."""
        plain = scaled * self.scale + self.center
        return np.exp(np.clip(plain, -LARGEST_LOG, LARGEST_LOG)) if self.log else plain

    def expected(self, encoded: Vector) -> Content:
        """What the numbers of one row stand for."""
        return _content(float(self.plain(encoded[:1])[0]), self.reading)

    def unusual(self, column: pd.Series[Any]) -> dict[int, str]:
        """By the place of its row, what is said of each cell unlike those of the training."""
        if self.low is None or self.high is None:
            return {}
        values = read_numbers(column, self.reading).values
        slack = _OUTSIDE * (self.high - self.low)
        beyond = (values < self.low - slack) | (values > self.high + slack)
        low, high = (show_number(end, self.reading) for end in (self.low, self.high))
        unusual = {
            int(row): f"{self.name} = {show_number(float(values[row]), self.reading)}, trained on"
            f" {low} to {high}"
            for row in np.flatnonzero(beyond)
        }
        if not self.indicator:  # what a missing cell means was not learned
            gone = f"{self.name} is missing, hardly ever so in training"
            unusual |= {int(row): gone for row in np.flatnonzero(np.isnan(values))}
        return unusual

    def as_read(self, column: pd.Series[Any]) -> list[Content]:
        """The cells as they were read; as they were written where that is no number."""
        written = as_written(column)
        if self.reading.form == "truth":
            return written
        values = read_numbers(column, self.reading).values
        # A date with a time of the day would lose it.
        readable = values == np.floor(values) if self.reading.form == "date" else ~np.isnan(values)
        if self.reading.form == "clock":
            readable[:] = False
        return [
            _content(float(value), self.reading) if usable else text
            for value, usable, text in zip(values, readable, written, strict=True)
        ]


@dataclass(frozen=True)
class CategoryColumn:
    """One number for each level, 1 where it is; all zero for levels never seen in training."""

    name: str
    levels: tuple[str, ...]
    missing: bool  # whether "missing" is a level of its own

    @property
    def labels(self) -> list[str]:
        """A name for each number of a row."""
        labels = [f"{self.name} = {level}" for level in self.levels]
        return [*labels, f"{self.name} is missing"] if self.missing else labels

    def encode(self, column: pd.Series[Any]) -> tuple[Matrix, list[str]]:
        """The numbers (rows, width), and what had to be done to get them."""
        encoded = np.zeros((len(column), len(self.labels)))
        cells = TextCells.of(column)
        if cells is None:
            return encoded, [f"{self.name!r}: no cell holds a plain value; none counts."]
        at = self._places(cells)
        rows = np.flatnonzero(at >= 0)
        encoded[rows, at[rows]] = 1.0
        if self.missing:
            encoded[at == _GONE, -1] = 1.0
        unseen = int((at == _UNSEEN).sum())
        notes = []
        if unseen:
            example = cells.texts[int(cells.codes[np.argmax(at == _UNSEEN)])]
            notes.append(
                f"{self.name!r}: {counted(unseen, 'cell')} such as {example[:40]!r} counted as none"
                " of the categories that the model knows."
            )
        return encoded, notes

    def unusual(self, column: pd.Series[Any]) -> dict[int, str]:
        """By the place of its row, what is said of each cell that is none of the levels."""
        cells = TextCells.of(column)
        if cells is None:
            return {}
        return {
            int(
                row
            ): f"{self.name} = {cells.texts[int(cells.codes[row])][:40]!r}, not a known value"
            for row in np.flatnonzero(self._places(cells) == _UNSEEN)
        }

    @property
    def _digits(self) -> int:
        """Of codes such as 01067, which a table without its text has as 1067."""
        padded = any(level[:1] == "0" for level in self.levels)
        digits = all(level.isdecimal() for level in self.levels)
        lengths = {len(level) for level in self.levels}
        return lengths.pop() if padded and digits and len(lengths) == 1 else 0

    def _places(self, cells: TextCells) -> Indices:
        """The level of each cell, or that it is none of them, or missing."""
        places = {level: place for place, level in enumerate(self.levels)}
        digits = self._digits
        texts = [text.zfill(digits) for text in cells.texts]
        where = np.array([*(places.get(text, _UNSEEN) for text in texts), _GONE])
        return np.where(cells.codes < 0, _GONE, where[cells.codes])

    def expected(self, encoded: Vector) -> Content:
        """The likeliest level of one row."""
        place = int(np.argmax(encoded))
        if encoded[place] <= 0:
            return "none of the known"
        return self.levels[place] if place < len(self.levels) else MISSING

    def as_read(self, column: pd.Series[Any]) -> list[Content]:
        """The cells as they were written."""
        return as_written(column)


Column = NumberColumn | CategoryColumn


def as_written(column: pd.Series[Any]) -> list[Content]:
    """The cells as text."""
    gone = pd.isna(column).to_numpy()
    return [
        MISSING if missing else str(value)
        for value, missing in zip(column.tolist(), gone, strict=True)
    ]


def _content(value: float, reading: Reading) -> Content:
    """A finite number as it is; a date or truth value in words."""
    if reading.form == "number" and np.isfinite(value):
        return value
    return show_number(value, reading)


def show_number(value: float, reading: Reading) -> str:
    """The number, date or truth value in a few characters."""
    if reading.form == "date" and abs(value) < 1e6:
        return str(np.datetime64(0, "D") + np.timedelta64(round(value), "D"))
    if reading.form == "clock" and abs(value) < 1e6:
        sign, minutes = "-" if value < 0 else "", round(abs(value) * 60)
        return f"{sign}{minutes // 60}:{minutes % 60:02}"
    if reading.form == "truth":
        return "yes" if value >= 0.5 else "no"
    return show_plain(value)
