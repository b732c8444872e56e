"""`proxlin predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from proxlin.app.cli.output import STDOUT, check_output, remark, write_table
from proxlin.app.cli.terminal import Stages, printable
from proxlin.app.tabular import load_model, read_table_file


def predict(
    folder: Annotated[Path, typer.Argument(help="What proxlin fit wrote.", show_default=False)],
    table: Annotated[Path, typer.Argument(help="CSV, Parquet or ARFF.", show_default=False)],
    *,
    out: Annotated[Path, typer.Option(help="CSV file; - is the standard output.")] = STDOUT,
    separator: Annotated[
        str | None, typer.Option(help="Of a CSV file, if it is not found out.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing besides.")] = False,
) -> None:
    """Predictions for the rows of a table, as CSV.

    Columns may come in any order. Without targets, each row gets its outlier score.
    """
    check_output(out)
    with Stages(show=not quiet) as stages:
        model = load_model(folder)
        stages(f"reading {table.name}")
        rows = read_table_file(table, separator=separator)
        stages("predicting")
        encoded, notes = model.read(rows.frame)
        predictions = model.predict_encoded(encoded)
    number = "row" if "row" not in predictions.columns else "row number"
    predictions.insert(0, number, np.arange(1, len(predictions) + 1))
    write_table(predictions, out)
    for note in () if quiet else (*rows.notes, *notes):
        remark(printable(note))
