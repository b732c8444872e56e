"""The files of an experiment: its table or figure, and its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from proxlin.paper.accuracy import accuracies, accuracy_layouts, compare_accuracies
from proxlin.paper.catalog import Experiment
from proxlin.paper.experiment_report import experiment_report
from proxlin.paper.figures import CAPTIONS, figure1, figure2, figure3, figure4, points
from proxlin.paper.grid import Cell, Grid
from proxlin.paper.metrics import best_runs
from proxlin.paper.store import Record
from proxlin.paper.table1 import Score, compare, layouts, runs, scores
from proxlin.report import Picture, Table, write_picture, write_report, write_tables
from proxlin.run.storage import write_whole


@dataclass(frozen=True)
class Written:
    """What an experiment became."""

    files: list[Path]  # the report last
    scores: list[Score]  # how it stands to the paper
    tables: list[Table]  # of the experiment itself; a figure has none


def pictures(out: Path) -> Path:
    """Where the pictures of the reports in the folder `out` are kept."""
    return out / "pictures"


def write_experiment(
    experiment: Experiment,
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
    comparable = experiment.grid.rows is None  # fewer rows are another problem
    frame = accuracies(best_runs(cells, records), accuracies_of)
    accuracy = compare_accuracies(frame, comparable=comparable)
    table = compare(runs(cells, records, experiment.grid.exponents), comparable=comparable)
    against_paper = scores(accuracy if experiment.name == "accuracy" else table)
    remarks = (*(f"{score}." for score in against_paper), *caveats(experiment.grid))
    accuracy_tables = [] if accuracy.empty else accuracy_layouts(accuracy, remarks)
    picture = None
    tables: list[Table] = []
    if experiment.name == "table1":
        tables = layouts(table, remarks)
        files = write_tables(out, experiment.name, table, tables)
    elif experiment.name == "accuracy":
        tables = accuracy_tables
        files = write_tables(out, experiment.name, accuracy, tables)
    else:
        losses = points(cells, records)
        figure = _figure(experiment, cells, records, losses, frame)
        picture = Picture(
            figure, CAPTIONS[experiment.name], f"{experiment.title}, drawn as curves."
        )
        files = write_picture(out, experiment.name, figure)
        shown = losses if frame.empty else losses.merge(frame, how="left")
        files.append(out / f"{experiment.name}.csv")
        write_whole(files[-1], shown.to_csv(index=False).encode())
    report = experiment_report(
        experiment,
        cells,
        records,
        table=table,
        scores=against_paper,
        failures=failures,
        remarks=remarks,
        accuracy=accuracy_tables,
        figure=picture,
    )
    path = out / f"{experiment.name}-report.html"
    files.append(write_report(report, path, pictures=pictures(out), prefix=f"{experiment.name}-"))
    return Written(files, against_paper, tables)


def _figure(
    experiment: Experiment,
    cells: list[Cell],
    records: Mapping[str, Record],
    losses: pd.DataFrame,
    accuracy: pd.DataFrame,
) -> Figure:
    paper = experiment.grid.rows is None
    if experiment.name == "fig1":
        return figure1(losses, accuracy)
    if experiment.name == "fig2":
        return figure2(cells, records, paper=paper)
    if experiment.name == "fig4":
        return figure4(accuracy, paper=paper)
    return figure3(losses, paper=paper)


def caveats(grid: Grid) -> tuple[str, ...]:
    """What a reader must know before comparing with the paper."""
    sentences = []
    if grid.rows is not None:
        sentences.append(
            f"Only {grid.rows} training rows: not comparable with the paper's figures."
        )
    if "scm1d" in grid.datasets:
        sentences.append("scm1d is the reconstructed data set unless the original file was found.")
    return tuple(sentences)
