"""RawTable: the cells of a file with named columns, before anybody decides what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from proxlin.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class RawTable:
    """A frame with different names and rows counted from 0, and what reading it took."""

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()  # sentences
    comma_decimals: bool = False  # whether 1,5 may mean one and a half

    @classmethod
    def of(cls, table: Any) -> RawTable:
        """The table itself, or a pandas table as one, whatever its index."""
        if isinstance(table, RawTable):
            return table
        if not isinstance(table, pd.DataFrame):
            raise InvalidInputError(
                f"table must be a pandas DataFrame or what read_table_file returns; got"
                f" {type(table).__name__}."
            )
        frame = table.reset_index(drop=True)
        frame.columns = pd.Index(list(map(str, table.columns)))
        repeated = frame.columns[frame.columns.duplicated()]
        if len(repeated):
            raise InvalidInputError(
                f"table must not name a column twice; {repeated[0]!r} comes more than once."
            )
        return cls(frame)
