"""reproduce: the cells of an exhibit, then its table or figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from proxlin.experiments.catalog import Exhibit
from proxlin.experiments.cell import run_cell
from proxlin.experiments.config import Cell, Grid, has_images
from proxlin.experiments.lock import locked
from proxlin.experiments.render import save
from proxlin.experiments.runner import Engine, Outcome, Watch, pending, run
from proxlin.experiments.store import Store, clear_parts
from proxlin.experiments.tables import Score, compare, layouts, runs, scores

_AROUND = {True: 6.0, False: 1.0}  # seconds a cell of images or of a table takes besides training


@dataclass
class Report:
    """What came out: the records behind it, the files, and how it stands to the paper."""

    outcome: Outcome
    files: list[Path] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    cells: list[Cell]
    left: list[Cell]  # those without a record
    seconds: float | None  # how long about; None where only steps are limited


def cell_store(out: Path) -> Store:
    """Where the training runs of an experiment in the folder `out` are kept."""
    return Store(out / "cells")


def plan(exhibit: Exhibit, out: Path, engine: Engine) -> Plan:
    """What is left to do, and how long it will take; nothing is written."""
    cells = exhibit.grid.cells()
    _, left = pending(cell_store(out), cells)
    if any(cell.seconds is None for cell in left):
        return Plan(cells, left, None)
    total = sum((cell.seconds or 0.0) + _AROUND[has_images(cell.dataset)] for cell in left)
    return Plan(cells, left, total / min(engine.jobs, max(1, len(left))))


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
        _write_table(exhibit, cells, out, report)
    return report


def _write_table(exhibit: Exhibit, cells: list[Cell], out: Path, report: Report) -> None:
    frame = runs(cells, report.outcome.records, exhibit.grid.exponents)
    table = compare(frame, comparable=exhibit.grid.rows is None)
    report.scores = scores(table)
    remarks = (*(f"{score}." for score in report.scores), *caveats(exhibit.grid))
    report.files += save(out, exhibit.name, table, layouts(table, remarks))


def caveats(grid: Grid) -> tuple[str, ...]:
    """What a reader must know before comparing with the paper."""
    found = []
    if grid.rows is not None:
        found.append(f"Only {grid.rows} training rows: not comparable with the paper's figures.")
    if "scm1d" in grid.datasets:
        found.append("scm1d is the reconstructed data set unless the original file was found.")
    return tuple(found)
