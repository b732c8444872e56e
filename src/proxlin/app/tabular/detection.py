"""detect_outliers: rows of a table that do not go with the others, without a target or a model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from proxlin._checks import counted
from proxlin.app.tabular.model import Judgement, Misfit, OddCell, oddest
from proxlin.app.tabular.reading.column_kinds import find_identifiers, learn_features
from proxlin.app.tabular.reading.columns import Content, NumberColumn
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.reading.encoding import TableEncoding
from proxlin.app.tabular.reading.numbers import read_numbers
from proxlin.errors import InvalidInputError
from proxlin.estimators import RobustOutlierDetector
from proxlin.estimators.tables import Matrix, Vector
from proxlin.problem.scales import NORMAL_IQR

_FEWEST_ROWS = 10
_CANDIDATES = 10  # rows that are looked at for each single cell that is told,
_CELLS_READ = 100_000  # of so many cells at most
_FAR_CELL = 6.0  # robust standard deviations of its column, and given its row


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
        shown = oddest(self.surprises(rows), least=2.0)
        cells = iter(self._told(rows, [(k, j) for k, line in enumerate(shown) for j in line]))
        misfits = []
        for row, line in zip(rows, shown, strict=True):
            score, flag = float(self.judged.scores[row]), bool(self.judged.flags[row])
            odd = [next(cells) for _ in line]
            # A rare category may be odd and still the likeliest of its column.
            unexpected = [cell for cell in odd if cell.expected != cell.got] or odd[:1]
            misfits.append(Misfit(row + 1, score, flag, tuple(unexpected)))
        return misfits

    def odd_cells(self, count: int) -> list[tuple[int, OddCell]]:
        """(row from 1, cell) of numbers far from their column and from what their row suggests.

        One wrong cell of many hardly moves the score of its row. Columns that are mostly one value
        are left out: nothing tells their rare values from wrong ones.
        """
        rows, places, odd = self._far(_CANDIDATES * count)
        if not len(rows):
            return []
        worst = np.argsort(-odd, axis=None, kind="stable")[:count]
        pairs = [
            (int(place), self.encoding.owners[places[j]])
            for place, j in zip(*np.unravel_index(worst, odd.shape), strict=True)
            if odd[place, j] > _FAR_CELL
        ]
        told = self._told([int(row) for row in rows], pairs)
        return [(int(rows[place]) + 1, cell) for (place, _), cell in zip(pairs, told, strict=True)]

    def count_odd_cells(self) -> tuple[int, int]:
        """How many such numbers there are, and in how many rows; of very many at least so many."""
        odd = self._far(len(self.cells))[2] > _FAR_CELL
        return int(odd.sum()), int(odd.any(axis=1).sum())

    def _far(self, most: int) -> tuple[NDArray[np.intp], list[int], Matrix]:
        """Rows with numbers far from their column, the columns of numbers, and how odd each is."""
        places = [
            place
            for place, owner in enumerate(self.encoding.owners)
            if isinstance(column := self.encoding.features[owner], NumberColumn)
            and column.reading.form == "number"
        ]
        none = np.empty(0, dtype=np.intp)
        if not places:
            return none, places, np.empty((0, 0))
        numbers = self.cells[:, places]
        with warnings.catch_warnings():  # of columns without any cell
            warnings.simplefilter("ignore", RuntimeWarning)
            low, high = np.nanpercentile(numbers, (25, 75), axis=0)
        spread = np.where(high > low, (high - low) / NORMAL_IQR, np.inf)
        far = np.nan_to_num(np.abs(numbers - (low + high) / 2) / spread)
        farthest = far.max(axis=1, initial=0.0)
        most = min(most, max(1, _CELLS_READ // self.cells.shape[1]))
        rows = np.argsort(-farthest, kind="stable")[:most]
        rows = rows[farthest[rows] > _FAR_CELL]
        if not len(rows):
            return none, places, np.empty((0, len(places)))
        surprise = np.abs(self.detector.cell_scores(self.cells[rows]))[:, places]
        return rows, places, np.minimum(far[rows], surprise)

    def other_cells(self, misfits: Sequence[Misfit], count: int) -> list[tuple[int, OddCell]]:
        """`odd_cells` without those that these rows name already."""
        named = {(misfit.row, cell.column) for misfit in misfits for cell in misfit.cells}
        found = self.odd_cells(count + len(named))
        return [(row, cell) for row, cell in found if (row, cell.column) not in named][:count]

    def _told(self, rows: list[int], pairs: list[tuple[int, int]]) -> list[OddCell]:
        """The cells (place among the rows, column), with what was expected there."""
        usual = self._usual(rows)
        some = self.table.frame.iloc[rows]
        wanted = {j for _, j in pairs}
        got = {
            j: self.encoding.features[j].as_read(some[self.encoding.features[j].name])
            for j in wanted
        }
        owners = np.array(self.encoding.owners)
        cells = []
        for place, j in pairs:
            column = self.encoding.features[j]
            expected: Content = column.expected(usual[place, owners == j])
            if column.name in self.whole and round(float(expected)) != got[j][place]:
                expected = float(round(float(expected)))
            cells.append(OddCell(self.judged.names[j], expected, got[j][place]))
        return cells

    def _usual(self, rows: list[int]) -> Matrix:
        """What is expected in each cell: no number beyond both it and 98 % of its column.

        A straight line through the others leads below zero where no number may be.
        """
        got = self.cells[rows]
        usual = self.detector.expected(got)
        for place, owner in enumerate(self.encoding.owners):
            known = self.cells[~np.isnan(self.cells[:, place]), place]
            if isinstance(self.encoding.features[owner], NumberColumn) and len(known):
                low, high = np.percentile(known, (1, 99))
                least, most = np.fmin(low, got[:, place]), np.fmax(high, got[:, place])
                usual[:, place] = np.clip(usual[:, place], least, most)
        return usual

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
            f"{counted(len(whole.frame), 'row')} with"
            f" {counted(len(encoding.labels), 'usable column')}: too little to say"
            f" what is usual; at least {_FEWEST_ROWS} rows with 2 columns must be there."
        )
    cells, remarks = encoding.encode(whole.frame, fill=False)
    whole_numbers = {
        column.name
        for column in encoding.features
        if isinstance(column, NumberColumn)
        and column.reading.form == "number"
        and _all_whole(read_numbers(whole.frame[column.name], column.reading).values)
    }
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
