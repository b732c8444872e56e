"""Which rows may speak first: those in the bulk of the features that are not copies of one another.

The others wait, and come back if these predict them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.leverage import LeverageWeights
from proxlin.estimators.robust_scale import Vector

_FEW_VALUES, _LOOKED_AT = 5, 1000  # of a column; rows in which they are counted
_COMMON = 0.05  # share of the rows from which a value of such a column is common
_FAR = 10.0  # times the median size of what differs, in a column of mostly one value


def near_rows(columns: Vector, count: Vector, seed: int) -> NDArray[np.bool_]:
    """Rows in the bulk of the features, by those columns whose quartiles differ.

    A column of few values has no bulk: a category that a third of the rows have is no mistake. Its
    rows are near unless they have a value that hardly any other has. In a column of mostly one
    value those that differ are looked at alone, as in sparse tables, if that leaves most rows.
    """
    near = np.ones(len(columns), dtype=bool)
    used = count > 0
    if not columns[used].size or len(columns) < 3:
        return near
    low, middle, high = np.quantile(columns[used], (0.25, 0.5, 0.75), axis=0)
    spread = np.flatnonzero(high > low)
    for j in np.flatnonzero(high <= low):
        away = np.abs(columns[:, j] - middle[j])
        differs = (away > 0) & used
        near &= away <= (_FAR * np.median(away[differs]) if differs.any() else np.inf)
    if 2.0 * count[near].sum() <= count.sum():
        near = np.ones_like(near)
    if not len(spread):
        return near
    few = np.array([few_values(columns[:, j]) for j in spread])
    for j in spread[few]:
        _, level, shared = np.unique(columns[:, j], return_inverse=True, return_counts=True)
        near &= shared[level] >= _COMMON * len(columns)
    if not few.all():
        part = columns[:, spread[~few]]
        near &= LeverageWeights.fit(part, count, seed).weights(part) > 0
    return near if count[near].any() else np.ones(len(columns), dtype=bool)


def few_values(column: Vector) -> bool:
    """Whether a column has so few values that it may be a category's."""
    return (
        len(column) > _FEW_VALUES * _FEW_VALUES
        and len(np.unique(column[:_LOOKED_AT])) <= _FEW_VALUES
    )


def rarely_copied(table: Vector, seed: int) -> NDArray[np.bool_]:
    """Rows other than those that a twentieth of the table repeats where most rows are unlike.

    Copies of a wrong row are no witnesses of each other; those of a right one will be believed.
    """
    n = len(table)
    rare = np.ones(n, dtype=bool)
    sample = np.random.default_rng(seed).choice(n, min(n, _LOOKED_AT), replace=False)
    looked_at = table[sample]
    values, times = np.unique(looked_at, axis=0, return_counts=True)
    often = times >= max(_COMMON * len(looked_at), _FEW_VALUES)
    if often.any() and 2 * int((times == 1).sum()) > len(looked_at):
        for value in values[often]:
            rare &= (table != value).any(axis=1)
    return rare


def spanned(columns: Vector, rows: NDArray[np.bool_]) -> Vector | None:
    """A basis of the directions in which these rows differ, where that is not all of them."""
    if columns.shape[1] > len(columns):
        return None  # the ridge takes care
    values, vectors = np.linalg.eigh(columns[rows].T @ columns[rows])
    kept = values > 1e-13 * values.max(initial=0.0)
    return vectors[:, kept] if kept.any() and not kept.all() else None
