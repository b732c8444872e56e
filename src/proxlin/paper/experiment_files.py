"""The files of an exhibit: its table or figure, and its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from proxlin.paper.accuracy import (
    accuracies,
    accuracy_layouts,
    accuracy_scores,
    compare_accuracies,
)
from proxlin.paper.best_run import chosen
from proxlin.paper.catalog import Exhibit
from proxlin.paper.config import Cell, Grid
from proxlin.paper.experiment_report import experiment_report
from proxlin.paper.figures import CAPTIONS, figure1, figure2, figure3, figure4, points
from proxlin.paper.store import Record
from proxlin.paper.tables import Score, compare, layouts, runs, scores
from proxlin.report import Picture, Table, write_picture, write_report, write_tables
from proxlin.run.storage import write_whole


@dataclass(frozen=True)
class Written:
    """What an exhibit became."""

    files: list[Path]  # the report last
    scores: list[Score]  # how it stands to the paper
    tables: list[Table]  # of the exhibit itself; a figure has none


def pictures(out: Path) -> Path:
    """Where the pictures of the reports in the folder `out` are kept."""
    return out / "pictures"


def write_exhibit(
    exhibit: Exhibit,
    cells: list[Cell],
    out: Path,
    *,
    records: Mapping[str, Record],
    accuracies_of: Mapping[str, Record],
    failures: Mapping[str, str],
) -> Written:
    """Write what the records show into `out`.

    `accuracies_of` has the records of the classifiers by the names of the cells.
    """
    comparable = exhibit.grid.rows is None  # fewer rows are another problem
    frame = accuracies(chosen(cells, records), accuracies_of)
    accuracy = compare_accuracies(frame, comparable=comparable)
    table = compare(runs(cells, records, exhibit.grid.exponents), comparable=comparable)
    found = accuracy_scores(accuracy) if exhibit.name == "accuracy" else scores(table)
    remarks = (*(f"{score}." for score in found), *caveats(exhibit.grid))
    accuracy_tables = [] if accuracy.empty else accuracy_layouts(accuracy, remarks)
    picture = None
    tables: list[Table] = []
    if exhibit.name == "table1":
        tables = layouts(table, remarks)
        files = write_tables(out, exhibit.name, table, tables)
    elif exhibit.name == "accuracy":
        tables = accuracy_tables
        files = write_tables(out, exhibit.name, accuracy, tables)
    else:
        losses = points(cells, records)
        figure = _figure(exhibit, cells, records, losses, frame)
        picture = Picture(figure, CAPTIONS[exhibit.name], f"{exhibit.title}, drawn as curves.")
        files = write_picture(out, exhibit.name, figure)
        shown = losses if frame.empty else losses.merge(frame, how="left")
        files.append(out / f"{exhibit.name}.csv")
        write_whole(files[-1], shown.to_csv(index=False).encode())
    report = experiment_report(
        exhibit,
        cells,
        records,
        scores=found,
        failures=failures,
        remarks=remarks,
        accuracy=accuracy_tables,
        figure=picture,
    )
    path = out / f"{exhibit.name}-report.html"
    files.append(write_report(report, path, pictures=pictures(out), prefix=f"{exhibit.name}-"))
    return Written(files, found, tables)


def _figure(
    exhibit: Exhibit,
    cells: list[Cell],
    records: Mapping[str, Record],
    losses: pd.DataFrame,
    accuracy: pd.DataFrame,
) -> Figure:
    paper = exhibit.grid.rows is None
    if exhibit.name == "fig1":
        return figure1(losses, accuracy)
    if exhibit.name == "fig2":
        return figure2(cells, records, paper=paper)
    if exhibit.name == "fig4":
        return figure4(accuracy, paper=paper)
    return figure3(losses, paper=paper)


def caveats(grid: Grid) -> tuple[str, ...]:
    """What a reader must know before comparing with the paper."""
    found = []
    if grid.rows is not None:
        found.append(f"Only {grid.rows} training rows: not comparable with the paper's figures.")
    if "scm1d" in grid.datasets:
        found.append("scm1d is the reconstructed data set unless the original file was found.")
    return tuple(found)
