"""Targets that are a code for "unknown", such as 9999, rather than a quantity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.scaling import is_code
from proxlin.estimators.tables import Matrix, Vector

_REPEATED, _MOST = 0.1, 0.5  # share of the rows that a code has; a majority is what is usual
_FEW_VALUES = 10  # of the other targets, up to which they are classes
_OUTER, _REACH = 0.1, 3.0  # share of the others on a side; ranges beyond them that are usual
_LEFT = 0.2  # share of the rows that must be left, or codes are not told from targets


def coded_rows(values: Vector) -> NDArray[np.bool_]:
    """The rows of one target with a frequent value, not 0, far from all usual others."""
    different, counts = np.unique(values, return_counts=True)
    coded: NDArray[np.bool_] = values == different[counts.argmax()]
    if not _REPEATED <= coded.mean() < _MOST or len(different) <= _FEW_VALUES + 1:
        return np.zeros(len(values), dtype=bool)
    others = values[~coded]
    low, high = np.quantile(others, (_OUTER, 1 - _OUTER))
    usual = np.abs(others - (low + high) / 2) <= (_REACH + 0.5) * (high - low)
    if not is_code(float(values[coded][0]), others[usual]):
        coded[:] = False
    return coded


def uncoded_rows(targets: Matrix) -> NDArray[np.bool_]:
    """The rows without a code in any target; all rows if hardly any is without."""
    uncoded = ~np.any([coded_rows(column) for column in targets.T], axis=0)
    return uncoded if uncoded.mean() >= _LEFT else np.ones(len(targets), dtype=bool)
