"""Where results go: a table on the terminal, a file whole or not at all, the standard output."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pandas as pd
import typer
from rich.table import Table as Grid
from rich.text import Text

from proxlin.app.cli.terminal import console, printable, say
from proxlin.app.tabular.reading.write import as_csv, as_file
from proxlin.errors import InvalidInputError
from proxlin.report import Field, Figures, Table
from proxlin.report.table import numeric_columns, plain
from proxlin.run.storage import write_whole

STDOUT = Path("-")


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


def check_output(path: Path) -> None:
    """Refuse, before any work, a file that could not be written."""
    if path == STDOUT:
        return
    if path.is_dir():
        raise InvalidInputError(f"--out must name a file; {path} is a folder.")
    above = next((folder for folder in path.absolute().parents if folder.exists()), Path(os.sep))
    try:
        with TemporaryFile(dir=above):
            pass
    except OSError as cause:
        raise InvalidInputError(f"{path} cannot be written: {cause.strerror}.") from cause


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write Excel or Parquet by the file's name, else CSV that a spreadsheet never runs."""
    if path != STDOUT:
        write_whole(path, as_file(frame, path.name))
        return
    content = as_csv(frame)
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


def show_table(table: Table) -> None:
    """Print the table with its remarks; figures that stand out are bold."""
    grid = Grid(title=Text(printable(table.title)))
    for heading, numeric in zip(table.headings, numeric_columns(table), strict=True):
        grid.add_column(Text(printable(heading)), justify="right" if numeric else "left")
    for row in table.rows:
        grid.add_row(*(_text(item) for item in row))
    console.print(grid)
    for remark in table.remarks:
        say(printable(remark))


def _text(item: Field) -> Text:
    if not isinstance(item, Figures):
        return Text(printable(plain(item)))
    text = Text()
    for place, (figure, strong) in enumerate(item.pairs()):
        text.append(" / " if place else "")
        text.append(printable(figure), style="bold green" if strong else "")
    return text
