"""What makes a row odd, each as a number >= 0 that grows: its place, how empty it is, one cell.

Columns are scaled and clipped, so that no cell counts for more than a few standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.neighbors import NearestNeighbors

from proxlin.estimators.detection.bulk import (
    BulkDistance,
    CellModel,
    Groups,
    least_odd,
)
from proxlin.estimators.detection.column_powers import ColumnPowers
from proxlin.estimators.detection.groups import equal_groups
from proxlin.estimators.scaling import Scaling, robust_width
from proxlin.estimators.tables import Matrix, Vector
from proxlin.problem.scales import NORMAL_IQR

ONE_BELOW = 15.865525393145708  # percent of a Gaussian more than a standard deviation below
_FAR = 30.0  # inter-quartile standard deviations beyond which a cell adds nothing to the scale
_CLIP = 5.0  # standard deviations that a cell counts for at most
_SHARE = 0.75  # of the rows that are the bulk
_COMMONEST = 0.25  # share of the rows that one value of a measured number may have
_TAIL = 0.95  # of the surprises of a column, which says how long its tail is
_COMPONENTS = (10, 20, 40)  # of the distances: a row may be odd in smaller components alone
_ROWS_PER_COMPONENT = 10  # which more than the first number of components needs
_REFERENCE = 5_000  # rows among which neighbours are looked for
_LEAST_NEIGHBOURS = 5
_FLOOR = 1e-3  # of the median: oddities below it count as it, on the log scale
_LOWEST = -3.0  # robust standard deviations: no row is more usual than that
_HIGH = 5.0  # beyond which a kind grows slowly, so that none decides alone


class BoundedScaling(Scaling):
    """The scaling of which a minority moves nothing by more than a bounded amount."""

    @classmethod
    def fit(cls, x: Matrix) -> BoundedScaling:
        """Mean and standard deviation of cells pulled in to 30 inter-quartile ranges.

        Unlike the range itself they know how rare the rare values of a column are whose middle half
        is one value; there the range is replaced by the median distance of the others.
        """
        pairs = [_bounded_moments(column[~np.isnan(column)]) for column in x.T]
        center, scale = np.array(pairs, dtype=np.float64).T
        return cls(center, scale)


def _bounded_moments(values: Vector) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    low, middle, high = np.percentile(values, (25, 50, 75))
    away = values - middle
    width = robust_width(np.abs(away), (low, high), middle)
    bounded = np.clip(away, -_FAR * width, _FAR * width)
    scale = float(bounded.std())
    usable = scale > max(1e-12 * abs(middle), np.finfo(np.float32).tiny)
    return float(middle + bounded.mean()), scale if usable else 1.0


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The mean l1 distance to the nearest of some reference rows.

    Against l2, a few odd columns of many count less than a row that is odd throughout.
    """

    index: NearestNeighbors
    count: int

    @classmethod
    def fit(cls, z: Matrix, seed: int) -> Neighbourhood:
        """Half the square root of the number of reference rows are asked, 5 at least."""
        if len(z) > _REFERENCE:
            chosen = np.random.default_rng(seed).choice(len(z), _REFERENCE, replace=False)
            z = z[chosen]
        count = max(1, min(len(z) - 1, max(_LEAST_NEIGHBOURS, round(np.sqrt(len(z)) / 2))))
        index = NearestNeighbors(n_neighbors=min(count + 1, len(z)), metric="manhattan")
        return cls(index.fit(z), count)

    def distances(self, z: Matrix) -> Vector:
        """The mean distance of each row; a reference row that equals it is taken to be itself."""
        near: Matrix = self.index.kneighbors(z)[0]
        if near.shape[1] == 1:
            return near[:, 0]
        itself = near[:, 0] <= 1e-9 * np.maximum(1.0, near[:, -1])
        means: Vector = np.where(itself, near[:, 1:].mean(1), near[:, :-1].mean(1))
        return means


@dataclass(frozen=True)
class LogScale:
    """(log v - center) / spread, robustly, so that oddities of different kinds can be added."""

    least: float
    center: float
    spread: float

    @classmethod
    def fit(cls, values: Vector) -> LogScale:
        """Median of the logarithms, and how far below it a Gaussian has one of its deviations.

        What lies below, outliers do not stretch; the upper quartile counts where it is farther, so
        that a kind with a long upper half does not outweigh the others. The standard deviation if
        half of them agree.
        """
        least = max(_FLOOR * float(np.median(values)), _FLOOR * float(values.mean()), 1e-12)
        logs = np.log(np.maximum(values, least))
        center = float(np.median(logs))
        below, upper = np.percentile(logs, (ONE_BELOW, 75))
        spread = float(max(center - below, 2 * (upper - center) / NORMAL_IQR))
        if spread < 1e-6:
            spread = float(logs.std())
        return cls(least, center, spread if spread >= 1e-6 else 1.0)

    def apply(self, values: Vector) -> Vector:
        """Robust standard deviations above the middle."""
        logs = np.log(np.maximum(values, self.least))
        away = np.maximum((logs - self.center) / self.spread, _LOWEST)
        return np.minimum(away, _HIGH) + np.log1p(np.maximum(away - _HIGH, 0.0))


@dataclass(frozen=True, eq=False)
class Oddity:
    """The oddity of rows: the mean of its kinds on their robust log scales."""

    scaling: BoundedScaling
    cells: CellModel
    tails: Vector  # (columns,) >= 1, of their surprises over a Gaussian's; inf if none counts
    graded: NDArray[np.intp]  # the columns that a Gaussian may describe
    distances: tuple[BulkDistance, ...]  # by more and more components
    powers: ColumnPowers  # of the columns in which neighbours are near
    neighbourhood: Neighbourhood
    scales: dict[str, LogScale]

    @classmethod
    def fit(cls, x: Matrix, seed: int) -> tuple[Oddity, Vector]:
        """Learn from rows of which a minority may be outliers; with the oddity of each of them.

        NaN is a missing cell. Distances and neighbours among all rows choose the bulk; neighbours
        among the bulk and its cells then see outliers that keep each other company.
        """
        scaling = BoundedScaling.fit(x)
        missing = np.isnan(x)
        z = np.where(missing, 0.0, scaling.apply(x))
        fitted, totals = cls._around(z, scaling, seed)
        if missing.any():
            fitted, _ = cls._around(_filled(fitted.cells, scaling.apply(x)), scaling, seed)
            totals = fitted.totals(x)  # missing cells are read as those of new rows are
        return fitted, totals

    @classmethod
    def _around(cls, z: Matrix, scaling: BoundedScaling, seed: int) -> tuple[Oddity, Vector]:
        plain = _clipped(z)
        graded = _graded(plain)
        gaussian = plain[:, graded]
        crowd = Neighbourhood.fit(plain, seed)
        groups = equal_groups(crowd.index, plain, _SHARE)
        distances = tuple(
            BulkDistance.fit(gaussian, count, _SHARE, seed, groups)
            for count in _component_counts(gaussian)
        )
        far = _distance(distances, gaussian)
        bulk = _bulk([far, crowd.distances(plain)], groups)
        powers = ColumnPowers.fit(plain)
        bent = _clipped(powers.apply(plain))
        neighbourhood = Neighbourhood.fit(bent[bulk], seed)
        cells = CellModel.fit(plain[bulk])
        surprises = np.abs(cells.surprises(plain))
        tails = _tails(surprises, _measured(z, graded))
        kinds = {
            "distance": far,
            "neighbours": neighbourhood.distances(bent),
            "cells": (surprises / tails).max(axis=1),
        }
        scales = {kind: LogScale.fit(values) for kind, values in kinds.items()}
        fitted = cls(scaling, cells, tails, graded, distances, powers, neighbourhood, scales)
        return fitted, fitted._total(kinds)

    def kinds(self, x: Matrix) -> dict[str, Vector]:
        """Each kind of oddity of the rows x, in robust standard deviations of its logarithm."""
        return self._scaled(self._kinds(x))

    def totals(self, x: Matrix) -> Vector:
        """The oddity of each row."""
        return self._total(self._kinds(x))

    def _kinds(self, x: Matrix) -> dict[str, Vector]:
        plain = _clipped(_filled(self.cells, self.scaling.apply(x)))
        return {
            "distance": _distance(self.distances, plain[:, self.graded]),
            "neighbours": self.neighbourhood.distances(_clipped(self.powers.apply(plain))),
            "cells": (np.abs(self.cells.surprises(plain)) / self.tails).max(axis=1),
        }

    def _scaled(self, kinds: dict[str, Vector]) -> dict[str, Vector]:
        return {kind: self.scales[kind].apply(values) for kind, values in kinds.items()}

    def _total(self, kinds: dict[str, Vector]) -> Vector:
        mean: Vector = np.mean(list(self._scaled(kinds).values()), axis=0)
        return mean

    def expected(self, x: Matrix) -> Matrix:
        """What each cell should be, given its row."""
        z = self.scaling.apply(x)
        return self.scaling.invert(self.cells.expected(_clipped(z), np.isnan(z)))

    def cell_scores(self, x: Matrix) -> Matrix:
        """(cell - expected) in standard deviations of a cell given its row; 0 where missing."""
        away = (x - self.expected(x)) / self.scaling.scale
        return np.where(np.isnan(x), 0.0, away / self.cells.spreads)


def _bulk(kinds: list[Vector], groups: Groups) -> NDArray[np.intp]:
    # A crowd is no merit here: wrong rows that agree with each other must not vouch for it.
    scaled = [np.maximum(LogScale.fit(values).apply(values), 0.0) for values in kinds]
    return least_odd(np.sum(scaled, axis=0), _SHARE, groups)


def _graded(z: Matrix) -> NDArray[np.intp]:
    """The columns of more than two values, if they are two at least; otherwise all.

    To a Gaussian the rarer of two values is an outlier, whoever has it.
    """
    others = [column[column != column[0]] for column in z.T]
    graded = np.flatnonzero([bool((other != other[:1]).any()) for other in others])
    return graded if len(graded) >= 2 else np.arange(z.shape[1])


def _measured(z: Matrix, graded: NDArray[np.intp]) -> NDArray[np.intp]:
    """The graded columns of which no value is held by a quarter of the rows, if there are any.

    Counts that are mostly zero and levels written as numbers have rare values that are not wrong.
    """
    most = np.array([np.unique(column, return_counts=True)[1].max() for column in z.T[graded]])
    measured = graded[most < _COMMONEST * len(z)]
    return measured if len(measured) else graded


def _tails(surprises: Matrix, columns: NDArray[np.intp]) -> Vector:
    """How far out one cell in twenty of these columns is, over that of a Gaussian; 1 at least.

    Cells are clipped: where more of them are wrong, their column counts less here, not the others.
    """
    tails = np.full(surprises.shape[1], np.inf)
    beyond = np.quantile(surprises[:, columns], _TAIL, axis=0)
    tails[columns] = np.maximum(beyond / ndtri((1 + _TAIL) / 2), 1.0)
    return tails


def _component_counts(z: Matrix) -> list[int]:
    """Of how many components distances are taken: more where columns and rows are many."""
    first, *more = _COMPONENTS
    most = min(z.shape[1], int(_SHARE * len(z) / _ROWS_PER_COMPONENT))
    return [first, *(min(count, most) for count in more if most > count // 2)]


def _distance(distances: tuple[BulkDistance, ...], z: Matrix) -> Vector:
    """The geometric mean of the distances by more and more components."""
    logs = [np.log(np.maximum(distance.distances(z), 1e-12)) for distance in distances]
    mean: Vector = np.exp(np.mean(logs, axis=0))
    return mean


def _clipped(z: Matrix) -> Matrix:
    return np.clip(z, -_CLIP, _CLIP)


def _filled(cells: CellModel, z: Matrix) -> Matrix:
    missing = np.isnan(z)
    return np.where(missing, cells.fill(_clipped(z), missing), z) if missing.any() else z
