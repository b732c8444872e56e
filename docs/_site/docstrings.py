"""Docstrings as the site's parser wants them: examples and words after lists get a heading.

What a dataclass says of its fields in comments becomes a list in its docstring.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"^(Parameters|Attributes|Returns|Raises|Notes|Examples)\n-+$", re.MULTILINE)

COMMENT = re.compile(r"  # (.+)$")


class Headings(griffe.Extension):
    """Give `>>>` examples a heading, and words that follow a list of parameters another."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called for each class, function and module that was read."""
        if obj.docstring is not None:
            obj.docstring.value = with_headings(obj.docstring.value)

    def on_class_members(self, *, cls: Any, **_: Any) -> None:
        """Called for each class once its fields are known."""
        made = " ".join(str(decorator.value) for decorator in cls.decorators)
        if "dataclass" in made and cls.docstring and not HEADING.search(cls.docstring.value):
            cls.docstring.value += listed_fields(cls)


def listed_fields(cls: Any) -> str:
    """The comments behind the public fields of a dataclass, as a list of its docstring."""
    lines = cls.filepath.read_text(encoding="utf-8").splitlines()
    entries = []
    for name, member in cls.members.items():
        if not member.is_attribute or name.startswith("_") or "init=False" in str(member.value):
            continue
        comment = COMMENT.search(lines[member.lineno - 1])
        if comment:
            text = comment[1]
            entries.append(f"{name}\n    {text[0].upper()}{text[1:]}")
    return "\n\nAttributes\n----------\n" + "\n".join(entries) if entries else ""


def with_headings(text: str) -> str:
    """The same docstring with `Notes` and `Examples` above what they are.

    >>> print(with_headings("Sum.\\n\\n>>> 1 + 1\\n2"))
    Sum.
    <BLANKLINE>
    Examples
    --------
    >>> 1 + 1
    2
    """
    listing, parts = False, []
    for part in re.split(r"\n{2,}", text):
        lines = part.split("\n")
        if HEADING.match(part):
            listing = lines[0] in ("Parameters", "Attributes")
        elif lines[0].startswith(">>>") and not any(p.startswith("Examples\n") for p in parts):
            parts.append(f"Examples\n--------\n{part}")
            listing = False
            continue
        elif listing and not any(line.startswith("    ") for line in lines):
            parts.append(f"Notes\n-----\n{part}")
            listing = False
            continue
        parts.append(part)
    return "\n\n".join(parts)
