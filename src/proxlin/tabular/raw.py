"""RawTable: the cells of a file with named columns, before anybody decides what they mean."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, eq=False)
class RawTable:
    """A frame with different names and rows counted from 0, and what reading it took."""

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()  # sentences
    comma_decimals: bool = False  # whether 1,5 may mean one and a half
