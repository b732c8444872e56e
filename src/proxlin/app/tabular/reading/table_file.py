"""read_table_file: CSV, Excel, Parquet or ARFF from the disk, told apart by the first bytes."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from proxlin._checks import check_choice, counted
from proxlin.app.tabular.reading import extras
from proxlin.app.tabular.reading.csv_file import RawTable, column_names, parse_csv
from proxlin.app.tabular.reading.csv_layout import SEPARATORS, find_encoding
from proxlin.data.formats import MalformedError, parse_arff, unpacked
from proxlin.errors import InvalidInputError
from proxlin.run.storage import read_regular

_PARQUET, _ZIP = b"PAR1", b"PK\x03\x04"
_LOOK = 4096
_MOST_UNPACKED = 8 << 30  # bytes: a small file must not unpack into all memory
_MOST_EXCEL = 1 << 30  # bytes, unpacked


def read_table_file(path: str | Path, *, separator: str | None = None) -> RawTable:
    """The table in the file, also if gzip packed it; one sentence if there is none.

    `separator` is for CSV files whose own is not detected.
    """
    if separator is not None:
        separator = {"\\t": "\t", "tab": "\t"}.get(separator, separator)
        check_choice("separator", separator, SEPARATORS)
    try:
        content = _unpacked(_content(path), path)
    except MemoryError as cause:
        raise _too_large(path) from cause
    try:
        if content.startswith(_PARQUET) and content.endswith(_PARQUET):
            return _parse_parquet(content)
        if content.startswith(_ZIP) and _is_excel(content):
            return _parse_excel(content)
        if _is_arff(content):
            return _parse_arff(content)
        return parse_csv(content, separator)
    except InvalidInputError as cause:
        raise InvalidInputError(f"{path} cannot be read: {cause}") from cause
    except MemoryError as cause:
        raise _too_large(path) from cause


def _too_large(path: str | Path) -> InvalidInputError:
    return InvalidInputError(f"{path} is more than the memory holds; split it first.")


def _content(path: str | Path) -> bytes:
    try:
        return read_regular(Path(path))
    except FileNotFoundError as cause:
        raise InvalidInputError(f"{path} does not exist; check the path.") from cause
    except IsADirectoryError as cause:
        raise InvalidInputError(f"{path} is a folder; name a file with a table.") from cause
    except OSError as cause:
        raise InvalidInputError(f"{path} cannot be opened: {cause.strerror}.") from cause


def _unpacked(content: bytes, path: str | Path) -> bytes:
    try:
        return unpacked(content, _MOST_UNPACKED)
    except MalformedError as cause:
        raise InvalidInputError(f"{path} cannot be unpacked: {cause}.") from cause


def _is_excel(content: bytes) -> bool:
    try:
        return "xl/workbook.xml" in zipfile.ZipFile(io.BytesIO(content)).namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _parse_excel(content: bytes) -> RawTable:
    """The first sheet: names in its first row, and what the cells show, never their formulas."""
    openpyxl = extras.openpyxl()
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        if sum(part.file_size for part in archive.infolist()) > _MOST_EXCEL:
            raise InvalidInputError("it unpacks to more than 1 GB; save the table as CSV.")
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        rows = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    except InvalidInputError:
        raise
    except Exception as cause:  # whatever a damaged archive or its XML may raise
        raise InvalidInputError(f"it is a damaged Excel file ({type(cause).__name__}).") from cause
    rows = [row for row in rows if any(cell is not None for cell in row)]
    if len(rows) < 2:
        raise InvalidInputError("its first sheet has no rows below the names of the columns.")
    names, notes = column_names(tuple("" if c is None else str(c).strip() for c in rows[0]))
    if len(book.sheetnames) > 1:
        first = book.sheetnames[0]
        notes.append(f"Of {len(book.sheetnames)} sheets the first, {first!r}, was read.")
    notes += _beyond(rows[1:], len(names))
    columns = {
        name: pd.Series([row[place] if place < len(row) else None for row in rows[1:]])
        for place, name in enumerate(names)
    }
    return RawTable(pd.DataFrame(columns), tuple(notes))


def _beyond(rows: list[list[Any]], named: int) -> list[str]:
    """What is said of cells to the right of the last name; in most rows, they are the table."""
    stray = [
        next((cell for cell in row[named:] if cell is not None), None)
        for row in rows
        if any(cell is not None for cell in row[named:])
    ]
    if 2 * len(stray) > len(rows):
        raise InvalidInputError(
            f"most of its rows have more cells than the first, which has {counted(named, 'name')};"
            " take out lines above the names of the columns, or name all columns."
        )
    cells = f"{counted(len(stray), 'row')} with cells to the right of the last name, such as"
    return [f"Left out: {cells} {str(stray[0])[:40]!r}."] if stray else []


def _is_arff(content: bytes) -> bool:
    """Whether the first line that is no comment declares a relation."""
    for line in content[:_LOOK].removeprefix(b"\xef\xbb\xbf").splitlines():
        stripped = line.strip().lower()
        if stripped and not stripped.startswith(b"%"):
            return stripped.startswith((b"@relation", b"@attribute"))
    return False


def _parse_arff(content: bytes) -> RawTable:
    try:
        table = parse_arff(content.decode(find_encoding(content)))
    except MalformedError as cause:
        raise InvalidInputError(f"{cause}.") from cause
    _check_names(table.names)
    columns = {}
    for number, name in enumerate(table.names):
        values = table.values[:, number]
        if name in table.levels:
            levels = np.array([*table.levels[name], None], dtype=object)
            observed = np.isfinite(values)
            columns[name] = levels[np.where(observed, values, len(levels) - 1).astype(int)]
        else:
            columns[name] = values
    return RawTable(pd.DataFrame(columns))


def _parse_parquet(content: bytes) -> RawTable:
    pyarrow = extras.pyarrow()
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        _check_names(tuple(file.schema_arrow.names))
        frame = file.read().to_pandas(ignore_metadata=True)
    except InvalidInputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, ArithmeticError) as cause:
        reason = (str(cause).strip() or type(cause).__name__).splitlines()
        raise InvalidInputError(f"it is a damaged Parquet file: {reason[0][:200]}.") from cause
    if not len(frame) or not len(frame.columns):
        raise InvalidInputError("it has no rows.")
    return RawTable(frame)


def _check_names(names: tuple[str, ...]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidInputError(
            f"it names {counted(len(repeated), 'column')} more than once, such as {repeated[0]!r}."
            " Rename or drop the copies."
        )
