"""Rows without gross errors: wrong cells at what the rest of their row lets expect, others bounded.

An autoencoder reads every cell of a row: one that is wrong moves the whole code, wherever it is
pulled in to. As long as most cells of its row are right, these say what it should have been.
"""

from __future__ import annotations

import numpy as np
import torch

from proxlin.estimators.low_rank.cell_fillers import ColumnUnits, inside
from proxlin.estimators.low_rank.factor_model import FactorModel
from proxlin.estimators.tables import Array, Mask, Matrix, as_tensor
from proxlin.exact.factorize import Cells
from proxlin.exact.factorize.bounded import Bounds

_ROWS = 2000  # that are learned from
_FACTORS = 8  # at most
_TURNS = 20
_SURPRISE = 6.0  # standard deviations given its row beyond which a cell is wrong,
_DISTANCE = 2.0  # if it is so many of those of its column off what is expected there
_ONE_VALUE = 0.25  # share of the median itself in a column whose other cells may be rare, not wrong
_WHOLE = 0.25  # share of cells beyond that a row may have to be learned from
_LOST = 0.5  # share of wrong cells of a row beyond which the others say nothing of it
_MOST_LOST = 0.5  # share of the rows that may be left out


def bounded_rows(rows: Array, factors: int, seed: int) -> Array:
    """The rows with cells and rows far from the medians of the columns pulled in.

    Before, wrong cells are repaired by so many factors, unless these are 0.
    """
    if factors:
        rows = repaired(rows, factors, seed)
    cells = Cells(as_tensor(rows, dtype=torch.float64))
    winsorized = Bounds.of(cells).winsorized(cells)
    return rows if winsorized is cells else winsorized.values.numpy()


def repaired(rows: Array, factors: int, seed: int) -> Array:
    """The rows with their wrong cells at what the others let expect.

    Rows of which most cells are wrong are left out. The same object if no cell is wrong.
    """
    filled, wrong = repair_cells(rows, factors, seed)
    if not wrong.any():
        return rows
    lost = wrong.mean(axis=1) > _LOST
    kept = ~lost if lost.mean() <= _MOST_LOST else np.ones(len(rows), dtype=bool)
    whole: Array = filled[kept]
    return whole


def repair_cells(rows: Array, factors: int, seed: int) -> tuple[Array, Mask]:
    """(rows with their wrong cells at what the others let expect, which cells are wrong).

    Wrong are cells beyond six robust standard deviations of their column, unless their row lets
    expect them, and those that contradict their row; none if no cell is beyond. NaN stays.
    """
    units = ColumnUnits.fit(rows)
    z = units.apply(rows)
    observed = ~np.isnan(z)
    graded = (rows == np.nanmedian(rows, axis=0)).mean(axis=0) <= _ONE_VALUE
    trusted = inside(z) | ~graded
    if trusted[observed].all():
        return rows, np.zeros(z.shape, dtype=bool)
    beyond = (observed & ~trusted).mean(axis=1)
    chosen = np.flatnonzero(beyond <= max(_WHOLE, float(np.median(beyond))))
    if len(chosen) > _ROWS:
        chosen = np.random.default_rng(seed).choice(chosen, _ROWS, replace=False)
    model = FactorModel.fit(
        z[chosen],
        observed[chosen],
        min(factors, _FACTORS),
        trusted=trusted[chosen],
        strict=True,
        turns=_TURNS,
    )
    seen = model.explain(z, observed, trusted=trusted)
    far = np.abs((rows - units.center) / units.scale - seen.expected) > _DISTANCE
    wrong = far & graded & observed & (~trusted | (np.abs(seen.surprise) > _SURPRISE))
    if not wrong.any():
        return rows, wrong
    shown = np.where(observed, z, 0.0)
    expected: Matrix = units.invert(np.clip(seen.expected, shown.min(axis=0), shown.max(axis=0)))
    filled: Array = np.where(wrong, expected, rows).astype(rows.dtype, copy=False)
    return filled, wrong
