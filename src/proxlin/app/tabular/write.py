"""CSV that a spreadsheet shows and never runs."""

from __future__ import annotations

import pandas as pd

from proxlin.app.tabular.numbers import is_number

_STARTS = ("=", "+", "-", "@", "\t", "\n")


def as_csv(frame: pd.DataFrame) -> bytes:
    """The frame as CSV in UTF-8; text that would begin a formula gets a quote mark before it.

    Numbers are left alone, negative ones too, also where a cell of text holds nothing else. Line
    breaks within a cell become newlines: a carriage return would begin a row for many a reader.

    >>> as_csv(pd.DataFrame({"=x": ["=1+1", "-2.5"], "n": [-1, 2]})).decode().split()
    ["'=x,n", "'=1+1,-1", '-2.5,2']
    """
    safe = frame.copy()
    for place, kind in enumerate(frame.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(place, [_harmless(cell) for cell in frame.iloc[:, place]])
    safe.columns = pd.Index([_harmless(name) for name in frame.columns])
    text: str = safe.to_csv(index=False, lineterminator="\n")
    return text.encode("utf-8", errors="replace")


def _harmless(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    cell = cell.replace("\r\n", "\n").replace("\r", "\n")
    if not cell.lstrip(" ").startswith(_STARTS):
        return cell
    return cell if is_number(cell) else f"'{cell}"
