"""Tables of texts and figures: CSV from the frame, Markdown and LaTeX with bold figures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from proxlin._checks import check_choice
from proxlin.errors import InvalidInputError
from proxlin.report.figure_text import show_figure
from proxlin.run.storage import write_whole

_EMPTY = "–"
_NUMBER = re.compile(r"[-+]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?(?=$|[\s%/)])", re.IGNORECASE)


@dataclass(frozen=True)
class Figures:
    """Numbers that share a field of a table; those that stand out are printed bold."""

    texts: tuple[str, ...]
    strong: tuple[bool, ...] = ()

    def pairs(self) -> list[tuple[str, bool]]:
        """Each number with whether it stands out."""
        return list(zip(self.texts, self.strong or (False,) * len(self.texts), strict=True))

    def join(self, left: str, right: str) -> str:
        """The numbers with bars between, the strong ones between `left` and `right`."""
        return " / ".join(f"{left}{text}{right}" if bold else text for text, bold in self.pairs())


Field = str | int | float | Figures


@dataclass(frozen=True)
class Table:
    """A titled table of texts and figures, with remarks that stand below it.

    Numbers are shown with four digits; a `Figures` shows its texts as they are.
    """

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[Field, ...]]
    remarks: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise InvalidInputError(
                    f"a row of the table {self.title!r} must have {len(self.headings)} fields, one"
                    f" for each heading; got {len(row)}."
                )

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        title: str,
        *,
        best: Mapping[str, str] | None = None,
        remarks: Sequence[str] = (),
    ) -> Table:
        """The columns of the frame; `best={"error": "min"}` makes the lowest error bold.

        >>> errors = pd.DataFrame({"loss": ["squared", "l1"], "error": [0.5, 0.25]})
        >>> print(Table.from_frame(errors, "Errors", best={"error": "min"}).markdown())
        ## Errors
        <BLANKLINE>
        | loss | error |
        | --- | --- |
        | squared | 0.5 |
        | l1 | **0.25** |
        <BLANKLINE>
        """
        marks = {name: _extreme(frame, name, way) for name, way in (best or {}).items()}
        rows = [
            tuple(_field(value, name in marks and value == marks[name]) for name, value in pairs)
            for pairs in (zip(frame.columns, row, strict=True) for row in frame.to_numpy(object))
        ]
        return cls(title, tuple(map(str, frame.columns)), rows, tuple(remarks))

    def markdown(self) -> str:
        """As GitHub and mkdocs read it."""
        lines = [f"## {self.title}", ""]
        lines.append(_line(self.headings))
        lines.append(_line(tuple("---" for _ in self.headings)))
        for row in self.rows:
            lines.append(_line(tuple(_markdown(item) for item in row)))
        lines += [line for remark in self.remarks for line in ("", remark)]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A table environment that needs no package."""
        columns = "l" * len(self.headings)
        body = [" & ".join(_latex(item) for item in row) + r" \\" for row in self.rows]
        caption = " ".join([f"{self.title}.", *self.remarks])
        lines = [
            r"\begin{table}",
            r"\centering\footnotesize",
            rf"\caption{{{_escape(caption)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            " & ".join(_escape(heading) for heading in self.headings) + r" \\",
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"


def write_tables(folder: Path, name: str, frame: pd.DataFrame, tables: list[Table]) -> list[Path]:
    """Write name.csv, name.md and name.tex; each is replaced whole."""
    contents = {
        "csv": frame.to_csv(index=False),
        "md": "\n".join(table.markdown() for table in tables),
        "tex": "\n".join(table.latex() for table in tables),
    }
    paths = []
    for ending, text in contents.items():
        path = folder / f"{name}.{ending}"
        write_whole(path, text.encode())
        paths.append(path)
    return paths


def plain(item: Field) -> str:
    """The field as text: whole numbers with commas, others with four digits."""
    if isinstance(item, Figures):
        return item.join("", "")
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, int):
        return f"{item:,}"
    if isinstance(item, float):
        return _EMPTY if math.isnan(item) else show_figure(item)
    return item


def sort_value(item: Field) -> float | None:
    """The number a field begins with; None where it does not begin with one.

    >>> sort_value("1,797 rows"), sort_value(Figures(("0.25", "7"))), sort_value("p = 2")
    (1797.0, 0.25, None)
    """
    if isinstance(item, int | float):
        return None if math.isnan(item) else float(item)
    number = _NUMBER.match(plain(item))
    return None if number is None else float(number[0].replace(",", ""))


def numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers and empty fields alone, and at least one number."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.headings)
    return [
        any(sort_value(item) is not None for item in column)
        and all(sort_value(item) is not None or _is_empty(item) for item in column)
        for column in columns
    ]


def _is_empty(item: Field) -> bool:
    return plain(item).strip() in ("", _EMPTY)


def _extreme(frame: pd.DataFrame, name: str, way: str) -> Any:
    if name not in frame.columns:
        check_choice("best", name, map(str, frame.columns))
    return frame[name].agg(check_choice(f"best[{name!r}]", way, ("min", "max")))


def _field(value: Any, strong: bool) -> Field:
    if value is None or value is pd.NA:
        return _EMPTY
    field: Field = value if isinstance(value, bool | int | float | Figures) else str(value)
    if strong:
        return Figures((plain(field),), (True,))
    return field


def _line(items: tuple[str, ...]) -> str:
    return "| " + " | ".join(items) + " |"


def _markdown(item: Field) -> str:
    text = item.join("**", "**") if isinstance(item, Figures) else plain(item)
    return text.replace("|", r"\|")


def _latex(item: Field) -> str:
    return item.join(r"\textbf{", "}") if isinstance(item, Figures) else _escape(plain(item))


def _escape(text: str) -> str:
    escaped = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return escaped.replace("<", r"$<$").replace("*", r"$^*$")
