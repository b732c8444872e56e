"""`proxlin datasets`."""

from __future__ import annotations

from rich.table import Table

from proxlin.app.cli.terminal import console
from proxlin.data import list_datasets


def datasets() -> None:
    """What can be loaded by name, and from where."""
    table = Table(title="Data sets")
    for heading in ("name", "what", "rows", "features", "targets", "where from"):
        table.add_column(heading, overflow="fold")
    for entry in list_datasets():
        sizes = [str(value) for value in (entry.rows, entry.features, entry.targets)]
        table.add_row(entry.name, entry.description, *sizes, "; ".join(entry.where))
    console.print(table)
