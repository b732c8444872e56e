"""What a report is made of. Everything is plain text: the page escapes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from proxlin.errors import InvalidInputError
from proxlin.report.table import Table


@dataclass(frozen=True)
class Text:
    """Paragraphs, with an empty line between two of them."""

    text: str

    @property
    def paragraphs(self) -> list[str]:
        """The paragraphs one by one."""
        return [part.strip() for part in self.text.split("\n\n") if part.strip()]


@dataclass(frozen=True)
class Code:
    """A command or a piece of code, as it is typed."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names and what stands behind them: `Facts({"rows": "1,797", "seed": 0})`."""

    facts: Mapping[str, object]


@dataclass(frozen=True)
class Tiles:
    """Figures in large print by what they mean: `Tiles({"of the outliers names": "92 %"})`."""

    tiles: Mapping[str, str]


@dataclass(frozen=True)
class Picture:
    """A drawing, or several that stand beside each other where there is room.

    `caption` says what is to be seen to somebody who has read nothing else; `alt` says in words
    what the drawing shows to somebody who does not see it.
    """

    figure: Figure | Sequence[Figure]
    caption: str
    alt: str

    def __post_init__(self) -> None:
        _check_text("Picture(caption=...)", self.caption)
        _check_text("Picture(alt=...)", self.alt)
        if not self.figures:
            raise InvalidInputError("Picture(figure=...) must be one figure or several; got none.")

    @property
    def figures(self) -> list[Figure]:
        """The drawings one by one."""
        return [self.figure] if isinstance(self.figure, Figure) else list(self.figure)


Part = Text | Code | Facts | Tiles | Table | Picture


@dataclass(frozen=True)
class Section:
    """A titled piece of a report; a folded one shows its title until somebody opens it."""

    title: str
    parts: Sequence[Part]
    folded: bool = False

    def __post_init__(self) -> None:
        _check_text("Section(title=...)", self.title)


@dataclass(frozen=True)
class Report:
    """A title, a lead that says what came out, and the sections."""

    title: str
    lead: str
    sections: Sequence[Section]
    tiles: Tiles | None = None

    def __post_init__(self) -> None:
        _check_text("Report(title=...)", self.title)
        _check_text("Report(lead=...)", self.lead)

    @property
    def anchors(self) -> list[str]:
        """A name for each section, made of its title, that no other section has."""
        names: list[str] = []
        for section in self.sections:
            words = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
            name, count = words, 1
            while name in names:
                count += 1
                name = f"{words}-{count}"
            names.append(name)
        return names


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{name} must be a text that is not empty; got {value!r}.")
