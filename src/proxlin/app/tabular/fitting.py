"""fit_table: from a table to a model, with everything that was done to it said in sentences."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from proxlin._checks import counted
from proxlin.app.tabular.fit_settings import FEW_ROWS, FitSettings
from proxlin.app.tabular.model import TableModel, bounded
from proxlin.app.tabular.reading.column_kinds import (
    find_identifiers,
    learn_features,
    learn_target,
    robust_scaling,
    scale_target,
)
from proxlin.app.tabular.reading.columns import NumberColumn
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.reading.encoding import TableEncoding, check_columns
from proxlin.app.tabular.target_scale import choose_target_scales
from proxlin.errors import InvalidInputError
from proxlin.estimators.estimator_state import estimator_state, restore_estimator
from proxlin.estimators.families.family_search import fit_families
from proxlin.estimators.families.folds import MOST_ROWS
from proxlin.estimators.families.table_regressor import TableRegressor
from proxlin.estimators.families.usual_values import coded_rows
from proxlin.estimators.tables import Matrix
from proxlin.run.result import Callback

_FIRST = 0.6  # share of the time for the choice; the rest is for fitting it to all rows

RowNumbers = NDArray[np.intp]
Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Some rows of a table in the forms that a fit needs."""

    frame: pd.DataFrame  # as in the file
    rows: RowNumbers  # their numbers in the file, counted from 1 without the header
    encoded: Matrix
    targets: Matrix  # in their own units; no columns for an autoencoder


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, the rows that made and that tested it, and what was done on the way."""

    model: TableModel  # fitted to all rows
    tested: TableModel  # fitted to the training rows alone; the figures are those of this one
    settings: FitSettings
    train: EncodedRows
    test: EncodedRows
    tested_on: str  # a sentence
    notes: tuple[str, ...]

    @property
    def test_answers(self) -> Matrix:
        """What the tested model predicts for the test rows, in the targets' units."""
        if self.test is self.train:
            return self.tested.training_answers(self.train.encoded)
        return self.tested.answers(self.test.encoded)


def fit_table(
    table: RawTable | pd.DataFrame,
    settings: FitSettings,
    *,
    test: RawTable | pd.DataFrame | None = None,
    tell: Tell = lambda stage: None,
    callbacks: Sequence[Callback] = (),
) -> Fitted:
    """Choose the rows and columns, learn the encoding from the training rows, train.

    `test` has the test rows; without it a share of the rows is held out. `tell` hears the name of
    each stage as it begins, the callbacks how the training of a net goes on.
    """
    began = time.monotonic()
    tell("looking at the columns")
    whole = RawTable.of(table)
    notes = list(whole.notes)
    names, remarks = _feature_names(whole, settings)
    notes += remarks
    complete, kept, targets, remarks = _with_targets(whole, settings.targets)
    notes += remarks
    train_rows, test_rows = _split(len(kept), 0.0 if test is not None else settings.test_share,
                                   settings.seed)  # fmt: skip
    first = replace(complete, frame=complete.frame.iloc[train_rows])
    learned = learn_features(first, names, indicators=bool(targets))
    notes += learned.notes
    scaled = tuple(scale_target(target, first.frame[target.name]) for target in targets)
    encoding = TableEncoding(tuple(learned.columns), scaled)
    _check_enough(encoding, len(train_rows), learned.notes)
    train, remarks = _encoded_rows(encoding, complete.frame, train_rows, kept)
    notes += [note for note in remarks if note not in notes]
    if test is None:
        held, remarks = (
            _encoded_rows(encoding, complete.frame, test_rows, kept)
            if len(test_rows)
            else (train, [])
        )
        tested_on = _tested_on(len(train_rows), len(test_rows), settings)
    else:
        held, remarks, tested_on = _test_rows(encoding, RawTable.of(test), len(train_rows))
    notes += [f"Test rows: {note}" for note in remarks]
    if settings.families:
        on_scales, remarks = choose_target_scales(
            encoding.targets, train.targets, train.encoded, encoding.roles, settings.seed
        )
        encoding = replace(encoding, targets=on_scales)
        notes += remarks
    tell("training")
    first_share = None if settings.seconds is None else _FIRST * settings.seconds
    estimator, remarks = _estimator(
        encoding, train, settings, tell=tell, callbacks=callbacks, seconds=first_share
    )
    notes += remarks
    tested = final = TableModel.of(estimator, encoding, train.encoded)
    if test is not None or not len(test_rows) or settings.kind in ("mlp", "autoencoder"):
        return Fitted(final, tested, settings, train, held, tested_on, tuple(notes))
    if isinstance(estimator, TableRegressor) and len(train.rows) >= MOST_ROWS:
        tested_on += f" No model sees more than {MOST_ROWS:,} rows: it was not fitted again."
    else:
        tell("fitting to all rows")
        everything = _joined(train, held)
        left = None
        if settings.seconds is not None:
            left = max(settings.seconds - (time.monotonic() - began), 0.1 * settings.seconds)
        estimator, _ = _estimator(
            encoding, everything, settings,
            tell=tell, callbacks=callbacks, seconds=left, like=estimator,
        )  # fmt: skip
        final = TableModel.of(estimator, encoding, everything.encoded)
        tested_on += " The saved model was fitted to all of these rows afterwards."
    return Fitted(final, tested, settings, train, held, tested_on, tuple(notes))


def _estimator(
    encoding: TableEncoding,
    rows: EncodedRows,
    settings: FitSettings,
    *,
    tell: Tell,
    callbacks: Sequence[Callback],
    seconds: float | None,
    like: Any = None,
) -> tuple[Any, list[str]]:
    """The fitted estimator, and what was decided for it; `like` was fitted to some of the rows."""
    if settings.families:
        sizes = np.array([robust_scaling(c[~coded_rows(c)])[1] for c in rows.targets.T])
        model = fit_families(
            rows.encoded,
            encoding.scale_targets(rows.targets),
            encoding.roles,
            families=settings.families if like is None else like.taking_part,
            units=lambda scaled: encoding.plain_targets(scaled) / sizes,
            seed=settings.seed,
            seconds=seconds,
            tell=tell,
            like=like,
        )
        return model, list(model.notes)
    estimator, notes = settings.estimator(*rows.encoded.shape)
    estimator.set_params(callbacks=callbacks)
    if encoding.targets:
        estimator.fit(rows.encoded, encoding.scale_targets(rows.targets))
    else:
        estimator.fit(bounded(rows.encoded))
    if settings.kind == "linear" and settings.by_default and estimator.alpha_:
        notes.append(FEW_ROWS.format(columns=rows.encoded.shape[1], rows=len(rows.encoded)))
    # As it will come back from the disk, so that it predicts the same bits.
    restored = restore_estimator(*estimator_state(estimator))
    return restored, [*notes, *estimator.result_.remarks]


def _joined(train: EncodedRows, held: EncodedRows) -> EncodedRows:
    order = np.argsort(np.concatenate([train.rows, held.rows]), kind="stable")
    return EncodedRows(
        pd.concat([train.frame, held.frame]).iloc[order],
        np.concatenate([train.rows, held.rows])[order],
        np.concatenate([train.encoded, held.encoded])[order],
        np.concatenate([train.targets, held.targets])[order],
    )


def _feature_names(table: RawTable, settings: FitSettings) -> tuple[list[str], list[str]]:
    present = list(map(str, table.frame.columns))
    check_columns("--targets", settings.targets, table)
    check_columns("--features", settings.features or (), table)
    check_columns("--drop", settings.drop, table)
    taken = {*settings.targets, *settings.drop}
    if settings.features is not None:
        return [name for name in settings.features if name not in taken], []
    names = [name for name in present if name not in taken]
    identifiers = find_identifiers(table, names)
    if len(identifiers) == len(names):
        return names, []
    notes = [
        f"{name!r} is left out: its whole numbers look like an identifier; name it"
        " in --features to use it."
        for name in identifiers
    ]
    return [name for name in names if name not in identifiers], notes


def _with_targets(
    table: RawTable, names: Sequence[str]
) -> tuple[RawTable, RowNumbers, list[NumberColumn], list[str]]:
    """The rows whose targets are all known, and their numbers in the file."""
    kept = np.ones(len(table.frame), dtype=bool)
    columns, notes = [], []
    for name in names:
        column, values, remarks = learn_target(table, name)
        columns.append(column)
        notes += remarks
        kept &= np.isfinite(values)
    if not kept.any():
        raise InvalidInputError("no row has all of its targets; name fewer --targets.")
    if not kept.all():
        notes.append(f"Left out: {counted(int((~kept).sum()), 'row')} without a target.")
    frame = table.frame[kept]
    return replace(table, frame=frame), np.flatnonzero(kept) + 1, columns, notes


def _split(rows: int, share: float, seed: int) -> tuple[RowNumbers, RowNumbers]:
    """Training and test rows, each in the order of the table."""
    if not share or rows < 2:
        return np.arange(rows), np.arange(0)
    count = min(max(1, round(share * rows)), rows - 1)
    mixed = np.random.default_rng(seed).permutation(rows)
    return np.sort(mixed[count:]), np.sort(mixed[:count])


def _encoded_rows(
    encoding: TableEncoding, frame: pd.DataFrame, rows: RowNumbers, numbers: RowNumbers
) -> tuple[EncodedRows, list[str]]:
    some = frame.iloc[rows]
    encoded, notes = encoding.encode(some)
    return EncodedRows(some, numbers[rows], encoded, encoding.read_targets(some)), notes


def _test_rows(
    encoding: TableEncoding, test: RawTable, trained: int
) -> tuple[EncodedRows, list[str], str]:
    notes = [*test.notes, *encoding.check(test.frame, targets=True)]
    frame = test.frame
    kept = np.isfinite(encoding.read_targets(frame)).all(axis=1)
    if not kept.any():
        raise InvalidInputError(
            "no row of --test has all of its targets; there is nothing to test."
        )
    if not kept.all():
        notes.append(f"Left out: {counted(int((~kept).sum()), 'row')} without a target.")
    part, remarks = _encoded_rows(encoding, frame, np.flatnonzero(kept), np.arange(len(frame)) + 1)
    sentence = f"Trained on {trained:,} rows; tested on the {int(kept.sum()):,} rows of --test."
    return part, [*notes, *remarks], sentence


def _tested_on(train: int, test: int, settings: FitSettings) -> str:
    if not test and settings.families:
        return f"Trained on all {train:,} rows: the errors are of rows that were held out in turn."
    if not test:
        return (
            f"Trained on all {train:,} rows: the errors are of rows that the model has seen, and"
            " say little about new ones."
        )
    return (
        f"Trained on {train:,} rows; tested on {counted(test, 'other')}, {settings.test_share:.0%}"
        f" of the table drawn at random (seed {settings.seed})."
    )


def _check_enough(encoding: TableEncoding, rows: int, notes: Sequence[str]) -> None:
    least = 1 if encoding.targets else 2
    if len(encoding.labels) < least:
        reason = f" {notes[0]}" if notes else ""
        raise InvalidInputError(
            f"at least {counted(least, 'column')} must be left to learn from"
            f"{' beside the target' if encoding.targets else ''}; got"
            f" {len(encoding.labels)}.{reason}"
        )
    if rows < 2:
        raise InvalidInputError(f"at least 2 rows must be left to train on; got {rows}.")
