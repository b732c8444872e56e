"""TableEncoding: from any table with the right columns to the numbers that a model takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from proxlin._checks import nearest
from proxlin.app.tabular.reading.columns import Column, NumberColumn
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.reading.numbers import read_numbers
from proxlin.errors import InvalidInputError, MemoryBudgetError
from proxlin.estimators.families.folds import ColumnRoles
from proxlin.estimators.tables import Matrix

_MOST_CELLS = 1 << 29  # 4 GB of float64


@dataclass(frozen=True)
class TableEncoding:
    """What was learned about the columns of the training table."""

    features: tuple[Column, ...]
    targets: tuple[NumberColumn, ...] = ()

    @cached_property
    def labels(self) -> list[str]:
        """A name for each encoded column."""
        return [label for column in self.features for label in column.labels]

    @cached_property
    def owners(self) -> list[int]:
        """The number of the table's column that each encoded column comes from."""
        return [number for number, column in enumerate(self.features) for _ in column.labels]

    def check(self, frame: pd.DataFrame, *, targets: bool = False) -> list[str]:
        """Refuse a table without the columns; a sentence about those that are not used."""
        wanted = [column.name for column in (*self.features, *(self.targets if targets else ()))]
        present = list(map(str, frame.columns))
        absent = [name for name in wanted if name not in set(present)]
        if absent:
            hint = nearest(absent[0], [name for name in present if name not in wanted])
            raise InvalidInputError(
                f"the table must have the column{'s' if len(absent) > 1 else ''}"
                f" {some_names(absent, 5)}, which the model was trained with; it has"
                f" {some_names(present)}.{hint}"
            )
        used = {*wanted, *(column.name for column in self.targets)}
        extra = [name for name in present if name not in used]
        return [f"Not used: {some_names(extra)}."] if extra else []

    def encode(self, frame: pd.DataFrame, *, fill: bool = True) -> tuple[Matrix, list[str]]:
        """The features (rows, encoded columns), scaled; and what was done, in sentences.

        Missing numbers are the training median, or NaN without `fill`.
        """
        cells = len(frame) * len(self.labels)
        if cells > _MOST_CELLS:
            raise MemoryBudgetError(
                f"{len(frame):,} rows of {len(self.labels)} encoded columns would take"
                f" {cells * 8 / 2**30:.0f} GB; leave columns out with --drop, or take fewer rows."
            )
        encoded = np.empty((len(frame), len(self.labels)))
        notes: list[str] = []
        first = 0
        for column in self.features:
            read = frame[column.name]
            part, remarks = (
                column.encode(read, fill=fill)
                if isinstance(column, NumberColumn)
                else column.encode(read)
            )
            encoded[:, first : first + part.shape[1]] = part
            first += part.shape[1]
            notes += remarks
        return encoded, notes

    def unusual_cells(self, frame: pd.DataFrame) -> list[str]:
        """For each row, the cells far from all that was trained on; empty for most."""
        rows: dict[int, list[str]] = {}
        for column in self.features:
            for row, text in column.unusual(frame[column.name]).items():
                rows.setdefault(row, []).append(text)
        return ["; ".join(rows.get(row, ())) for row in range(len(frame))]

    def read_targets(self, frame: pd.DataFrame) -> Matrix:
        """The targets (rows, targets) in their own units, NaN where missing."""
        targets = np.empty((len(frame), len(self.targets)))
        for number, column in enumerate(self.targets):
            targets[:, number] = read_numbers(frame[column.name], column.reading).values
        return targets

    def scale_targets(self, plain: Matrix) -> Matrix:
        """Targets in their own units to those the model predicts in."""
        columns = zip(self.targets, plain.T, strict=True)
        return np.column_stack([target.scaled(values) for target, values in columns])

    def plain_targets(self, scaled: Matrix) -> Matrix:
        """Predictions of the model to the targets' own units."""
        columns = zip(self.targets, scaled.T, strict=True)
        return np.column_stack([target.plain(values) for target, values in columns])

    @cached_property
    def roles(self) -> ColumnRoles:
        """Which encoded columns are numbers, and which belong to one category."""
        owners = np.array(self.owners)
        columns = [np.flatnonzero(owners == number) for number in range(len(self.features))]
        kinds = [isinstance(column, NumberColumn) for column in self.features]
        numbers = [part for part, number in zip(columns, kinds, strict=True) if number]
        return ColumnRoles(
            np.concatenate([np.empty(0, dtype=np.intp), *numbers]),
            tuple(part for part, number in zip(columns, kinds, strict=True) if not number),
        )


def check_columns(option: str, wanted: Iterable[str], table: RawTable) -> None:
    """Refuse an option that names a column which the table does not have."""
    present = list(map(str, table.frame.columns))
    for name in wanted:
        if name not in present:
            hint = nearest(name, present) or f" It has {some_names(present)}."
            sheet = "".join(f" {note}" for note in table.notes if "sheets" in note)
            raise InvalidInputError(f"{option}: the table has no column {name!r}.{hint}{sheet}")


def some_names(names: list[str], most: int = 8) -> str:
    """The first of these names of columns, and how many more there are."""
    if not names:
        return "no columns"
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
