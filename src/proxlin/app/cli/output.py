"""Where a table goes: a file, whole or not at all, or the standard output."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pandas as pd
import typer

from proxlin.app.tabular.write import as_csv
from proxlin.errors import InvalidInputError
from proxlin.run.storage.files import write_whole

STDOUT = Path("-")


def check_output(path: Path) -> None:
    """Refuse, before any work, a file that could not be written."""
    if path == STDOUT:
        return
    if path.is_dir():
        raise InvalidInputError(f"--out must name a file; {path} is a folder.")
    above = next((folder for folder in path.absolute().parents if folder.exists()), Path(os.sep))
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as cause:
        raise InvalidInputError(f"{path} cannot be written: {cause.strerror}.") from cause


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write CSV that a spreadsheet shows and never runs."""
    content = as_csv(frame)
    if path != STDOUT:
        write_whole(path, content)
        return
    try:
        typer.echo(content, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough; Python would complain once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def remark(sentence: str) -> None:
    """Say something beside the table: on the standard error."""
    typer.echo(sentence, err=True)
