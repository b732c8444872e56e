"""Tables on paper: CSV straight from the frame, Markdown and LaTeX with bold figures."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from proxlin.files import write_whole


@dataclass(frozen=True)
class Figures:
    """Numbers that share a field of a table; those that stand out are printed bold."""

    texts: tuple[str, ...]
    strong: tuple[bool, ...] = ()

    def join(self, left: str, right: str) -> str:
        """The numbers with bars between, the strong ones between `left` and `right`."""
        strong = self.strong or (False,) * len(self.texts)
        parts = [
            f"{left}{text}{right}" if bold else text
            for text, bold in zip(self.texts, strong, strict=True)
        ]
        return " / ".join(parts)


Field = str | Figures


@dataclass(frozen=True)
class Table:
    """A titled table of texts and figures, with remarks that stand below it."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[Field, ...]]
    remarks: tuple[str, ...] = field(default=())

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


def save(folder: Path, name: str, frame: pd.DataFrame, tables: list[Table]) -> list[Path]:
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


def _line(items: tuple[str, ...]) -> str:
    return "| " + " | ".join(items) + " |"


def _markdown(item: Field) -> str:
    text = item.join("**", "**") if isinstance(item, Figures) else item
    return text.replace("|", r"\|")


def _latex(item: Field) -> str:
    return item.join(r"\textbf{", "}") if isinstance(item, Figures) else _escape(item)


def _escape(text: str) -> str:
    escaped = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return escaped.replace("<", r"$<$").replace("*", r"$^*$")
