"""What makes a row odd, each as a number >= 0 that grows: its place, its neighbours, its tails.

Columns are looked at twice: scaled and clipped, so that no cell counts for more than a few standard
deviations, and as normal scores of their ranks, which no monotone change of a column moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.neighbors import NearestNeighbors

from proxlin.estimators.bulk import NORMAL_IQR, BulkDistance, CellModel, Matrix, Vector

ONE_BELOW = 15.865525393145708  # percent of a Gaussian more than a standard deviation below
_FAR = 30.0  # inter-quartile standard deviations beyond which a cell adds nothing to the scale
_CLIP = 5.0  # standard deviations that a cell counts for at most
_SHARE = 0.75  # of the rows that are the bulk
_COMPONENTS = (10, 20, 40)  # of the distances: a row may be odd in smaller components alone
_ROWS_PER_COMPONENT = 10  # which more than the first number of components needs
_REFERENCE = 5_000  # rows among which neighbours are looked for
_LEAST_NEIGHBOURS = 5
_LEAST_BINS = 5
_FLOOR = 1e-3  # of the median: oddities below it count as it, on the log scale
_LOWEST = -3.0  # robust standard deviations: no row is more usual than that
_HIGH = 5.0  # beyond which a kind grows slowly, so that none decides alone

# Neighbours see most kinds of outliers, in tables of several groups too; ranks lose how far.
_WEIGHTS = {
    "distance": 1.0,
    "rank distance": 0.5,
    "neighbours": 2.0,
    "cells": 0.5,
    "tails": 0.5,
    "rarity": 0.5,
}


@dataclass(frozen=True, eq=False)
class BoundedScaling:
    """z = (x - center) / scale: a minority moves neither by more than a bounded amount."""

    center: Vector  # (columns,)
    scale: Vector  # (columns,) > 0

    @classmethod
    def fit(cls, x: Matrix) -> BoundedScaling:
        """Mean and standard deviation of cells pulled in to 30 inter-quartile ranges.

        Unlike the range itself they know how rare the rare values of a column are whose middle half
        is one value; there the range is replaced by the median distance of the others.
        """
        pairs = [_bounded_moments(column[~np.isnan(column)]) for column in x.T]
        center, scale = np.array(pairs, dtype=np.float64).T
        return cls(center, scale)

    def apply(self, x: Matrix) -> Matrix:
        """(x - center) / scale."""
        scaled: Matrix = (x - self.center) / self.scale
        return scaled

    def invert(self, z: Matrix) -> Matrix:
        """z * scale + center."""
        plain: Matrix = z * self.scale + self.center
        return plain


def _bounded_moments(values: Vector) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    low, middle, high = np.percentile(values, (25, 50, 75))
    away = values - middle
    width = (high - low) / NORMAL_IQR
    if not width > 1e-12 * abs(middle):
        others = np.abs(away)[away != 0]
        width = float(np.median(others)) if len(others) else 0.0
    bounded = np.clip(away, -_FAR * width, _FAR * width)
    scale = float(bounded.std())
    usable = scale > max(1e-12 * abs(middle), np.finfo(np.float32).tiny)
    return float(middle + bounded.mean()), scale if usable else 1.0


@dataclass(frozen=True, eq=False)
class NormalScores:
    """Phi^-1 of a cell's rank among the training cells of its column, standardised."""

    ordered: Matrix  # (n, columns) each column sorted
    longer: NDArray[np.bool_]  # (columns,) whether the upper tail is the longer one
    center: Vector  # (columns,) of the scores
    scale: Vector

    @classmethod
    def fit(cls, z: Matrix) -> NormalScores:
        """Sort the columns of the training rows."""
        moved = _clipped(z) - _clipped(z).mean(axis=0)
        longer = (moved**3).mean(axis=0) >= 0
        plain = cls(np.sort(z, axis=0), longer, np.zeros(z.shape[1]), np.ones(z.shape[1]))
        scores = plain.apply(z)
        center, scale = scores.mean(axis=0), scores.std(axis=0)
        return replace(plain, center=center, scale=np.where(scale > 1e-9, scale, 1.0))

    def apply(self, z: Matrix) -> Matrix:
        """The standardised scores of rows, seen or unseen."""
        scores: Matrix = (ndtri(self.ranks(z)) - self.center) / self.scale
        return scores

    def ranks(self, z: Matrix) -> Matrix:
        """Mid-ranks in (0, 1)."""
        n = len(self.ordered)
        ranks = np.empty_like(z)
        for j, column in enumerate(self.ordered.T):
            below = np.searchsorted(column, z[:, j], side="left")
            up_to = np.searchsorted(column, z[:, j], side="right")
            ranks[:, j] = (below + up_to) / (2 * n)
        return np.clip(ranks, 0.5 / n, 1 - 0.5 / n)

    def tails(self, z: Matrix) -> Vector:
        """- sum_j log P(a training cell lies as far out as this one), one side of each column.

        The largest of the sums over lower tails, upper tails, and the longer one of each column
        (Li et al. 2022): what makes rows odd is often on the same side.
        """
        n = len(self.ordered)
        sums = np.zeros((3, len(z)))
        for j, column in enumerate(self.ordered.T):
            up_to = np.searchsorted(column, z[:, j], side="right")
            beyond = n - np.searchsorted(column, z[:, j], side="left")
            lower, upper = (-np.log(np.maximum(count, 1) / n) for count in (up_to, beyond))
            sums += lower, upper, upper if self.longer[j] else lower
        most: Vector = sums.max(axis=0)
        return most


@dataclass(frozen=True, eq=False)
class ColumnDensity:
    """How rare the values of a row are, each in its column: histograms, or counts of values."""

    edges: tuple[Vector, ...]  # of each column, inner ones
    rarities: tuple[Vector, ...]  # log of the highest count over that of each bin

    @classmethod
    def fit(cls, z: Matrix) -> ColumnDensity:
        """About the square root of n bins, or the values themselves where they are fewer."""
        bins = max(_LEAST_BINS, round(np.sqrt(len(z)) / 1.5))
        edges, rarities = [], []
        for column in z.T:
            values, counts = np.unique(column, return_counts=True)
            inner, heights = (values[1:] + values[:-1]) / 2, counts.astype(np.float64)
            if len(values) > bins:
                inner = np.linspace(values[0], values[-1], bins + 1)[1:-1]
                counts = np.bincount(np.searchsorted(inner, column), minlength=bins)
                heights = np.convolve(counts, (0.25, 0.5, 0.25), mode="same")
            edges.append(inner)
            rarities.append(np.log(heights.max() / np.maximum(heights, 0.5)))
        return cls(tuple(edges), tuple(rarities))

    def rarity(self, z: Matrix) -> Vector:
        """The sum over the columns."""
        total = np.zeros(len(z))
        for column, inner, rarity in zip(z.T, self.edges, self.rarities, strict=True):
            total += rarity[np.searchsorted(inner, column)]
        return total


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
    """The oddity of rows: a weighted mean of its kinds on their robust log scales."""

    scaling: BoundedScaling
    cells: CellModel
    scores: NormalScores
    density: ColumnDensity
    distances: tuple[BulkDistance, ...]  # by more and more components
    rank_distance: BulkDistance
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
        bulk = _bulk(cls._around(z, scaling, None, seed)[1])
        if missing.any():
            z = _filled(CellModel.fit(_clipped(z[bulk])), scaling.apply(x))
            bulk = _bulk(cls._around(z, scaling, None, seed)[1])
        fitted, kinds = cls._around(z, scaling, bulk, seed)
        # Missing cells are read by the final model, as those of new rows are.
        return fitted, fitted.totals(x) if missing.any() else _total(kinds)

    @classmethod
    def _around(
        cls, z: Matrix, scaling: BoundedScaling, bulk: NDArray[np.intp] | None, seed: int
    ) -> tuple[Oddity, dict[str, Vector]]:
        plain = _clipped(z)
        inside = plain if bulk is None else plain[bulk]
        scores = NormalScores.fit(z)
        fitted = cls(
            scaling,
            CellModel.fit(inside),
            scores,
            ColumnDensity.fit(plain),
            tuple(BulkDistance.fit(plain, k, _SHARE, seed) for k in _component_counts(plain)),
            BulkDistance.fit(scores.apply(z), _COMPONENTS[0], _SHARE, seed),
            Neighbourhood.fit(inside, seed),
            {},
        )
        kinds = fitted._kinds(z)
        fitted.scales.update({kind: LogScale.fit(values) for kind, values in kinds.items()})
        return fitted, fitted._scaled(kinds)

    def _kinds(self, z: Matrix) -> dict[str, Vector]:
        plain = _clipped(z)
        surprise = self.cells.surprises(plain)
        return {
            "distance": _geometric_mean([d.distances(plain) for d in self.distances]),
            "rank distance": self.rank_distance.distances(self.scores.apply(z)),
            "neighbours": self.neighbourhood.distances(plain),
            "cells": np.sqrt((surprise**2).mean(1)),
            "tails": self.scores.tails(z),
            "rarity": self.density.rarity(plain),
        }

    def _scaled(self, kinds: dict[str, Vector]) -> dict[str, Vector]:
        return {kind: self.scales[kind].apply(values) for kind, values in kinds.items()}

    def kinds(self, x: Matrix) -> dict[str, Vector]:
        """Each kind of oddity of the rows x, in robust standard deviations of its logarithm."""
        return self._scaled(self._kinds(self._read(x)))

    def totals(self, x: Matrix) -> Vector:
        """The oddity of each row."""
        return _total(self.kinds(x))

    def expected(self, x: Matrix) -> Matrix:
        """What each cell should be, given its row."""
        z = self.scaling.apply(x)
        return self.scaling.invert(self.cells.expected(_clipped(z), np.isnan(z)))

    def cell_scores(self, x: Matrix) -> Matrix:
        """(cell - expected) in standard deviations of a cell given its row; 0 where missing."""
        away = (x - self.expected(x)) / self.scaling.scale
        return np.where(np.isnan(x), 0.0, away / self.cells.spreads)

    def _read(self, x: Matrix) -> Matrix:
        return _filled(self.cells, self.scaling.apply(x))


def _total(kinds: dict[str, Vector]) -> Vector:
    total: Vector = sum(_WEIGHTS[kind] * kinds[kind] for kind in kinds)  # type: ignore
    return total / sum(_WEIGHTS.values())


def _bulk(kinds: dict[str, Vector]) -> NDArray[np.intp]:
    # A crowd is no merit here: wrong rows that agree with each other must not vouch for it.
    total = _total({kind: np.maximum(values, 0.0) for kind, values in kinds.items()})
    return np.sort(np.argsort(total, kind="stable")[: max(2, round(_SHARE * len(total)))])


def _component_counts(z: Matrix) -> list[int]:
    """Of how many components distances are taken: more where columns and rows are many."""
    first, *more = _COMPONENTS
    most = min(z.shape[1], int(_SHARE * len(z) / _ROWS_PER_COMPONENT))
    return [first, *(min(count, most) for count in more if most > count // 2)]


def _geometric_mean(values: list[Vector]) -> Vector:
    logs = [np.log(np.maximum(v, max(_FLOOR * float(np.median(v)), 1e-12))) for v in values]
    mean: Vector = np.exp(np.mean(logs, axis=0))
    return mean


def _clipped(z: Matrix) -> Matrix:
    return np.clip(z, -_CLIP, _CLIP)


def _filled(cells: CellModel, z: Matrix) -> Matrix:
    missing = np.isnan(z)
    return np.where(missing, cells.fill(_clipped(z), missing), z) if missing.any() else z
