"""`proxlin outliers`."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.table import Table

from proxlin._checks import counted
from proxlin.app.cli.options import comma_separated
from proxlin.app.cli.output import check_output, remark, write_table
from proxlin.app.cli.terminal import Stages, console, printable, say
from proxlin.app.tabular import Misfit, load_model, read_table_file
from proxlin.app.tabular.detection import Detection, detect_outliers
from proxlin.app.tabular.model import OddCell
from proxlin.app.tabular.reading.encoding import check_columns
from proxlin.app.tabular.reporting.detection_report import detection_report
from proxlin.errors import InvalidInputError
from proxlin.run.storage import write_whole

_CELLS = 10  # single numbers shown at most
_SCALE = (
    "The score says how many robust standard deviations a row's error lies above that of a middling"
    " training row; beyond {cutoff:g} a row counts as an outlier."
)
_TARGETS_ONLY = " Only targets are judged: for wrong cells elsewhere, leave the model out."
_ODDITY = (
    "The score says how many robust standard deviations a row is odder than a middling one; beyond"
    " {cutoff:g} it counts as an outlier. An odd row need not be a wrong one."
)


def outliers(
    source: Annotated[
        Path,
        typer.Argument(help="A table, or a folder that proxlin fit wrote.", show_default=False),
    ],
    table: Annotated[
        Path | None,
        typer.Argument(help="The table, if the first argument is a folder.", show_default=False),
    ] = None,
    *,
    drop: Annotated[
        str | None, typer.Option(help="Leave these columns out (without a model).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report (without a model).")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many rows; 0 for all.")] = 20,
    out: Annotated[
        Path | None, typer.Option(help="CSV file, or .xlsx, .parquet; - is standard output.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option(help="Separator of a CSV file, if it is not detected.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No remarks.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
) -> None:
    """Rows of a table that do not fit the others, and the cells to blame.

    proxlin outliers TABLE needs neither a model nor a target. proxlin outliers FOLDER TABLE uses a
    model: one with targets judges the targets, an autoencoder all columns.
    """
    if out is not None:
        if as_json:
            raise InvalidInputError(
                "--out writes a table and --json prints JSON; give one of them. The JSON goes into"
                " a file with --json > FILE."
            )
        check_output(out)
    if table is not None and (drop is not None or report is not None):
        raise InvalidInputError(
            "--drop and --report are for a table without a model; leave them out."
        )
    quiet = quiet or as_json
    with Stages(show=not quiet) as stages:
        if table is None:
            names = comma_separated("--drop", drop, str) or ()
            found = _detected(source, separator, names, report, stages)
            rows, judged, cutoff, notes = found.table, found.judged, found.cutoff, found.notes
            misfits = found.worst(top or len(rows.frame))
            cells = found.odd_cells(_CELLS) if as_json else found.other_cells(misfits, _CELLS)
            far, within = (0, 0) if as_json else found.count_odd_cells()
            scale = _ODDITY
        else:
            model = load_model(source)
            stages(f"reading {table.name}")
            rows = read_table_file(table, separator=separator)
            stages("looking at the rows")
            encoded, remarks = model.read(rows.frame, targets=True)
            judged = model.judge_encoded(encoded, model.encoding.read_targets(rows.frame))
            misfits = model.explain(rows.frame, judged.worst(top or len(rows.frame)), judged)
            cutoff = model.scale.cutoff
            scale = _SCALE + (_TARGETS_ONLY if model.encoding.targets else "")
            notes, cells, far, within = (*rows.notes, *remarks), [], 0, 0
    for note in () if quiet else notes:
        remark(printable(note))
    if out is not None:
        write_table(_frame(misfits), out)
        return
    unknown = int(np.isnan(judged.scores).sum())
    counts = {
        "rows": len(rows.frame),
        "outliers": int(judged.flags.sum()),
        "without a score": unknown,
    }
    if as_json:
        worst = [asdict(misfit) for misfit in misfits]
        odd = {"cells": [{"row": row, **asdict(cell)} for row, cell in cells]} if cells else {}
        typer.echo(json.dumps({**counts, "cutoff": cutoff, "worst": worst, **odd}, indent=1))
        return
    console.print(_shown(misfits), markup=False)
    if cells:
        console.print(_cells_shown(cells), markup=False)
    say(f"{counts['outliers']:,} of {counts['rows']:,} rows are outliers.")
    if far:
        say(
            f"{counted(far, 'single number')} in {counted(within, 'row')}"
            f" {'lies' if far == 1 else 'lie'} far from the column and from what the row suggests."
        )
    if unknown:
        say(f"No score: {counted(unknown, 'row')} without a target.")
    say(scale.format(cutoff=cutoff))
    if report is not None:
        say(f"Report: {report}")


def _detected(
    path: Path, separator: str | None, drop: tuple[str, ...], report: Path | None, stages: Stages
) -> Detection:
    """What is odd in a table by itself."""
    if path.is_dir():
        raise InvalidInputError(
            f"{path} is a folder; name a table, or a table after it if it holds a model."
        )
    if report is not None:
        check_output(report)
    stages(f"reading {path.name}")
    rows = read_table_file(path, separator=separator)
    check_columns("--drop", drop, rows)
    stages("comparing the rows")
    found = detect_outliers(rows, drop=drop)
    if report is not None:
        stages("writing the report")
        command = shlex.join(["proxlin", *sys.argv[1:]])
        write_whole(report, detection_report(found, path.name, command).encode())
    return found


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


def _cells_shown(cells: list[tuple[int, OddCell]]) -> Table:
    table = Table(title="Other single numbers far from their column and their row")
    table.add_column("row", justify="right")
    for heading in ("column", "got", "expected"):
        table.add_column(heading, overflow="fold")
    for row, cell in cells:
        expected, got = cell.texts
        table.add_row(str(row), *(printable(text[:60]) for text in (cell.column, got, expected)))
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
