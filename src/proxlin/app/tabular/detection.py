"""detect_outliers: rows of a table that do not go with the others, without a target or a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from proxlin.app.tabular.model import Judgement, Misfit, OddCell
from proxlin.app.tabular.reading.column_kinds import find_identifiers, learn_features
from proxlin.app.tabular.reading.columns import Content, Matrix, NumberColumn, Vector
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.reading.encoding import TableEncoding
from proxlin.app.tabular.reading.numbers import read_numbers
from proxlin.app.tabular.reporting.fit_drawings import score_drawing
from proxlin.app.tabular.reporting.fit_report import remarks_section
from proxlin.errors import InvalidInputError
from proxlin.estimators import RobustOutlierDetector
from proxlin.report.figure_text import show_figure
from proxlin.report.page import render
from proxlin.report.parts import Code, Report, Section, Text, Tiles
from proxlin.report.table import Field, Table

_CELLS_SHOWN = 3  # of a row: the worst, and others more than two deviations off
_ROWS_SHOWN = 30
_FEWEST_ROWS = 10
_BLAMED = 5000  # odd rows whose worst columns are counted


@dataclass(frozen=True, eq=False)
class Detection:
    """How odd each row is, and what its odd cells should have been."""

    table: RawTable
    encoding: TableEncoding
    judged: Judgement  # without misfits, which are measured for the rows that are asked for
    detector: RobustOutlierDetector
    cells: Matrix  # (rows, encoded columns), NaN where missing
    cutoff: float
    notes: tuple[str, ...]
    whole: frozenset[str]  # columns of whole numbers

    def worst(self, count: int) -> list[Misfit]:
        """The oddest rows with their oddest cells."""
        rows = self.judged.worst(count)
        if not rows:
            return []
        surprises, usual = self.surprises(rows), self.detector.expected(self.cells[rows])
        some = self.table.frame.iloc[rows]
        got = [column.as_read(some[column.name]) for column in self.encoding.features]
        owners = np.array(self.encoding.owners)
        misfits = []
        for place, row in enumerate(rows):
            order = np.argsort(-surprises[place], kind="stable")[:_CELLS_SHOWN]
            cells = []
            for rank, j in enumerate(order):
                if rank == 0 or surprises[place, j] > 2:
                    column = self.encoding.features[j]
                    expected: Content = column.expected(usual[place, owners == j])
                    if column.name in self.whole and round(float(expected)) != got[j][place]:
                        expected = float(round(float(expected)))
                    cells.append(OddCell(self.judged.names[j], expected, got[j][place]))
            score, flag = float(self.judged.scores[row]), bool(self.judged.flags[row])
            misfits.append(Misfit(row + 1, score, flag, tuple(cells)))
        return misfits

    def surprises(self, rows: Sequence[int] | NDArray[np.intp]) -> Matrix:
        """How odd each cell of these rows is: (rows, columns of the table)."""
        away = np.abs(self.detector.cell_scores(self.cells[rows]))
        surprises = np.zeros((len(away), len(self.encoding.features)))
        np.maximum.at(surprises.T, self.encoding.owners, away.T)
        return surprises


def detect_outliers(table: RawTable | pd.DataFrame, *, drop: tuple[str, ...] = ()) -> Detection:
    """Learn what most rows have in common, and say which rows and cells do not go with it."""
    whole = RawTable.of(table)
    names = [name for name in map(str, whole.frame.columns) if name not in drop]
    identifiers = find_identifiers(whole, names)
    notes = [*whole.notes, *(f"{name!r} is left out: it numbers the rows." for name in identifiers)]
    kept = [name for name in names if name not in identifiers]
    learned = learn_features(whole, kept, indicators=False)
    encoding = TableEncoding(tuple(learned.columns))
    if len(whole.frame) < _FEWEST_ROWS or len(encoding.labels) < 2:
        raise InvalidInputError(
            f"{len(whole.frame)} row(s) with {len(encoding.labels)} usable column(s) say too little"
            f" about what is usual; at least {_FEWEST_ROWS} rows with 2 columns must be there."
        )
    encoded, remarks = encoding.encode(whole.frame)
    cells, whole_numbers = encoded.copy(), set()
    for place, owner in enumerate(encoding.owners):
        column = encoding.features[owner]
        if isinstance(column, NumberColumn):  # missing, not the median
            values = read_numbers(whole.frame[column.name], column.reading).values
            cells[np.isnan(values), place] = np.nan
            if column.reading.form == "number" and _all_whole(values):
                whole_numbers.add(column.name)
    detector = RobustOutlierDetector().fit(cells)
    labels = [column.name for column in encoding.features]
    none = np.empty((0, len(labels)))
    judged = Judgement(labels, detector.outlier_scores_, none, detector.outliers_)
    notes += [*learned.notes, *remarks]
    return Detection(
        whole,
        encoding,
        judged,
        detector,
        cells,
        -detector.offset_,
        tuple(notes),
        frozenset(whole_numbers),
    )


def _all_whole(values: Vector) -> bool:
    known = values[~np.isnan(values)]
    return bool((known == np.round(known)).all())


def detection_report(found: Detection, source: str, command: str) -> str:
    """One HTML page: the oddest rows, the columns that are odd most often, and the scores."""
    flags, judged = found.judged.flags, found.judged
    count, rows = int(flags.sum()), len(flags)
    table: list[tuple[Field, ...]] = []
    for misfit in found.worst(_ROWS_SHOWN):
        where = "; ".join(
            f"{cell.column}: {got}, expected {expected}"
            for cell in misfit.cells
            for expected, got in (cell.texts,)
        )
        table.append((misfit.row, where, round(misfit.score, 1), misfit.outlier))
    odd = np.flatnonzero(flags)[:_BLAMED]
    blamed = found.surprises(odd).argmax(axis=1) if count else np.empty(0, dtype=int)
    often = np.bincount(blamed, minlength=len(judged.names))
    columns: list[tuple[Field, ...]] = [
        (judged.names[j], int(often[j])) for j in np.argsort(-often, kind="stable") if often[j]
    ]
    sections = [
        Section(
            "Rows that do not fit the others",
            [
                Table(
                    "The oddest rows",
                    ("row", "where, and what the rest of the row suggests", "score", "outlier"),
                    table,
                    ("Rows are counted from 1, without the line of names.",),
                ),
                score_drawing(judged, np.arange(1, rows + 1), found.cutoff),
                Text(
                    "The score says how many robust standard deviations a row is odder than a"
                    " middling one: by its place, its neighbours, and its single cells. An odd row"
                    " need not be a wrong one."
                ),
            ],
        )
    ]
    if columns:
        title = "Columns that are to blame most often"
        sections.append(Section(title, [Table(title, ("column", "odd rows"), columns)]))
    sections.append(remarks_section(found.notes))
    sections.append(Section("What was run", [Code(command)], folded=True))
    lead = f"{count:,} of {rows:,} rows ({count / rows:.1%}) do not fit the others."
    tiles = {"odd rows": f"{count:,}", "rows": f"{rows:,}", "cut-off": show_figure(found.cutoff)}
    return render(Report(f"{source}: odd rows", lead, sections, Tiles(tiles)))
