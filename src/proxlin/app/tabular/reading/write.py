"""Tables as files: CSV that a spreadsheet shows and never runs, Excel and Parquet."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import numpy as np
import pandas as pd

from proxlin.app.tabular.reading import extras
from proxlin.app.tabular.reading.number_text import is_number
from proxlin.errors import InvalidInputError

_MOST_EXCEL_ROWS, _LONGEST_EXCEL_TEXT = 1_048_576, 32_000
_STARTS = ("=", "+", "-", "@", "\t", "\n")
_LETTER = re.compile(r"(?<![\d.,])[^\W\d_]")  # other than that of an exponent: EUR5 is a cell, too


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


def as_file(frame: pd.DataFrame, name: str) -> bytes:
    """The content of a file of that name: .xlsx, .parquet, and CSV for every other."""
    if name.lower().endswith(".xlsx"):
        return _as_excel(frame)
    if name.lower().endswith(".parquet"):
        return _as_parquet(frame)
    return as_csv(frame)


def _as_excel(frame: pd.DataFrame) -> bytes:
    openpyxl = extras.openpyxl()
    if len(frame) >= _MOST_EXCEL_ROWS:
        raise InvalidInputError(
            f"an Excel sheet holds {_MOST_EXCEL_ROWS - 1:,} rows at most; the table has"
            f" {len(frame):,}. Write CSV or Parquet."
        )
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("proxlin")
    for row in ([*frame.columns], *frame.itertuples(index=False, name=None)):
        sheet.append([_excel_cell(value) for value in row])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _excel_cell(value: Any) -> Any:
    """Numbers as they are, everything else as text that is never a formula."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, bool | int | float):
        return value
    text = "".join(letter if letter.isprintable() else " " for letter in str(value))
    harmless = _harmless(text)
    return str(harmless)[:_LONGEST_EXCEL_TEXT]


def _as_parquet(frame: pd.DataFrame) -> bytes:
    extras.pyarrow()
    content = io.BytesIO()
    plain = frame.copy()
    for place, kind in enumerate(frame.dtypes):
        if pd.api.types.is_object_dtype(kind):
            plain.isetitem(place, frame.iloc[:, place].map(str, na_action="ignore").to_numpy())
    plain.to_parquet(content, index=False, engine="pyarrow")
    return content.getvalue()


def _harmless(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    cell = cell.replace("\r\n", "\n").replace("\r", "\n")
    if not cell.lstrip(" ").startswith(_STARTS):
        return cell
    return cell if is_number(cell) and not _LETTER.search(cell) else f"'{cell}"
