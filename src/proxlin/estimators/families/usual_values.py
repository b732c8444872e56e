"""Which values are usual, which frequent, and which a code for "unknown", such as 9999."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.scaling import is_code
from proxlin.estimators.tables import Matrix, Vector

FREQUENT = 0.2  # share of the rows from which on one value of a target is frequent

_SHARE_OF_OTHERS = 0.5  # of the others' median distance from it
_REPEATED, _MOST = 0.1, 0.5  # share of the rows that a code has; a majority is what is usual
_FEW_VALUES = 10  # of the other targets, up to which they are classes
_OUTER, _REACH = 0.1, 3.0  # share of the cells on a side; ranges beyond them that are usual
_LEFT = 0.2  # share of the rows that must be left, or codes are not told from targets


def coded_rows(values: Vector) -> NDArray[np.bool_]:
    """The rows of one target with a frequent value, not 0, far from all usual others."""
    different, counts = np.unique(values, return_counts=True)
    coded: NDArray[np.bool_] = values == different[counts.argmax()]
    if not _REPEATED <= coded.mean() < _MOST or len(different) <= _FEW_VALUES + 1:
        return np.zeros(len(values), dtype=bool)
    others = values[~coded]
    low, high = usual_ranges(others[:, None])
    usual = (low <= others) & (others <= high)
    if not is_code(float(values[coded][0]), others[usual]):
        coded[:] = False
    return coded


def uncoded_rows(targets: Matrix) -> NDArray[np.bool_]:
    """The rows without a code in any target; all rows if hardly any is without."""
    uncoded = ~np.any([coded_rows(column) for column in targets.T], axis=0)
    return uncoded if uncoded.mean() >= _LEFT else np.ones(len(targets), dtype=bool)


def scale_floor(targets: Matrix) -> float:
    """Below which no scale of residuals may fall, where one value of a target is frequent.

    With half of the incomes zero, residuals of a model that says zero have a scale of zero, and
    whoever earns anything is an outlier. The others' median distance from that value tells what
    is not; 0 where no value is frequent.
    """
    floors = [0.0]
    for column in targets.T:
        values, counts = np.unique(column, return_counts=True)
        away = np.abs(column - values[counts.argmax()])
        if counts.max() > FREQUENT * len(column) and away.any():
            floors.append(_SHARE_OF_OTHERS * float(np.median(away[away > 0])))
    return max(floors)


def usual_ranges(x: Matrix) -> tuple[Vector, Vector]:
    """Between which cells of each column lie that a tenth of wrong ones on a side cannot move.

    Three times the range between the outer tenths beyond them; where these are one frequent value,
    the outer tenths of the other cells.
    """
    low, high = np.quantile(x, (_OUTER, 1 - _OUTER), axis=0)
    for column in np.flatnonzero(low == high):
        others = x[x[:, column] != low[column], column]
        if len(others):
            ends = np.quantile(others, (_OUTER, 1 - _OUTER), method="inverted_cdf")
            low[column], high[column] = min(low[column], ends[0]), max(high[column], ends[1])
    reach = _REACH * (high - low)
    return low - reach, high + reach
