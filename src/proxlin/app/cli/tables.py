"""Tables of reports on the terminal."""

from __future__ import annotations

from rich.table import Table as Grid
from rich.text import Text

from proxlin.app.cli.terminal import console, printable, say
from proxlin.report import Field, Figures, Table
from proxlin.report.table import numeric_columns, plain


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
