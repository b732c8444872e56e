"""reproduce: the cells of an exhibit, then its table or figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from proxlin.experiments.accuracy import (
    accuracies,
    accuracy_layouts,
    accuracy_scores,
    compare_accuracies,
)
from proxlin.experiments.catalog import Exhibit
from proxlin.experiments.cell import run_cell
from proxlin.experiments.choice import chosen, group
from proxlin.experiments.classify import Classified, classify
from proxlin.experiments.config import Cell, Grid, has_images
from proxlin.experiments.figures import figure1, figure2, figure3, figure4, points
from proxlin.experiments.runner import Engine, Outcome, Watch, pending, run
from proxlin.experiments.store import Store
from proxlin.experiments.tables import Score, compare, layouts, runs, scores
from proxlin.files import clear_parts, write_whole
from proxlin.lock import locked
from proxlin.report import write_picture, write_tables

_AROUND = {True: 8.0, False: 1.0}  # seconds a cell of images or of a table takes besides training
_CLASSIFIER = 75.0  # seconds of a logistic regression on the codes of 60,000 images, one thread


@dataclass
class Report:
    """What came out: the records behind it, the files, and how it stands to the paper."""

    outcome: Outcome
    classified: Outcome = field(default_factory=Outcome)
    files: list[Path] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)

    @property
    def failures(self) -> dict[str, str]:
        """What went wrong, by the name of the cell."""
        return {**self.outcome.failures, **self.classified.failures}


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    cells: list[Cell]
    left: list[Cell]  # those without a record
    classifiers: int  # logistic regressions without a record
    seconds: float | None  # how long about; None where only steps are limited


def cell_store(out: Path) -> Store:
    """Where the training runs of an experiment in the folder `out` are kept."""
    return Store(out / "cells")


def accuracy_store(out: Path) -> Store:
    """Where the classifiers' accuracies are kept."""
    return Store(out / "accuracy")


def plan(exhibit: Exhibit, out: Path, engine: Engine) -> Plan:
    """What is left to do, and how long it will take; nothing is written."""
    cells = exhibit.grid.cells()
    records, left = pending(cell_store(out), cells)
    classifiers = 0
    if exhibit.classified:
        open_groups = {group(cell) for cell in left}
        ready = [cell for cell in chosen(cells, records) if group(cell) not in open_groups]
        jobs = [Classified(cell, records[cell.name]["theta"]) for cell in ready]
        classifiers = len(open_groups) + len(pending(accuracy_store(out), jobs)[1])
    if any(cell.seconds is None for cell in left):
        return Plan(cells, left, classifiers, None)
    training = sum((cell.seconds or 0.0) + _AROUND[has_images(cell.dataset)] for cell in left)
    seconds = training / min(engine.jobs, max(1, len(left)))
    share = 1.0 if exhibit.grid.rows is None else min(1.0, exhibit.grid.rows / 60_000)
    seconds += classifiers * _CLASSIFIER * share / min(engine.jobs, max(1, classifiers))
    return Plan(cells, left, classifiers, seconds)


def reproduce(
    exhibit: Exhibit, out: Path, *, engine: Engine | None = None, watch: Watch | None = None
) -> Report:
    """Run what is left of the exhibit's cells and write its files into `out`.

    The folder is this process's alone while it runs. Cells that are finished stay so whatever
    happens; the same call goes on from there.
    """
    with locked(out):
        clear_parts(out)
        cells = exhibit.grid.cells()
        report = Report(run(cell_store(out), cells, run_cell, engine=engine, watch=watch))
        if exhibit.classified:
            records = report.outcome.records
            jobs = [Classified(c, records[c.name]["theta"]) for c in chosen(cells, records)]
            report.classified = run(
                accuracy_store(out), jobs, classify,
                stage="classifying", engine=engine, watch=watch,
            )  # fmt: skip
        write_exhibit(exhibit, cells, out, report)
    return report


def write_exhibit(exhibit: Exhibit, cells: list[Cell], out: Path, report: Report) -> None:
    """Write the files of the exhibit from the records of the report."""
    records = report.outcome.records
    accuracy = accuracies(chosen(cells, records), report.classified.records)
    if exhibit.name == "table1":
        _write_table(exhibit, cells, out, report)
        return
    if exhibit.name == "accuracy":
        _write_accuracy(exhibit, accuracy, out, report)
        return
    losses = points(cells, records)
    paper = exhibit.grid.rows is None  # curves from fewer rows do not belong beside the paper's
    if exhibit.name == "fig1":
        figure = figure1(losses, accuracy)
    elif exhibit.name == "fig2":
        figure = figure2(cells, records, paper=paper)
    elif exhibit.name == "fig4":
        figure = figure4(accuracy, paper=paper)
    else:
        figure = figure3(losses, paper=paper)
    report.files += write_picture(out, exhibit.name, figure)
    shown = losses if accuracy.empty else losses.merge(accuracy, how="left")
    report.files.append(_write_csv(shown, out / f"{exhibit.name}.csv"))


def _write_table(exhibit: Exhibit, cells: list[Cell], out: Path, report: Report) -> None:
    frame = runs(cells, report.outcome.records, exhibit.grid.exponents)
    table = compare(frame, comparable=exhibit.grid.rows is None)
    report.scores = scores(table)
    remarks = (*(f"{score}." for score in report.scores), *caveats(exhibit.grid))
    report.files += write_tables(out, exhibit.name, table, layouts(table, remarks))


def _write_accuracy(exhibit: Exhibit, frame: pd.DataFrame, out: Path, report: Report) -> None:
    table = compare_accuracies(frame, comparable=exhibit.grid.rows is None)
    report.scores = accuracy_scores(table)
    remarks = (*(f"{score}." for score in report.scores), *caveats(exhibit.grid))
    report.files += write_tables(out, exhibit.name, table, accuracy_layouts(table, remarks))


def _write_csv(frame: pd.DataFrame, path: Path) -> Path:
    write_whole(path, frame.to_csv(index=False).encode())
    return path


def caveats(grid: Grid) -> tuple[str, ...]:
    """What a reader must know before comparing with the paper."""
    found = []
    if grid.rows is not None:
        found.append(f"Only {grid.rows} training rows: not comparable with the paper's figures.")
    if "scm1d" in grid.datasets:
        found.append("scm1d is the reconstructed data set unless the original file was found.")
    return tuple(found)
