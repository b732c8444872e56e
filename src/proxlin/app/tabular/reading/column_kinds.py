"""What each column of a training table is, decided once, and said in sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from proxlin._checks import counted
from proxlin.app.tabular.reading.columns import CategoryColumn, Column, NumberColumn
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.reading.dates import READ, looks_like_date
from proxlin.app.tabular.reading.number_text import is_measured, is_number
from proxlin.app.tabular.reading.numbers import Numbers, TextCells, find_numbers, read_numbers
from proxlin.errors import InvalidInputError
from proxlin.estimators.families.usual_values import coded_rows
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Vector

MOST_LEVELS = 300  # of one category, the most frequent ones

_LEVEL_CELLS = 50_000_000  # rows times levels beyond which fewer levels are kept, at least 50
_GROUPED = 0.5  # share of the cells in levels that are kept, or the column tells rows apart
_RARE = 3  # levels with fewer rows teach nothing and count as never seen
_TAIL = 0.01  # share of the cells on each side that does not set the usual range
_LEAST_SCALE = 1e-30  # of the farthest cell, so that scaled numbers can be squared
_INDICATED = 0.01  # share of missing cells from which on a column gets an indicator
_IDENTIFIER = re.compile(
    r"(^|[^a-z])(id|uuid|guid)$|[a-z]Id$|[a-z]ID$|^[a-z]id$|^row_?(names?|numbers?|nr|no|index)$"
    r"|^unnamed: 0$"
)
_MAY_IDENTIFY = re.compile(r"(^|[^a-z])(index|key|nr|no)$")  # or a price index, a number of guests
_NUMERIC = 0.95  # share of the texts that are numbers, each by itself
_LONGEST = 40  # characters of a cell that a sentence quotes
_MOSTLY = 0.5  # different values a row, from which on numbers named as identifiers are ones
_ENOUGH = 30  # rows that whole numbers without a gap number, in whatever order


@dataclass
class Learned:
    """The columns that a model takes, and the sentences about them."""

    columns: list[Column] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_identifiers(table: RawTable, names: Sequence[str]) -> list[str]:
    """The columns that number the rows, or are named as identifiers and tell most rows apart."""
    return [name for name in names if _is_identifier(name, table.frame[name])]


def learn_features(table: RawTable, names: Sequence[str], *, indicators: bool) -> Learned:
    """Numbers and categories among the named columns; the others are left out, with the reason.

    With `indicators`, columns with missing cells get a further one that says which.
    """
    learned = Learned()
    for name in names:
        column = table.frame[name]
        numbers = find_numbers(column, comma_decimals=table.comma_decimals)
        if numbers is None:
            _learn_category(learned, name, column)
        else:
            _learn_number(learned, name, numbers, indicators=indicators)
    return learned


def learn_target(table: RawTable, name: str) -> tuple[NumberColumn, Vector, list[str]]:
    """The target, its numbers (NaN where missing), and what was done to read them."""
    column = table.frame[name]
    numbers = find_numbers(column, comma_decimals=table.comma_decimals, codes=False)
    if numbers is None:
        cells = TextCells.of(column)
        some = ", ".join(repr(text[:20]) for text in cells.texts[:3]) if cells else "lists"
        raise InvalidInputError(
            f"target {name!r} must hold numbers; it holds {some or 'nothing'}."
            f"{(cells and _nearly_numbers(cells.sample())) or ' Name other --targets.'}"
        )
    observed = numbers.values[np.isfinite(numbers.values)]
    if not len(observed) or observed.min() == observed.max():
        what = f"always {observed[0]:g}" if len(observed) else "missing in every row"
        if not len(observed) and numbers.unreadable:
            what = f"no usable number in any row, such as {numbers.example[:20]!r}"
        raise InvalidInputError(f"target {name!r} is {what}: there is nothing to learn.")
    center, scale = robust_scaling(observed)
    notes = _reading_notes(name, numbers)
    if numbers.unreadable:
        notes.append(
            f"{name!r}: {counted(numbers.unreadable, 'cell')} such as {numbers.example[:40]!r}"
            " became missing: not a number."
        )
    return NumberColumn(name, numbers.reading, center, scale, center), numbers.values, notes


def scale_target(target: NumberColumn, cells: pd.Series[Any]) -> NumberColumn:
    """The target read as before, with the scaling of these cells of training rows alone."""
    values = read_numbers(cells, target.reading).values
    observed = values[np.isfinite(values)]
    if observed.min() == observed.max():
        raise InvalidInputError(
            f"target {target.name!r} is always {observed[0]:g} in the training rows: there is"
            " nothing to learn."
        )
    center, scale = robust_scaling(observed[~coded_rows(observed)])
    return replace(target, center=center, scale=scale, fill=center)


def _learn_number(learned: Learned, name: str, numbers: Numbers, *, indicators: bool) -> None:
    observed = numbers.values[np.isfinite(numbers.values)]
    if not len(observed):
        bare = "no cell holds a number of use" if numbers.unreadable else "every cell is missing"
        learned.notes.append(f"{name!r} is left out: {bare}.")
        return
    if observed.min() == observed.max():
        learned.notes.append(f"{name!r} is left out: every cell is {observed[0]:g}.")
        return
    share = 1 - len(observed) / len(numbers.values)
    fill = float(np.quantile(observed, 0.5, method="inverted_cdf"))
    center, scale = robust_scaling(observed)
    indicator = indicators and share >= _INDICATED
    low, high = _usual_range(observed)
    learned.columns.append(
        NumberColumn(name, numbers.reading, center, scale, fill, indicator, low=low, high=high)
    )
    learned.notes += _reading_notes(name, numbers)
    if indicator:
        learned.notes.append(
            f"{name!r}: {share:.1%} of the training cells are missing; a further column says which."
        )


def _reading_notes(name: str, numbers: Numbers) -> list[str]:
    if numbers.reading.form == "date":
        slashed = numbers.reading.slashed
        order = "" if slashed == "not read" else f" with the {slashed}"
        return [f"{name!r} holds dates{order}; they became days since 1970."]
    if numbers.reading.form == "clock":
        return [f"{name!r} holds times; they became hours."]
    if numbers.reading.form == "truth":
        return [f"{name!r} holds yes or no; they became 1 and 0."]
    if numbers.from_text:
        decimals = bool((numbers.values % 1 > 0).any())  # NaN is none
        meant = "with commas before the decimals" if decimals else "points only between thousands"
        marks = f", {meant}" if numbers.reading.comma else ""
        marks += f", with {numbers.reading.unit.strip()!r} behind" if numbers.reading.unit else ""
        marks += ", '< 0.01' and the like as their bound" if numbers.reading.bounded else ""
        return [f"{name!r} holds numbers written as text{marks}; they were read as numbers."]
    return []


def _learn_category(learned: Learned, name: str, column: pd.Series[Any]) -> None:
    cells = TextCells.of(column)
    if cells is None:
        learned.notes.append(f"{name!r} is left out: its cells are lists or the like.")
        return
    filled = cells.count
    if not filled:
        learned.notes.append(f"{name!r} is left out: every cell is missing.")
        return
    codes = cells.are_codes()
    hint = "" if codes else _nearly_numbers(cells.sample())
    counts: dict[str, int] = {}
    for text, count in zip(
        cells.texts, np.bincount(cells.codes[cells.codes >= 0], minlength=len(cells.texts)),
        strict=True,
    ):  # fmt: skip
        if count:
            counts[text] = counts.get(text, 0) + int(count)
    most = min(MOST_LEVELS, max(50, _LEVEL_CELLS // len(column)))
    frequent = sorted(counts, key=lambda level: (-counts[level], level))[:most]
    levels = tuple(sorted(level for level in frequent if counts[level] >= _RARE))
    if sum(counts[level] for level in levels) < _GROUPED * filled:
        learned.notes.append(
            f"{name!r} is left out: it is text with {len(counts):,} different values in"
            f" {filled:,} cells, most of them too rare for categories.{hint}"
        )
        return
    missing = len(column) - filled
    if len(levels) + (missing >= _RARE) < 2:
        learned.notes.append(
            f"{name!r} is left out: nearly every cell is"
            f" {_shortened(max(counts, key=counts.__getitem__))}."
        )
        return
    learned.columns.append(CategoryColumn(name, levels, missing >= _RARE))
    rare = len(counts) - len(levels)
    kind = f"of codes such as {levels[0]!r} " if codes else ""
    note = f"{name!r} is a category {kind}with {len(levels)} values, one column each"
    note += f" and one for {missing:,} missing cells" if missing >= _RARE else ""
    note += f"; {counted(rare, 'rarer value')} without one" if rare else ""
    learned.notes.append(f"{note}.{hint}")


def _nearly_numbers(cells: TextCells) -> str:
    """What a person may change so that the texts become numbers or dates; nothing for others."""
    if cells.mostly(looks_like_date):
        return f" It looks like dates: {READ}."
    if 0 < _NUMERIC * len(cells.texts) <= sum(map(is_number, cells.texts)):
        return " It looks like numbers: write all decimals after a point, or all after a comma."
    if cells.mostly(is_measured):
        return " It looks like numbers with units: convert them to one unit."
    return ""


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _usual_range(values: Vector) -> tuple[float, float]:
    """From the least to the largest of the values, but for those that lie far out."""
    low, high = np.quantile(values, (_TAIL, 1 - _TAIL))
    if low < high:
        values = values[(values >= 2 * low - high) & (values <= 2 * high - low)]
    return float(values.min()), float(values.max())


def robust_scaling(values: Vector) -> tuple[float, float]:
    """Middle and robust standard deviation; two values become 0 and 1.

    Where more than half of the cells are one value, the others say how far apart cells are.
    """
    low, high = float(values.min()), float(values.max())
    if bool(((values == low) | (values == high)).all()):
        return low, high - low
    scaling = RobustScaling.fit(values[:, None])
    center, scale = float(scaling.center[0]), float(scaling.scale[0])
    away = np.abs(values - center)
    if np.mean(away == 0) > 0.5:
        scale = max(scale, float(np.median(away[away > 0])))
    return center, max(scale, _LEAST_SCALE * float(away.max()))


def _is_identifier(name: str, column: pd.Series[Any]) -> bool:
    if not pd.api.types.is_integer_dtype(column.dtype) or len(column) < 3 or column.hasnans:
        return False
    values = column.to_numpy()
    if column.nunique() > _MOSTLY * len(column) and (
        _IDENTIFIER.search(name) or _IDENTIFIER.search(name.lower())
    ):
        return True
    if not column.is_unique:
        return False
    if _MAY_IDENTIFY.search(name.lower()):
        return True
    spread = int(values.max()) - int(values.min()) + 1
    if spread != len(values):
        return False
    return len(values) >= _ENOUGH or bool(values[0] in (0, 1) and (np.diff(values) == 1).all())
