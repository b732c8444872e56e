"""TableModel: a fitted estimator with the encoding of its table, from tables to answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from proxlin.app.tabular.reading.columns import Content
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.reading.encoding import TableEncoding
from proxlin.errors import InvalidInputError
from proxlin.estimators import RobustAutoencoder, RobustRegressor
from proxlin.estimators.estimator_state import Saveable
from proxlin.estimators.families.table_regressor import TableRegressor
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.tables import Matrix, Vector
from proxlin.problem.loss import RowLoss
from proxlin.report.figure_text import show_figure

_CELLS_SHOWN = 3  # of a row
_REACH = 4.0  # robust deviations; an autoencoder is shown farther cells as if they lay there


@dataclass(frozen=True, eq=False)
class TableModel:
    """What `fit_table` returns and a model folder holds.

    An autoencoder sees cells at most 4 robust deviations from the middle, so that a gross error
    can neither bend the code nor carry its own row along; the row's misfit is measured against
    the cell as it is.
    """

    estimator: Saveable | TableRegressor
    encoding: TableEncoding
    scale: OutlierScale  # of the training rows' misfits
    facts: dict[str, Any] = field(default_factory=dict)  # where it comes from, plain values

    @classmethod
    def of(
        cls, estimator: Saveable | TableRegressor, encoding: TableEncoding, encoded: Matrix
    ) -> TableModel:
        """With the scale of outlier scores that these training rows set."""
        bare = cls(estimator, encoding, estimator.outlier_scale_)
        if not isinstance(estimator, RobustAutoencoder):
            return bare
        return cls(
            estimator, encoding, OutlierScale.fit(bare._norms(bare._rebuilt(encoded) - encoded))
        )

    @property
    def target_names(self) -> list[str]:
        """Empty for an autoencoder."""
        return [column.name for column in self.encoding.targets]

    def read(self, frame: pd.DataFrame, *, targets: bool = False) -> tuple[Matrix, list[str]]:
        """The rows as the estimator takes them, and in sentences what that took.

        A table without a column that the model needs is refused; with `targets`, without them too.
        """
        unused = self.encoding.check(frame, targets=targets)
        encoded, notes = self.encoding.encode(frame)
        return encoded, [*unused, *notes]

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The targets of each row, in their own units; for an autoencoder, score and verdict."""
        return self.predict_encoded(self.read(RawTable.of(frame).frame)[0])

    def predict_encoded(self, encoded: Matrix) -> pd.DataFrame:
        """The same for rows that `read` has read."""
        if self.target_names:
            return pd.DataFrame(self.answers(encoded), columns=self.target_names)
        judged = self.judge_encoded(encoded)
        return pd.DataFrame({"score": judged.scores, "outlier": judged.flags})

    def judge(self, frame: pd.DataFrame) -> Judgement:
        """How badly each row fits, and where.

        A regressor needs the targets in the table; rows without them have no score (NaN).
        """
        cells = RawTable.of(frame).frame
        encoded, _ = self.read(cells, targets=True)
        return self.judge_encoded(encoded, self.encoding.read_targets(cells))

    def judge_encoded(
        self, encoded: Matrix, targets: Matrix | None = None, expected: Matrix | None = None
    ) -> Judgement:
        """The same for rows that `read` has read, with their targets in their own units.

        `expected` takes the place of the model's own predictions, which are scaled.
        """
        if targets is not None and self.target_names:
            names = self.target_names
            answers = self.estimator.predict(encoded) if expected is None else expected
            away = answers - self.encoding.scale_targets(targets)
            misfits = np.abs(away)
        else:
            names = [column.name for column in self.encoding.features]
            away = self._rebuilt(encoded) - encoded
            misfits = np.zeros((len(encoded), len(names)))
            np.maximum.at(misfits.T, self.encoding.owners, np.abs(away).T)
        scores = self.scale.scores(self._norms(away))
        return Judgement(names, scores, misfits, self.scale.flags(scores))

    def answers(self, encoded: Matrix) -> Matrix:
        """The targets of encoded rows, in their own units."""
        assert not isinstance(self.estimator, RobustAutoencoder)
        return self.encoding.plain_targets(np.asarray(self.estimator.predict(encoded), np.float64))

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX model from encoded rows, those that `read` gives, to `predict`'s answers.

        An autoencoder's answers are the encoded rows as it rebuilds them.
        """
        from proxlin.app.tabular.table_module import table_module  # noqa: PLC0415  few need it
        from proxlin.estimators.onnx import write_onnx  # noqa: PLC0415

        module = table_module(self.estimator, self.encoding.targets, reach=_REACH)
        write_onnx(module, len(self.encoding.labels), path)

    def training_answers(self, encoded: Matrix) -> Matrix:
        """The targets of the rows that it was fitted to, by members that had not seen them."""
        if isinstance(self.estimator, TableRegressor):
            return self.encoding.plain_targets(self.estimator.held_out)
        return self.answers(encoded)

    def judge_training(self, encoded: Matrix, targets: Matrix) -> Judgement:
        """The rows that the model was fitted to, if possible by members that had not seen them."""
        held = self.estimator.held_out if isinstance(self.estimator, TableRegressor) else None
        return self.judge_encoded(encoded, targets, held)

    def bounds(self, encoded: Matrix, coverage: float) -> tuple[Matrix, Matrix]:
        """Between which the targets of that share of good rows lie, in their own units."""
        if isinstance(self.estimator, TableRegressor):
            low, high = self.estimator.bounds(encoded, coverage)
        elif hasattr(self.estimator, "predict_interval"):
            low, high = (
                np.reshape(part, (len(encoded), -1))
                for part in self.estimator.predict_interval(encoded, coverage=coverage)
            )
        else:
            raise InvalidInputError(
                "--interval needs a model with targets whose family was chosen by proxlin fit; this"
                " folder holds another. Fit again without --model."
            )
        return self.encoding.plain_targets(low), self.encoding.plain_targets(high)

    def explain(self, frame: pd.DataFrame, rows: Sequence[int], judged: Judgement) -> list[Misfit]:
        """For each of these rows, the columns that fit worst with expected and found value."""
        if not len(rows):
            return []
        some = RawTable.of(frame.iloc[list(rows)]).frame
        expected, got = self._contents(some)
        shown = oddest(np.nan_to_num(judged.misfits[list(rows)]), least=1.0)
        misfits = []
        for place, (row, line) in enumerate(zip(rows, shown, strict=True)):
            cells = [OddCell(judged.names[j], expected[j][place], got[j][place]) for j in line]
            score, flag = float(judged.scores[row]), bool(judged.flags[row])
            misfits.append(Misfit(int(row) + 1, score, flag, tuple(cells)))
        return misfits

    def _rebuilt(self, encoded: Matrix) -> Matrix:
        assert isinstance(self.estimator, RobustAutoencoder)
        return self.estimator.reconstruct(bounded(encoded))

    def _norms(self, away: Matrix) -> Vector:
        """||residual||_p of each row in robust deviations; NaN where a target is missing."""
        if isinstance(self.estimator, RobustRegressor):
            return self.estimator.misfits(away)
        p = self.estimator.p
        exponent = 2.0 if isinstance(p, str) else p
        norms: Vector = RowLoss(exponent)(torch.from_numpy(away)).numpy()
        return norms

    def _contents(self, frame: pd.DataFrame) -> tuple[list[list[Content]], list[list[Content]]]:
        """Expected and found cells, column by column."""
        encoded, _ = self.encoding.encode(frame)
        expected: list[list[Content]] = []
        got: list[list[Content]] = []
        if self.target_names:
            answers = self.answers(encoded)
            for number, target in enumerate(self.encoding.targets):
                scaled = target.scaled(answers[:, number])
                expected.append([target.expected(value) for value in scaled[:, None]])
                got.append(target.as_read(frame[target.name]))
            return expected, got
        back = self._rebuilt(encoded)
        first = 0
        for column in self.encoding.features:
            part = back[:, first : first + len(column.labels)]
            expected.append([column.expected(row) for row in part])
            got.append(column.as_read(frame[column.name]))
            first += len(column.labels)
        return expected, got


@dataclass(frozen=True, eq=False)
class Judgement:
    """How badly rows fit a model."""

    names: list[str]  # of the columns that can fit badly
    scores: Vector  # (rows,) NaN where a target is missing
    misfits: Matrix  # (rows, columns) distance from what the model expects, in robust deviations
    flags: NDArray[np.bool_]  # (rows,) whether the score is beyond the cut-off

    def worst(self, count: int) -> list[int]:
        """The rows by falling score, at most so many; those without a score do not come."""
        order = np.argsort(-self.scores, kind="stable")  # NaN comes last
        return [int(row) for row in order[:count] if not np.isnan(self.scores[row])]


@dataclass(frozen=True)
class OddCell:
    """One cell that does not fit."""

    column: str
    expected: Content  # a number if the column holds numbers
    got: Content

    @property
    def texts(self) -> tuple[str, str]:
        """Expected with four digits, and what was found with those it had."""
        expected, got = (
            content if isinstance(content, str) else show_figure(content, digits)
            for content, digits in ((self.expected, 4), (self.got, 9))
        )
        return expected, got


@dataclass(frozen=True)
class Misfit:
    """One row, and the cells in it that fit worst."""

    row: int  # counted from 1, without the header
    score: float
    outlier: bool
    cells: tuple[OddCell, ...]


def oddest(sizes: Matrix, *, least: float) -> list[list[int]]:
    """The columns to show of each row: the oddest, and others of three odder than `least`."""
    order = np.argsort(-sizes, axis=1, kind="stable")[:, :_CELLS_SHOWN]
    return [
        [int(j) for rank, j in enumerate(line) if rank == 0 or own[j] > least]
        for own, line in zip(sizes, order, strict=True)
    ]


def bounded(encoded: Matrix) -> Matrix:
    """The cells as an autoencoder is shown them."""
    return np.clip(encoded, -_REACH, _REACH)
