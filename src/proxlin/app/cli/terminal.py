"""What the commands share: the console, and a look at the output folder before the work begins."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console

from proxlin.errors import InvalidInputError

console = Console()


def say(text: str) -> None:
    """Print a sentence or a path as it is, in one piece."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def printable(text: str) -> str:
    """The text without characters that would move the cursor or change colours."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def make_writable(folder: Path) -> None:
    """Make the folder and put a file there for a moment, before any time goes into training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as cause:
        raise InvalidInputError(
            f"--out must name a folder that can be written to; got {folder}: {cause.strerror}."
        ) from cause
