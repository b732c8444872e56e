"""CSV of unknown make: every line is checked before a number is read."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from proxlin._checks import counted
from proxlin.app.tabular.reading.csv_layout import (
    LONGEST_CELL,
    find_encoding,
    find_layout,
    is_blank,
    own_cell_limit,
)
from proxlin.app.tabular.reading.numbers import TextCells
from proxlin.errors import InvalidInputError

# Besides those that pandas knows: "", NA, N/A, NaN, NULL, None and the like.
MISSING_MARKS = ("?", "-", "--", ".", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")

_START = 400  # bytes that show what a text is
_NO_TABLES = {
    "JSON": re.compile(r"\s*(\[\s*[\[{]|\{\s*\")"),
    "a web page or XML": re.compile(r"\s*<(!doctype|html|\?xml|table)", re.IGNORECASE),
}
_NUMBER = re.compile(r"[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\Z")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+")
_PADDED = re.compile(rb"[^\w.:/+-]0\d")  # perhaps a code such as 01067
_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}


class _OpenQuoteError(Exception):
    """The text ends inside quotes."""


@dataclass(frozen=True, eq=False)
class RawTable:
    """A frame with different names and rows counted from 0, and what reading it took."""

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()  # sentences
    comma_decimals: bool = False  # whether 1,5 may mean one and a half

    @classmethod
    def of(cls, table: Any) -> RawTable:
        """The table itself, or one of pandas, whatever its index, or of polars."""
        if isinstance(table, RawTable):
            return table
        if type(table).__module__.startswith("polars") and hasattr(table, "get_columns"):
            table = pd.DataFrame({part.name: part.to_list() for part in table.get_columns()})
        if not isinstance(table, pd.DataFrame):
            raise InvalidInputError(
                f"table must be a DataFrame of pandas or polars, or what read_table_file returns;"
                f" got {type(table).__module__}.{type(table).__name__}."
            )
        frame = table.reset_index(drop=True)
        frame.columns = pd.Index(list(map(str, table.columns)))
        repeated = frame.columns[frame.columns.duplicated()]
        if len(repeated):
            raise InvalidInputError(
                f"table must not name a column twice; {repeated[0]!r} comes more than once."
            )
        return cls(frame)


def parse_csv(content: bytes, separator: str | None = None) -> RawTable:
    """The table of a CSV file; encoding and, unless given, separator are found out.

    Cells stay what they are: one that begins with "=" is text. Errors end the sentence "FILE
    cannot be read: ...".
    """
    encoding = find_encoding(content)
    start = content[:_START].decode(encoding, "replace")
    for kind, beginning in _NO_TABLES.items():
        if beginning.match(start):
            raise InvalidInputError(f"it is {kind}; save the table as CSV.")
    layout = find_layout(content, encoding, separator)
    if not layout.header:
        raise InvalidInputError("it is empty; the first line must hold the names of the columns.")
    names, notes = column_names(layout.header)
    rows, short, last = _measure(content, encoding, layout.separator, len(names))
    if not rows:
        raise InvalidInputError("it has names of columns but no rows.")
    try:
        frame = _cells(content, encoding, layout.separator, names)
    except _OpenQuoteError as cause:
        raise InvalidInputError(
            f"a quote in line {last:,} does not end; close it, or take stray quotes out."
        ) from cause
    _restore_text(frame, content, encoding, layout.separator)
    if len(frame) != rows:
        raise InvalidInputError(
            f"its quotes do not pair up: {rows} or {len(frame)} rows, depending on how they are"
            " taken; save it again with quotes around all text."
        )
    if encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"The text was read as {encoding}.")
    if layout.separator != ",":
        notes.append(f"Cells are separated by {_NAMES.get(layout.separator, layout.separator)}.")
    if short:
        notes.append(f"{counted(short, 'row')} ended early: the last cells count as missing.")
    return RawTable(frame, tuple(notes), comma_decimals=layout.separator == ";")


def column_names(header: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """A name for each column, each once."""
    if all(_NUMBER.match(name) for name in header):
        raise InvalidInputError(
            "its first line must hold the names of the columns; got the numbers"
            f" {', '.join(header[:3])}. Add a line with names."
        )
    names, notes = list(header), []
    while len(names) > 1 and not names[-1]:
        names.pop()  # separators at the end of the line; cells below them are refused
    unnamed = [number for number, name in enumerate(names) if not name]
    for number in unnamed:
        names[number] = f"column {number + 1}"
    if unnamed:
        notes.append(
            f"{counted(len(unnamed), 'column')} without a name, called by place, such as"
            f" {names[unnamed[0]]!r}."
        )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        places = [str(place + 1) for place, name in enumerate(names) if name == repeated[0]]
        raise InvalidInputError(
            f"it names {counted(len(repeated), 'column')} more than once: {repeated[0]!r} is column"
            f" {' and '.join(places[:4])}. Rename or drop the copies."
        )
    return names, notes


@own_cell_limit()
def _measure(content: bytes, encoding: str, separator: str, named: int) -> tuple[int, int, int]:
    """The number of rows below the header, of those with too few cells, and the last one's line."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding=encoding, newline="")
    reader = csv.reader(text, delimiter=separator)
    rows, short, last, line = -1, 0, 1, 1
    try:
        for row in reader:
            width = len(row)
            last, line = line, reader.line_num + 1
            if is_blank(row):
                continue
            rows += 1
            if width < named:
                short += 1
            elif width > named and any(cell.strip() for cell in row[named:]):
                raise InvalidInputError(
                    f"line {reader.line_num:,} has {width} cells, the header {named}; put quotes"
                    " around cells with a separator in them, name the right --separator, or take"
                    " out lines above the names of the columns."
                )
    except csv.Error as cause:
        raise InvalidInputError(
            f"line {reader.line_num:,} has a quote that does not end, or a cell of more than"
            f" {LONGEST_CELL:,} characters."
        ) from cause
    return rows, short, last


def _restore_text(frame: pd.DataFrame, content: bytes, encoding: str, separator: str) -> None:
    """Columns whose numbers do not say what the cells mean become text again.

    Where semicolons part the cells 1.125 may be a thousand times as large, and 01067 is no number.
    """
    names = [str(name) for name in frame.columns]
    doubtful = _with_three_decimals(frame) if separator == ";" else []
    shown = content.replace(b"\0", b"") if encoding.startswith("utf-16") else content
    whole = _of_whole_numbers(frame) if _PADDED.search(shown) else []
    if not doubtful and not whole:
        return
    texts = _cells(content, encoding, separator, names, as_text=[*doubtful, *whole])
    for name in doubtful:
        if _may_be_thousands(texts[name]):
            frame[name] = texts[name]
    for name in whole:
        cells = TextCells.of(texts[name])
        if cells is not None and cells.are_codes():
            frame[name] = texts[name]


def _with_three_decimals(frame: pd.DataFrame) -> list[str]:
    """The columns whose numbers all have three decimals or none."""
    names = []
    for name, kind in zip(frame.columns, frame.dtypes, strict=True):
        if pd.api.types.is_float_dtype(kind):
            values = frame[name].to_numpy()
            values = values[np.isfinite(values) & (values != np.floor(values))]
            thousands = values * 1000
            if len(values) and bool((np.abs(thousands - np.round(thousands)) < 1e-6).all()):
                names.append(str(name))
    return names


def _of_whole_numbers(frame: pd.DataFrame) -> list[str]:
    names = []
    for name, kind in zip(frame.columns, frame.dtypes, strict=True):
        if pd.api.types.is_integer_dtype(kind):
            names.append(str(name))
        elif pd.api.types.is_float_dtype(kind):
            values = frame[name].dropna().to_numpy()
            if len(values) and bool((values == np.floor(values)).all()):
                names.append(str(name))
    return names


def _may_be_thousands(texts: pd.Series[Any]) -> bool:
    """Whether every point has three digits behind it, as one between thousands has."""
    pointed = texts[texts.str.contains(".", regex=False, na=False)].str.strip()
    return bool(pointed.str.fullmatch(_THOUSANDS).all())


def _cells(
    content: bytes, encoding: str, separator: str, names: list[str], as_text: Sequence[str] = ()
) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pd.errors.ParserWarning)  # cells beyond the last name
            return pd.read_csv(
                io.BytesIO(content),
                sep=separator,
                encoding=encoding,
                header=0,
                names=names,
                usecols=list(as_text) or range(len(names)),
                dtype=dict.fromkeys(as_text, str),
                index_col=False,
                na_values=list(MISSING_MARKS),
                skipinitialspace=True,
                low_memory=False,
            )
    except (ValueError, OverflowError) as cause:  # ParserError and UnicodeError are ValueErrors
        reason = str(cause).strip().splitlines()
        if reason and "EOF inside string" in reason[-1]:
            raise _OpenQuoteError from cause
        raise InvalidInputError(
            f"it is no regular CSV: {reason[-1] if reason else type(cause).__name__}."
        ) from cause
