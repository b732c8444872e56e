"""CSV of unknown make: encoding, separator and every line checked before a number is read."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
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


SEPARATORS = (",", ";", "\t", "|")

_BINARY = {
    b"PK\x03\x04": "a spreadsheet or zip file; save the table as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel file; save the table as CSV",
    b"%PDF": "a PDF file; save the table as CSV",
    b"\x89HDF": "an HDF5 file; save the table as Parquet or CSV",
    b"BZh": "compressed by bzip2; unpack it first",
    b"\xfd7zXZ": "compressed by xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; unpack it first",
    b"PAR1": "a damaged Parquet file",
}
_MARKS = (  # the longer mark first: that of UTF-32 begins like that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNDEFINED = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D))  # in cp1252
_LOOK = 1 << 16  # bytes or characters that tell the make of the file
_LINES = 200
_LONGEST_CELL = 131_072  # characters


def find_encoding(content: bytes) -> str:
    """The encoding that the bytes are in; NUL bytes and other kinds of file are refused.

    A byte order mark decides, then whether the bytes are UTF-8, which text of another encoding
    hardly ever is by chance. What is left is Western European.
    """
    for magic, what in _BINARY.items():
        if content.startswith(magic):
            raise InvalidInputError(f"it is no text but {what}.")
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decodable(content, encoding)
    if b"\0" in content:
        sides = _utf16_side(content[:_LOOK])
        if sides is None:
            raise InvalidInputError(
                f"it holds a NUL byte at position {content.index(0)}, so that it is no text file;"
                " export the table again as CSV."
            )
        return _decodable(content, sides)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1" if any(byte in content for byte in _UNDEFINED) else "cp1252"
    return "utf-8"


@dataclass(frozen=True)
class CsvLayout:
    """How the lines of a text are cut into cells."""

    separator: str
    header: tuple[str, ...]


def find_layout(content: bytes, encoding: str, separator: str | None) -> CsvLayout:
    """The separator under which the first lines agree best with the header, and the header."""
    sample = _first_lines(content, encoding)
    if separator is not None:
        return CsvLayout(separator, _header(sample, separator))
    separator = max(SEPARATORS, key=lambda candidate: _agreement(sample, candidate))
    if _agreement(sample, separator)[0] == 0.0:
        separator = ","  # nothing separates: one column
    return CsvLayout(separator, _header(sample, separator))


def is_blank(row: list[str]) -> bool:
    """Whether the cells are those of a line with nothing on it."""
    return len(row) < 2 and not "".join(row).strip()


def _agreement(sample: str, separator: str) -> tuple[float, int]:
    """The share of lines with as many cells as the header, and that number; zero for one cell."""
    widths = [len(row) for row in _rows(sample, separator)]
    if not widths or widths[0] < 2:
        return 0.0, 0
    return sum(width == widths[0] for width in widths) / len(widths), widths[0]


def _header(sample: str, separator: str) -> tuple[str, ...]:
    first = next(iter(_rows(sample, separator)), [])
    return tuple(name.strip() for name in first)


@contextmanager
def _own_cell_limit() -> Iterator[None]:
    """The longest cell is ours to say; the limit of `csv` is the whole process's, and anybody's."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


@_own_cell_limit()
def _rows(sample: str, separator: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
    try:
        return [row for row, _ in zip(reader, range(_LINES), strict=False) if not is_blank(row)]
    except csv.Error:
        return []


def _first_lines(content: bytes, encoding: str) -> str:
    """Whole lines from the beginning of the text, as far as one look goes."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    text = decoder.decode(content[:_LOOK], final=len(content) <= _LOOK)
    if len(content) <= _LOOK:
        return text
    end = max(text.rfind("\n"), text.rfind("\r"))
    return text if end < 0 else text[: end + 1]


def _utf16_side(content: bytes) -> str | None:
    """Whether the bytes look like UTF-16 of mostly Latin text: NUL in every second place only."""
    for encoding, empty, full in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        if content[empty::2].count(0) > 0.8 * (len(content) / 2) and 0 not in content[full::2]:
            return encoding
    return None


def _decodable(content: bytes, encoding: str) -> str:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as cause:
        raise InvalidInputError(
            f"it begins like {encoding.upper()} but is damaged at byte {cause.start}; save it"
            " again as UTF-8."
        ) from cause
    if "\0" in text:
        raise InvalidInputError("it holds a NUL character; export the table again as CSV.")
    return encoding


# Besides those that pandas knows: "", NA, N/A, NaN, NULL, None and the like.
MISSING_MARKS = ("?", "-", "--", ".", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")

_NUMBER = re.compile(r"[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\Z")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+")
_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}


def parse_csv(content: bytes, separator: str | None = None) -> RawTable:
    """The table of a CSV file; encoding and, unless given, separator are found out.

    Cells stay what they are: one that begins with "=" is text. Errors end the sentence "FILE
    cannot be read: ...".
    """
    encoding = find_encoding(content)
    layout = find_layout(content, encoding, separator)
    if not layout.header:
        raise InvalidInputError("it is empty; the first line must hold the names of the columns.")
    names, notes = column_names(layout.header)
    rows, short = _measure(content, encoding, layout.separator, len(names))
    if not rows:
        raise InvalidInputError("it has names of columns but no rows.")
    frame = _cells(content, encoding, layout.separator, names)
    doubtful = _with_three_decimals(frame) if layout.separator == ";" else []
    if doubtful:  # 1.125 may be a thousand times as large: their text decides, as in other files
        texts = _cells(content, encoding, layout.separator, names, as_text=doubtful)
        for name in doubtful:
            if _may_be_thousands(texts[name]):
                frame[name] = texts[name]
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
        notes.append(f"{short:,} row(s) end early; their last cells count as missing.")
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
            f"{len(unnamed)} column(s) without a name are called by their place, such as"
            f" {names[unnamed[0]]!r}."
        )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        places = [str(place + 1) for place, name in enumerate(names) if name == repeated[0]]
        raise InvalidInputError(
            f"it names {len(repeated)} column(s) more than once: {repeated[0]!r} is column"
            f" {' and '.join(places[:4])}. Rename or drop the copies."
        )
    return names, notes


@_own_cell_limit()
def _measure(content: bytes, encoding: str, separator: str, named: int) -> tuple[int, int]:
    """The number of rows below the header, and of those with too few cells."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding=encoding, newline="")
    reader = csv.reader(text, delimiter=separator)
    rows, short = -1, 0
    try:
        for row in reader:
            width = len(row)
            if is_blank(row):
                continue
            rows += 1
            if width < named:
                short += 1
            elif width > named and any(cell.strip() for cell in row[named:]):
                raise InvalidInputError(
                    f"line {reader.line_num:,} has {width} cells, the header {named}; put quotes"
                    " around cells with a separator in them, or name the right --separator."
                )
    except csv.Error as cause:
        raise InvalidInputError(
            f"line {reader.line_num:,} has a quote that does not end, or a cell of more than"
            f" {_LONGEST_CELL:,} characters."
        ) from cause
    return rows, short


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
            raise InvalidInputError(
                "it has a quote that does not end; close it, or take stray quotes out."
            ) from cause
        raise InvalidInputError(
            f"it is no regular CSV: {reason[-1] if reason else type(cause).__name__}."
        ) from cause
