"""FoldedTable: the rows of one table, folds of them, and the time that there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from proxlin.estimators.families.usual_values import scale_floor, uncoded_rows
from proxlin.estimators.tables import Indices, Matrix, Vector

Units = Callable[[Matrix], Matrix]
Folds = Sequence[tuple[Indices, Indices]]  # rows to fit to and rows held out

MOST_ROWS = 100_000  # that members are fitted to; linear and additive ones to a third of them

_FOLDS = 5
_MANY_ROWS = 20_000  # beyond which two of the folds are enough
_COLUMNS_AT_ONCE = 500  # whose ranks are held in memory


@dataclass(frozen=True, eq=False)
class ColumnRoles:
    """Which encoded columns are numbers, and which belong to one category."""

    numbers: Indices
    categories: tuple[Indices, ...] = ()

    def among(self, columns: Indices) -> ColumnRoles:
        """The same for these columns alone, renumbered."""
        places = {int(column): place for place, column in enumerate(columns)}
        parts = [
            np.array([places[int(c)] for c in part if int(c) in places], dtype=np.intp)
            for part in (self.numbers, *self.categories)
        ]
        return ColumnRoles(parts[0], tuple(part for part in parts[1:] if len(part)))


class FoldedTable:
    """Scaled columns x, scaled targets z, which columns are what, and who is held out when."""

    def __init__(
        self,
        x: Matrix,
        z: Matrix,
        roles: ColumnRoles,
        *,
        units: Units,
        seed: int,
        seconds: float | None,
    ) -> None:
        self.x, self.z, self.roles, self.units, self.seed = x, z, roles, units, seed
        self.began, self.seconds = time.monotonic(), seconds
        self.uncoded = uncoded_rows(units(z))  # the others are no row of any fold
        self.floor, self.unit_floor = (scale_floor(t[self.uncoded]) for t in (z, units(z)))
        order = np.random.default_rng(seed).permutation(len(x))
        order = order[self.uncoded[order]][:MOST_ROWS]
        parts = np.array_split(order, min(_FOLDS, len(order)))
        used = parts if len(order) <= _MANY_ROWS else parts[:2]
        self.folds = [(np.setdiff1d(order, part), np.sort(part)) for part in used]
        self.all_rows = np.sort(order)
        self.scored_rows = np.sort(np.concatenate(used))

    def some(self, rows: Indices) -> Indices:
        """At most as many of the rows as linear and additive models are fitted to."""
        return rows if len(rows) <= MOST_ROWS // 3 else rows[:: -(-len(rows) * 3 // MOST_ROWS)]

    def residuals(self, predictions: Matrix, rows: Indices) -> Matrix:
        """Of predictions for these rows, in the units in which errors are compared."""
        return self.units(self.z[rows]) - self.units(predictions)

    def late(self, share: float) -> bool:
        """Whether more than this share of the time is gone."""
        return self.seconds is not None and time.monotonic() - self.began > share * self.seconds

    def seconds_left(self) -> float | None:
        """Until the time is over; None if there is no end to it."""
        if self.seconds is None:
            return None
        return max(0.1, self.seconds - (time.monotonic() - self.began))


def strongest_columns(x: Matrix, z: Matrix, count: int, among: NDArray[np.bool_]) -> Indices:
    """The columns whose ranks go best with the ranks of a target."""
    columns = np.flatnonzero(among)
    order = np.argsort(-rank_agreement(x[:, columns], z), kind="stable")
    return np.sort(columns[order[:count]])


def rank_agreement(x: Matrix, z: Matrix) -> Vector:
    """The rank correlation of each column with the target that it goes with best."""
    targets = rankdata(z, axis=0)
    targets -= targets.mean(axis=0)
    targets /= np.maximum(np.linalg.norm(targets, axis=0), 1e-300)
    agreement = np.empty(x.shape[1])
    for first in range(0, x.shape[1], _COLUMNS_AT_ONCE):
        ranks = rankdata(x[:, first : first + _COLUMNS_AT_ONCE], axis=0)
        ranks -= ranks.mean(axis=0)
        ranks /= np.maximum(np.linalg.norm(ranks, axis=0), 1e-300)
        agreement[first : first + _COLUMNS_AT_ONCE] = np.abs(ranks.T @ targets).max(axis=1)
    return agreement
