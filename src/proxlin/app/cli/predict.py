"""`proxlin predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from proxlin._checks import check_open_interval, counted
from proxlin.app.cli.options import comma_separated
from proxlin.app.cli.output import STDOUT, check_output, remark, write_table
from proxlin.app.cli.terminal import Stages, printable
from proxlin.app.tabular import load_model, read_table_file
from proxlin.app.tabular.reading.encoding import check_columns


def predict(
    folder: Annotated[
        Path, typer.Argument(help="Folder that proxlin fit wrote.", show_default=False)
    ],
    table: Annotated[Path, typer.Argument(help="CSV, Excel, Parquet or ARFF.", show_default=False)],
    *,
    ids: Annotated[
        str | None,
        typer.Option("--id", help="Columns to copy into the output, such as name,street."),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(help="Add bounds that contain this share of good rows. Default: as in fit."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="CSV file, or .xlsx, .parquet; - is standard output.")
    ] = STDOUT,
    separator: Annotated[
        str | None, typer.Option(help="Separator of a CSV file, if it is not detected.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No remarks.")] = False,
) -> None:
    """Predictions for the rows of a table: row number, --id columns, predictions.

    Columns may come in any order. If the table has the targets, or the model has none, each row
    gets an outlier score. Cells far outside the training range are named in a column 'caveat'.
    """
    check_output(out)
    if interval is not None:
        check_open_interval("--interval", interval, 0, 1)
    wanted = comma_separated("--id", ids, str) or ()
    with Stages(show=not quiet) as stages:
        model = load_model(folder)
        stages(f"reading {table.name}")
        rows = read_table_file(table, separator=separator)
        stages("predicting")
        encoded, notes = model.read(rows.frame)
        check_columns("--id", wanted, rows)
        predictions = model.predict_encoded(encoded)
        coverage = model.facts.get("interval") if interval is None else interval
        if coverage is not None:
            bounds = zip(("low", "high"), model.bounds(encoded, coverage), strict=True)
            for bound, values in bounds:
                for place, target in enumerate(model.target_names):
                    predictions[f"{target} {bound}"] = values[:, place]
        if model.target_names and set(model.target_names) <= set(rows.frame.columns):
            judged = model.judge_encoded(encoded, model.encoding.read_targets(rows.frame))
            predictions["outlier score"] = judged.scores
            predictions = predictions.rename(
                columns={name: f"predicted {name}" for name in model.target_names}
            )
        unusual = model.encoding.unusual_cells(rows.frame) if model.target_names else []
        count = sum(map(bool, unusual))
        if count:
            predictions["caveat"] = unusual
            notes.append(
                f"Guesses: {counted(count, 'row')} with cells far from all that the model was"
                " trained on. The column 'caveat' names the cells."
            )
    for name in reversed(wanted):
        if name not in predictions:
            predictions.insert(0, name, rows.frame[name].to_numpy())
    number = "row" if "row" not in predictions.columns else "row number"
    predictions.insert(0, number, np.arange(1, len(predictions) + 1))
    write_table(predictions, out)
    for note in () if quiet else (*rows.notes, *notes):
        remark(printable(note))
