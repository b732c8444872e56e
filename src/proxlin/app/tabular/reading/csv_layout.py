"""How a CSV file is made: its encoding, its separator and the names of its columns."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from proxlin.errors import InvalidInputError

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
LONGEST_CELL = 131_072  # characters


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
def own_cell_limit() -> Iterator[None]:
    """The longest cell is ours to say; the limit of `csv` is the whole process's, and anybody's."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


@own_cell_limit()
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
