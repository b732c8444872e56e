"""Leverage weights: rows whose features lie far from the bulk count only if they fit the rest.

No norm of the residual bounds what a row with wrong features does to a fit: the row pulls the fit
towards itself until its residual is small. So the bulk of the features is found first, without the
targets, as the half of the rows with the least regularised covariance determinant (Rousseeuw 1985;
Boudt et al. 2020). Rows far from it are left out of a first fit, and taken back once, by how well
they fit it: good rows far out are worth much, and bad ones must not pull the fit before they are
judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.tables import Array, Vector

_SAMPLE = 3000  # rows that find the bulk; the pairwise start takes 8 bytes times their square
_STEPS = 30  # concentration steps; each lowers the determinant, and they soon stop
_LEAST_SHRINKAGE = 0.05
_WIDE = 100  # columns from which on one start must do
_BLOCK = 1 << 22  # numbers in one block of rows


@dataclass(frozen=True, eq=False)
class LeverageWeights:
    """distance(x) = ||whitening (x - center)||_2 / sqrt(features); far is beyond the limit."""

    center: Vector  # (d,)
    whitening: Vector  # (d, d)
    limit: float

    @classmethod
    def fit(cls, x: Array, weights: Vector | None, seed: int) -> LeverageWeights:
        """Find the bulk of the rows that have a weight, or of a sample of 3,000 of them."""
        rows = np.arange(len(x)) if weights is None else np.flatnonzero(weights)
        if len(rows) > _SAMPLE:
            rows = np.random.default_rng(seed).choice(rows, _SAMPLE, replace=False)
        sample = np.asarray(x[rows], dtype=np.float64)
        # A sum of tens of thousands of standard deviations squared says no more than a far one.
        sample = np.clip(sample, -1e6, 1e6)
        half = len(sample) // 2 + 1
        found = [_concentrate(sample, start[:half]) for start in _starts(sample)]
        subset = min(found, key=lambda pair: pair[0])[1]
        bulk = cls._around(sample, subset)
        # A second look with all rows inside the limit wastes less of a clean table.
        inside = np.flatnonzero(bulk.distances(sample) <= bulk.limit)
        return cls._around(sample, inside)

    @classmethod
    def _around(cls, sample: Vector, subset: NDArray[np.intp]) -> LeverageWeights:
        center, covariance = _moments(sample[subset])
        factor = np.linalg.cholesky(covariance)
        whitening = np.linalg.solve(factor, np.eye(len(factor)))
        found = cls(center, whitening, np.inf)
        return replace(found, limit=_reach(len(center)) * np.median(found.distances(sample)))

    def distances(self, x: Array) -> Vector:
        """The distance of each row from the bulk, a bounded number of rows at a time."""
        columns = max(1, len(self.center))
        size = max(1, _BLOCK // columns)
        parts = [
            np.linalg.norm(
                np.clip(x[first : first + size] - self.center, -1e6, 1e6) @ self.whitening.T, axis=1
            )
            for first in range(0, len(x), size)
        ]
        distances: Vector = np.concatenate(parts) / np.sqrt(columns)
        return distances

    def weights(self, x: Array) -> Vector:
        """1 for rows in the bulk, 0 for those beyond the limit."""
        return (self.distances(x) <= self.limit).astype(np.float64)


def bulk_rows(x: Vector) -> list[NDArray[np.intp]]:
    """Halves of the rows that lie close together, one from each notion of the middle."""
    spread = np.median(np.abs(x - np.median(x, axis=0)), axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    sample = np.clip((x - np.median(x, axis=0)) / scale, -1e6, 1e6)
    half = len(sample) // 2 + 1
    starts = _starts(sample)[: 3 if sample.shape[1] < _WIDE else 1]
    return [_concentrate(sample, start[:half])[1] for start in starts]


def _reach(columns: int) -> float:
    """The limit over the median distance: what 1 in 1,000 Gaussian rows exceed, and 1.5 at least.

    Only the median counts, which no 49 % of the rows can move out of the bulk; a spread of the
    distances would be moved by heavy tails and clusters of bad rows together. Wilson and Hilferty's
    cube root of a chi-square variable is nearly Gaussian.
    """
    share = 2.0 / (9.0 * max(1, columns))
    return float(max(1.5, ((1 - share + 3.09 * np.sqrt(share)) / (1 - share)) ** 1.5))


def _starts(sample: Vector) -> list[NDArray[np.intp]]:
    """Orders of the rows, from the middle outwards, by notions that differ in what they resist."""
    squares = (sample**2).sum(1)
    pairwise = squares[:, None] + squares[None, :] - 2 * sample @ sample.T
    half = len(sample) // 2
    # The row with the nearest half of the others around it: a bulk even where medians are moved.
    middle = int(np.partition(pairwise, half, axis=1)[:, half].argmin())
    away = sample - np.median(sample, axis=0)
    # Directions only: each row has the same say in the spread, however far it lies.
    length = np.linalg.norm(away, axis=1, keepdims=True)
    signs = away / np.where(length > 0, length, 1.0)
    values, vectors = np.linalg.eigh(signs.T @ signs / len(signs))
    spread = np.sqrt(np.maximum(values, values.max(initial=0.0) * 1e-3) + 1e-300)
    spherical = np.linalg.norm(away @ (vectors / spread), axis=1)
    return [
        np.argsort(pairwise[middle], kind="stable"),
        np.argsort(length[:, 0], kind="stable"),
        np.argsort(spherical, kind="stable"),
    ]


def _concentrate(sample: Vector, subset: NDArray[np.intp]) -> tuple[float, NDArray[np.intp]]:
    """The log determinant and the rows after steps to the rows nearest in their own metric."""
    size, determinant = len(subset), np.inf
    for _ in range(_STEPS):
        center, covariance = _moments(sample[subset])
        now = float(np.linalg.slogdet(covariance)[1])
        if now >= determinant - 1e-9:
            break
        determinant = now
        moved = sample - center
        squares = (moved * np.linalg.solve(covariance, moved.T).T).sum(1)
        subset = np.argpartition(squares, size - 1)[:size]
    return determinant, subset


def _moments(rows: Vector) -> tuple[Vector, Vector]:
    """Mean and covariance, shrunk to the unit matrix the more, the fewer rows a column has."""
    count, columns = rows.shape
    center = rows.mean(axis=0)
    moved = rows - center
    shrinkage = max(_LEAST_SHRINKAGE, columns / (columns + count))
    covariance = (1 - shrinkage) * (moved.T @ moved) / count
    covariance[np.diag_indices(columns)] += shrinkage
    return center, covariance
