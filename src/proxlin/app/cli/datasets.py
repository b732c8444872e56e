"""`proxlin datasets`."""

from __future__ import annotations

from rich.table import Table

from proxlin.app.cli.terminal import console, say
from proxlin.data import list_datasets


def datasets() -> None:
    """What can be loaded by name, and from where."""
    entries = list_datasets()
    folders = set.intersection(*(set(entry.where) for entry in entries if len(entry.where) > 1))
    table = Table(title="Data sets")
    for heading in ("name", "what"):
        table.add_column(heading, overflow="fold")
    for heading in ("rows", "features", "targets"):
        table.add_column(heading, justify="right")
    table.add_column("else from", overflow="fold")
    for entry in entries:
        sizes = [str(value) for value in (entry.rows, entry.features, entry.targets)]
        elsewhere = [place for place in entry.where if place not in folders]
        table.add_row(entry.name, entry.description, *sizes, "; ".join(elsewhere))
    console.print(table)
    say(
        'load_dataset("mnist") looks in the folder that PROXLIN_DATA names, then in its cache, then'
        " where the last column says."
    )
