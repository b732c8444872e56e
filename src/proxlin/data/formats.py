"""File formats: bytes of an IDX, ARFF or CSV file to numbers, or one reason why it is damaged."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray

GZIP_MAGIC = b"\x1f\x8b"
IDX_BYTES = 0x08  # type code of unsigned bytes, the only one these data sets use

_PIECE = 1 << 20  # bytes unpacked at a time: memory grows with what is there, not with the bound
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)(?:\s+|(?=\{{))(\S.*)$", re.IGNORECASE)
_CELL = re.compile(rf"\s*({_QUOTED}|[^,]*?)\s*,")
_NUMERIC_TYPES = ("numeric", "real", "integer")


class MalformedError(ValueError):
    """Why a file is damaged, as the end of the sentence 'FILE is damaged: ...'."""


@dataclass(frozen=True, eq=False)
class NumericTable:
    """Numbers with named columns; NaN marks an unknown cell."""

    names: tuple[str, ...]
    values: NDArray[np.float64]  # (rows, columns)
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Nominal columns, which hold the position in this list of their values."""


def unpacked(content: bytes, most: int) -> bytes:
    """What gzip packed, at most so many bytes; other content as it is.

    The first bytes decide, not the name: servers and browsers unpack .gz files unasked.
    """
    if not content.startswith(GZIP_MAGIC):
        return content
    plain = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while piece := file.read(_PIECE):
                plain += piece
                if len(plain) > most:
                    raise MalformedError(f"it unpacks to more than {most >> 30} GB")
    except (OSError, EOFError, zlib.error) as cause:
        raise MalformedError(f"gzip says {str(cause)!r}") from cause
    return bytes(plain)


def parse_idx(content: bytes, dimensions: int) -> NDArray[np.uint8]:
    """Read the array of unsigned bytes with so many dimensions that an IDX file holds."""
    header = 4 + 4 * dimensions
    magic = bytes((0, 0, IDX_BYTES, dimensions))
    if content[:4] != magic:
        raise MalformedError(f"it must begin with the bytes {magic.hex()}; got {content[:4].hex()}")
    if len(content) < header:
        raise MalformedError(f"its header must have {header} bytes; got {len(content)}")
    shape = tuple(int(n) for n in np.frombuffer(content[4:header], dtype=">u4"))
    if len(content) != header + prod(shape):
        raise MalformedError(
            f"shape {shape} needs {prod(shape)} bytes of payload; got {len(content) - header}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def parse_table(content: bytes, path: str) -> NumericTable:
    """Read an ARFF file, or a CSV file with a header line if `path` ends in .csv."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # never fails; old ARFF files are Western European
    return _parse_csv(text) if path.endswith(".csv") else parse_arff(text)


def parse_arff(text: str) -> NumericTable:
    """Read a dense ARFF file with numeric and nominal attributes; `?` is an unknown cell.

    >>> header = ["@relation r", "@attribute a real", "@attribute b {x,y}", "@data"]
    >>> table = parse_arff("\\n".join([*header, "1.5,y", "?,x"]))
    >>> table.names, table.values.tolist()
    (('a', 'b'), [[1.5, 1.0], [nan, 0.0]])
    """
    lines = _content_lines(text, comment="%")
    names: list[str] = []
    levels: dict[int, list[str]] = {}  # column: its nominal values
    for number, line in lines:
        keyword = line.split(None, 1)[0].lower()
        if keyword == "@data":
            break
        if keyword == "@attribute":
            name, values = _parse_attribute(number, line)
            if values is not None:
                levels[len(names)] = values
            names.append(name)
        elif keyword != "@relation":
            raise MalformedError(f"line {number} must be an ARFF declaration; got {line[:40]!r}")
    else:
        raise MalformedError("it has no @data line")
    if not names:
        raise MalformedError("it declares no attributes")
    rows = list(lines)
    if rows and rows[0][1].startswith("{"):
        raise MalformedError("sparse ARFF rows cannot be read; save it in the dense form")
    if levels or any("'" in line or '"' in line for _, line in rows):
        values_array = _parse_mixed_rows(rows, names, levels)
    else:
        values_array = _parse_numeric_rows(rows, names)
    return NumericTable(
        tuple(names), values_array, {names[column]: values for column, values in levels.items()}
    )


def _parse_csv(text: str) -> NumericTable:
    lines = _content_lines(text, comment=None)
    _, header = next(lines, (0, ""))
    names = split_cells(header)
    if not header or len(set(names)) != len(names):
        raise MalformedError("its first line must hold the names of the columns, each once")
    return NumericTable(tuple(names), _parse_numeric_rows(list(lines), names))


def _content_lines(text: str, comment: str | None) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without blank ones and comments."""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not (comment and stripped.startswith(comment)):
            yield number, stripped


def _parse_attribute(number: int, line: str) -> tuple[str, list[str] | None]:
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise MalformedError(f"line {number} must be '@attribute NAME TYPE'; got {line[:40]!r}")
    name, kind = _unquote(match[1]), match[2]
    if kind.startswith("{"):
        return name, split_cells(kind.strip("{} \t"))
    if kind.split()[0].lower() in _NUMERIC_TYPES:
        return name, None
    raise MalformedError(
        f"line {number}: attribute {name!r} must be numeric or nominal; got type {kind[:20]!r}"
    )


def split_cells(line: str) -> list[str]:
    r"""Split at commas outside quotes; outer quotes go.

    >>> split_cells("a, 'b, c' ,\"d\",")
    ['a', 'b, c', 'd', '']
    """
    return [_unquote(match[1]) for match in _CELL.finditer(line + ",")]


def _unquote(cell: str) -> str:
    if len(cell) >= 2 and cell[0] == cell[-1] and cell[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", cell[1:-1])
    return cell


def _check_width(number: int, width: int, names: Sequence[str]) -> None:
    if width != len(names):
        raise MalformedError(f"line {number} must have {len(names)} cells; got {width}")


def _parse_numeric_rows(
    rows: Sequence[tuple[int, str]], names: Sequence[str]
) -> NDArray[np.float64]:
    """Rows of plain numbers, where an empty cell or `?` is unknown."""
    # The fast reader pads short rows with unknown cells, so the width is checked before.
    for number, line in rows:
        _check_width(number, line.count(",") + 1, names)
    if not rows:
        raise MalformedError("it has no rows")
    body = "\n".join(line for _, line in rows).replace(" ", "").replace("\t", "")
    try:
        frame = pd.read_csv(
            io.StringIO(body),
            header=None,
            dtype=np.float64,
            na_values=["?", ""],
            keep_default_na=False,
            skip_blank_lines=False,
        )
        values = frame.to_numpy(dtype=np.float64)
    except ValueError:
        return _parse_mixed_rows(rows, names, {})  # slower, and names the cell
    if np.isinf(values).any():
        row, column = (int(i[0]) for i in np.nonzero(np.isinf(values)))
        raise MalformedError(f"line {rows[row][0]}: {names[column]!r} must be finite")
    return values


def _parse_mixed_rows(
    rows: Sequence[tuple[int, str]], names: Sequence[str], levels: dict[int, list[str]]
) -> NDArray[np.float64]:
    if not rows:
        raise MalformedError("it has no rows")
    positions = {c: {v: i for i, v in enumerate(values)} for c, values in levels.items()}
    parsed: list[list[float]] = []
    for number, line in rows:
        cells = split_cells(line)
        _check_width(number, len(cells), names)
        parsed.append([_number(number, names, c, cell, positions) for c, cell in enumerate(cells)])
    return np.array(parsed, dtype=np.float64)


def _number(
    line: int,
    names: Sequence[str],
    column: int,
    cell: str,
    positions: dict[int, dict[str, int]],
) -> float:
    if cell in ("?", ""):
        return float("nan")
    if column in positions:
        if cell not in positions[column]:
            raise MalformedError(
                f"line {line}: {names[column]!r} must be one of its declared values; got {cell!r}"
            )
        return float(positions[column][cell])
    try:
        value = float(cell)
    except ValueError:
        raise MalformedError(
            f"line {line}: {names[column]!r} must be a number; got {cell[:20]!r}"
        ) from None
    if np.isinf(value):
        raise MalformedError(f"line {line}: {names[column]!r} must be finite")
    return value
