"""`proxlin outliers`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.table import Table

from proxlin.app.cli.output import check_output, remark, write_table
from proxlin.app.cli.terminal import Stages, console, printable, say
from proxlin.app.tabular import Misfit, load_model, read_table_file
from proxlin.errors import InvalidInputError

_SCALE = (
    "The score says how many robust standard deviations a row's error lies above that of a middling"
    " training row; beyond {cutoff:g} a row counts as an outlier."
)


def outliers(
    folder: Annotated[Path, typer.Argument(help="What proxlin fit wrote.", show_default=False)],
    table: Annotated[Path, typer.Argument(help="CSV, Parquet or ARFF.", show_default=False)],
    *,
    top: Annotated[int, typer.Option(min=0, help="How many rows; 0 for all.")] = 20,
    out: Annotated[Path | None, typer.Option(help="CSV file; - is the standard output.")] = None,
    separator: Annotated[
        str | None, typer.Option(help="Of a CSV file, if it is not found out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
) -> None:
    """Rows of a table by how badly they fit, with the cells that fit worst.

    For a model with targets these are the targets, for an autoencoder all columns.
    """
    if out is not None:
        if as_json:
            raise InvalidInputError(
                "--out writes CSV and --json prints JSON; give one of them. The JSON goes into a"
                " file with --json > FILE."
            )
        check_output(out)
    with Stages(show=not as_json) as stages:
        model = load_model(folder)
        stages(f"reading {table.name}")
        rows = read_table_file(table, separator=separator)
        stages("looking at the rows")
        encoded, notes = model.read(rows.frame, targets=True)
        judged = model.judge_encoded(encoded, model.encoding.read_targets(rows.frame))
        misfits = model.explain(rows.frame, judged.worst(top or len(rows.frame)), judged)
    for note in () if as_json else (*rows.notes, *notes):
        remark(printable(note))
    if out is not None:
        write_table(_frame(misfits), out)
        return
    unknown = int((~np.isfinite(judged.scores)).sum())
    counts = {
        "rows": len(rows.frame),
        "outliers": int(judged.flags.sum()),
        "without a score": unknown,
    }
    if as_json:
        worst = [asdict(misfit) for misfit in misfits]
        typer.echo(json.dumps({**counts, "cutoff": model.scale.cutoff, "worst": worst}, indent=1))
        return
    console.print(_shown(misfits), markup=False)
    say(f"{counts['outliers']:,} of {counts['rows']:,} rows are outliers.")
    if unknown:
        say(f"{unknown:,} row(s) without a target have no score.")
    say(_SCALE.format(cutoff=model.scale.cutoff))


def _shown(misfits: list[Misfit]) -> Table:
    table = Table(title="Rows that fit worst")
    for heading in ("row", "score", "outlier"):
        table.add_column(heading, justify="right")
    for heading in ("column", "got", "expected"):
        table.add_column(heading, overflow="fold")
    for misfit in misfits:
        first = [str(misfit.row), f"{misfit.score:.4g}", "yes" if misfit.outlier else "no"]
        for cell in misfit.cells:
            expected, got = cell.texts
            table.add_row(*first, *(printable(text[:60]) for text in (cell.column, got, expected)))
            first = ["", "", ""]
    return table


def _frame(misfits: list[Misfit]) -> pd.DataFrame:
    """One line for each cell that does not fit."""
    lines = [
        (
            misfit.row,
            misfit.score,
            "yes" if misfit.outlier else "no",
            cell.column,
            cell.got,
            cell.expected,
        )
        for misfit in misfits
        for cell in misfit.cells
    ]
    headings = ["row", "score", "outlier", "column", "got", "expected"]
    return pd.DataFrame(lines, columns=headings)
