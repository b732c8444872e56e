"""What a missing cell may be: by factors, by factors of ranks, by rows nearby, by its column.

Every filler speaks in units of the columns (median 0, quartiles at those of a Gaussian), and none
of them lets a cell count for more than a few standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.neighbors import NearestNeighbors

from proxlin.estimators.low_rank.factor_model import FactorModel
from proxlin.estimators.scaling import Scaling, robust_width
from proxlin.estimators.tables import Mask, Matrix, Vector

_CLIP = 6.0  # standard deviations of its column that a cell counts for at most
_FARTHEST = 1e300  # a size of cells whose differences are numbers
_TRUST = 0.3  # weight above which a cell is taken for right
_NEAREST = 10  # rows that tell a cell
_LOOKED_AT = 40  # rows among which those are looked for that know the cell
_GATHERED = 2**22  # numbers held at once

FILLERS = ("median", "factors", "factors of ranks", "neighbours", "factors and neighbours")


def inside(z: Matrix) -> Mask:
    """Cells that are not clipped."""
    return np.abs(z) < _CLIP


class ColumnUnits(Scaling):
    """z = (x - center) / scale, clipped."""

    @classmethod
    def fit(cls, x: Matrix) -> ColumnUnits:
        """Medians and quartiles; where the middle half is one value, the others' distance."""
        pairs = [_median_and_width(column[~np.isnan(column)]) for column in x.T]
        center, scale = np.array(pairs, dtype=np.float64).T
        return cls(center, scale)

    def apply(self, x: Matrix) -> Matrix:
        """Clipped units; NaN stays."""
        with np.errstate(over="ignore"):  # a wrong cell may be infinitely far out
            return np.clip((x - self.center) / self.scale, -_CLIP, _CLIP)


def _median_and_width(values: Vector) -> tuple[float, float]:
    values = np.clip(values.astype(np.float64), -_FARTHEST, _FARTHEST)
    middle = float(np.median(values))
    low, high = np.percentile(values, (25, 75))
    return middle, robust_width(np.abs(values - middle), (low, high), middle) or 1.0


@dataclass(frozen=True, eq=False)
class RankScores:
    """Phi^-1 of a cell's rank among the trusted cells of its column, and back."""

    ordered: tuple[Vector, ...]  # a column each

    @classmethod
    def fit(cls, z: Matrix, trusted: Mask) -> RankScores:
        """Sort the trusted cells of each column; all of them where none is."""
        columns = [np.sort(column[good]) for column, good in zip(z.T, trusted.T, strict=True)]
        return cls(tuple(c if len(c) else np.zeros(1) for c in columns))

    def apply(self, z: Matrix) -> Matrix:
        """Normal scores of mid-ranks."""
        scores = np.empty_like(z)
        for j, column in enumerate(self.ordered):
            below = np.searchsorted(column, z[:, j], side="left")
            up_to = np.searchsorted(column, z[:, j], side="right")
            share = np.clip((below + up_to) / (2 * len(column)), 0.5 / len(column), None)
            scores[:, j] = ndtri(np.minimum(share, 1 - 0.5 / len(column)))
        return scores

    def invert(self, scores: Matrix) -> Matrix:
        """The quantiles that belong to scores: medians stay medians."""
        z = np.empty_like(scores)
        for j, column in enumerate(self.ordered):
            levels = (np.arange(len(column)) + 0.5) / len(column)
            z[:, j] = np.interp(ndtr(scores[:, j]), levels, column)
        return z


@dataclass(frozen=True, eq=False)
class Fillers:
    """All of them, fitted to the same cells."""

    factors: FactorModel
    ranks: RankScores
    rank_factors: FactorModel
    index: NearestNeighbors
    values: Matrix  # (rows, columns), NaN where missing or wrong
    left: Matrix  # the same minus what the factors let expect
    low: Vector  # (columns,) range of the trusted cells
    high: Vector

    @classmethod
    def fit(cls, z: Matrix, observed: Mask, rank: int, *, strict: bool) -> Fillers:
        """Fit rows z, of which the known cells count."""
        trusted = inside(z)
        factors = FactorModel.fit(z, observed, rank, trusted=trusted, strict=strict)
        seen = factors.explain(z, observed, trusted=trusted)
        trusted = seen.weights > _TRUST
        trusted[:, ~trusted.any(axis=0)] = observed[:, ~trusted.any(axis=0)]
        ranks = RankScores.fit(z, trusted)
        scores = ranks.apply(np.where(observed, z, 0.0))
        rank_factors = FactorModel.fit(scores, observed, rank, trusted=trusted, strict=strict)
        values = np.where(trusted, z, np.nan)
        complete = np.where(trusted, z, seen.expected)
        left = values - seen.expected
        index = NearestNeighbors(n_neighbors=min(_LOOKED_AT, len(complete))).fit(complete)
        some = trusted.any(axis=0)  # a column that none of these rows knows gets its median, 0
        low = np.where(some, np.where(trusted, z, np.inf).min(axis=0), 0.0)
        high = np.where(some, np.where(trusted, z, -np.inf).max(axis=0), 0.0)
        return cls(factors, ranks, rank_factors, index, values, left, low, high)

    def guesses(self, z: Matrix, observed: Mask) -> Matrix:
        """(fillers, n, columns) what each cell may be, given the others of its row."""
        seen = self.factors.explain(z, observed, trusted=inside(z))
        scores = self.ranks.apply(np.where(observed, z, 0.0))
        trusted = seen.weights > _TRUST
        by_ranks = self.rank_factors.explain(scores, observed, trusted=trusted).expected
        by_ranks = self.ranks.invert(by_ranks)
        complete = np.where(trusted, z, seen.expected)
        near = self.index.kneighbors(complete, return_distance=False)
        local, correction = np.empty_like(z), np.empty_like(z)
        size = max(1, _GATHERED // (near.shape[1] * z.shape[1]))
        for start in range(0, len(z), size):
            rows = slice(start, start + size)
            local[rows] = _middle_of_first(self.values[near[rows]])
            correction[rows] = _middle_of_first(self.left[near[rows]])
        local = np.where(np.isnan(local), seen.expected, local)
        corrected = seen.expected + np.nan_to_num(correction)
        guesses = np.stack([seen.expected, by_ranks, local, corrected]).clip(self.low, self.high)
        return np.concatenate([np.zeros_like(guesses[:1]), guesses])  # medians are never clipped


def _middle_of_first(values: Matrix) -> Matrix:
    """The median over axis 1 of the first few values that are not NaN; NaN where there is none."""
    observed = ~np.isnan(values)
    chosen = observed & (observed.cumsum(axis=1) <= _NEAREST)
    ordered = np.sort(np.where(chosen, values, np.nan), axis=1)
    count = chosen.sum(axis=1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=1)
    high = np.take_along_axis(ordered, count // 2, axis=1)
    high = np.where(count // 2 < np.maximum(count, 1), high, low)
    middle: Matrix = (low + high)[:, 0] / 2
    return middle
