"""The bulk of a table: what three quarters of its rows have in common, and how far a row lies off.

A Gaussian fitted to all rows follows outliers and hides them. Here it is fitted to the share of
rows that lie closest together (Rousseeuw 1985), found by concentration from the least outlying
rows on, or to rows that somebody else has chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.utils.extmath import randomized_svd

from proxlin.estimators.tables import Matrix, Vector
from proxlin.problem.scales import NORMAL_IQR

Groups = NDArray[np.intp]  # of each row, from 0; -1 for rows that belong to none

_DIRECTIONS = 250  # along which rows are compared with the median
_STEPS = 30  # concentration steps; each lowers the determinant, and they soon stop
_SAMPLE = 20_000  # rows that find a bulk
_RIDGE = 1e-5  # of the mean variance: columns that repeat each other have no inverse
_DENSE = 2000  # columns up to which a covariance is formed
_CELL_RIDGE = 0.03  # of the mean variance: what no cell is explained better than
_CELL_COMPONENTS = 50
_LEAST_SPREAD = 0.1  # of a column in the bulk, over that in the table
_ROUNDS = 2  # of filling cells that are far out, and fitting again
_FAR_CELL = 5.0  # inter-quartile standard deviations from the median of its column
_SWEEPS = 30  # of conjugate gradients, at most
_ODD_CELL = 3.0  # standard deviations beyond which a cell does not explain its neighbours
_ODD_CELLS = 5  # such cells a row, at most, or a quarter of them


def principal_axes(x: Matrix, count: int) -> tuple[Vector, Matrix]:
    """(variances, axes (columns, count)) of the leading principal components about 0."""
    n, columns = x.shape
    count = min(count, columns, n)
    if columns <= _DENSE:
        span = (columns - count, columns - 1)
        values, axes = eigh(x.T @ x / n, subset_by_index=span)
    else:
        _, lengths, rows = randomized_svd(x, count, n_iter=4, random_state=0)
        values, axes = lengths[::-1] ** 2 / n, rows[::-1].T
    return np.maximum(values[::-1], 0.0), axes[:, ::-1]


@dataclass(frozen=True, eq=False)
class BulkDistance:
    """||whitening (x - center)||_2, the Mahalanobis distance of a row's leading scores."""

    center: Vector  # (columns,)
    axes: Matrix  # (columns, components), principal axes over their standard deviations
    middle: Vector  # (components,)
    whitening: Matrix  # (components, components)

    @classmethod
    def fit(
        cls, x: Matrix, components: int, share: float, seed: int, groups: Groups | None = None
    ) -> BulkDistance:
        """Find the share of the rows, of each group, that lie closest, and their covariance."""
        groups = np.zeros(len(x), dtype=np.intp) if groups is None else groups
        center = x.mean(axis=0)
        variances, axes = principal_axes(x - center, components)
        alive = variances > 1e-9 * variances.max(initial=0.0)
        axes = axes[:, alive] / np.sqrt(variances[alive])
        scores = (x - center) @ axes
        if len(scores) > _SAMPLE:
            chosen = np.random.default_rng(seed).choice(len(scores), _SAMPLE, replace=False)
            scores, groups = scores[chosen], groups[chosen]
        middle, covariance = _concentrated(scores, share, groups)
        whitening = np.linalg.inv(np.linalg.cholesky(covariance))
        return cls(center, axes, middle, whitening)

    def distances(self, x: Matrix) -> Vector:
        """The distance of each row."""
        scores = (x - self.center) @ self.axes - self.middle
        distances: Vector = np.linalg.norm(scores @ self.whitening.T, axis=1)
        return distances


def least_odd(oddity: Vector, share: float, groups: Groups) -> NDArray[np.intp]:
    """Those of least oddity, the share of all rows in equal parts of every group."""
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    part = min(1.0, share * len(oddity) / sum(map(len, members)))
    chosen = []
    for rows in members:
        size = min(len(rows), max(2, round(part * len(rows))))
        chosen.append(rows[np.argpartition(oddity[rows], size - 1)[:size]] if size else rows)
    return np.sort(np.concatenate(chosen))


def _concentrated(x: Matrix, share: float, groups: Groups) -> tuple[Vector, Matrix]:
    """Mean and covariance of a share of the rows that lie closest by these very moments.

    Concentration from the least outlying rows on (Rousseeuw and Van Driessen 1999) ends in the
    nearest local minimum of the determinant. The lowest of all may be that of a tight cluster
    together with a part of the bulk, since the cluster makes every other direction narrow.
    """
    subset, lowest = least_odd(_outlyingness(x), share, groups), np.inf
    for _ in range(_STEPS):
        moments = _moments(x[subset])
        determinant = float(np.linalg.slogdet(moments[1])[1])
        if determinant >= lowest - 1e-9:
            break
        lowest, center, covariance = determinant, *moments
        moved = x - center
        squares = (moved * np.linalg.solve(covariance, moved.T).T).sum(1)
        subset = least_odd(squares, share, groups)
    return center, covariance


def _outlyingness(x: Matrix) -> Vector:
    """max over directions of |x u - median| / MAD (Stahel 1981, Donoho 1982).

    Directions lead from row to row: where a part of the rows lies aside, many of them point there.
    """
    rng = np.random.default_rng(0)
    pairs = rng.integers(len(x), size=(2, _DIRECTIONS))
    directions = np.concatenate([x[pairs[0]] - x[pairs[1]], np.eye(x.shape[1])])
    projected = x @ directions.T
    away = np.abs(projected - np.median(projected, axis=0))
    spread = np.median(away, axis=0)
    usable = spread > 1e-9 * max(float(spread.max()), 1e-300)
    if not usable.any():
        lengths: Vector = np.linalg.norm(x - np.median(x, axis=0), axis=1)
        return lengths
    most: Vector = (away[:, usable] / spread[usable]).max(axis=1)
    return most


def _moments(rows: Matrix) -> tuple[Vector, Matrix]:
    center = rows.mean(axis=0)
    moved = rows - center
    covariance = moved.T @ moved / len(rows)
    covariance[np.diag_indices(len(center))] += _RIDGE * max(
        float(np.trace(covariance)) / max(1, len(center)), 1e-12
    )
    return center, covariance


@dataclass(frozen=True, eq=False)
class CellModel:
    """A Gaussian of the bulk that says of each cell what the rest of its row lets one expect.

    With precision P and a = (x - center) / scale, cell j is off its expectation by (P a)_j / P_jj,
    whose standard deviation is P_jj^(-1/2). P = axes diag(gain) axes^T + floor I.
    """

    center: Vector  # (columns,)
    scale: Vector  # (columns,) > 0
    axes: Matrix  # (columns, components)
    gain: Vector  # (components,), negative: less precise along the axes than across them
    floor: float  # 1 / variance of a cell that no axis explains

    @classmethod
    def fit(cls, x: Matrix) -> CellModel:
        """Fit the rows of a bulk; cells far out in their column count as missing."""
        low, middle, high = np.percentile(x, (25, 50, 75), axis=0)
        away = np.abs(x - middle)
        far = away > _FAR_CELL * np.where(high > low, (high - low) / NORMAL_IQR, np.inf)
        model = cls._of(np.where(far, middle, x))
        for _ in range(_ROUNDS if far.any() else 0):
            model = cls._of(model.fill(x, far))
        return model

    @classmethod
    def _of(cls, x: Matrix) -> CellModel:
        center, scale = x.mean(axis=0), np.maximum(x.std(axis=0), _LEAST_SPREAD)
        moved = (x - center) / scale
        variances, axes = principal_axes(moved, _CELL_COMPONENTS)
        total = float((moved**2).sum() / len(x))
        ridge = _CELL_RIDGE * max(total / x.shape[1], 1e-12)
        rest = max(total - float(variances.sum()), 0.0) / max(1, x.shape[1] - len(variances))
        floor = 1.0 / (rest + ridge)
        return cls(center, scale, axes, 1.0 / (variances + ridge) - floor, floor)

    @property
    def precisions(self) -> Vector:
        """P_jj of each column."""
        precisions: Vector = (self.axes**2) @ self.gain + self.floor
        return precisions

    @property
    def spreads(self) -> Vector:
        """The standard deviation of each cell given its row, in the unit of x."""
        return self.scale / np.sqrt(self.precisions)

    def draw(self, rows: int, rng: np.random.Generator) -> Matrix:
        """Rows of this Gaussian."""
        noise = rng.normal(size=(rows, len(self.center))) / np.sqrt(self.floor)
        along = np.sqrt(self.floor / (self.gain + self.floor)) - 1
        drawn: Matrix = noise + ((noise @ self.axes) * along) @ self.axes.T
        return self.center + self.scale * drawn

    def surprises(self, x: Matrix) -> Matrix:
        """How many standard deviations each cell is off what the rest of its row lets expect."""
        return self._times((x - self.center) / self.scale) / np.sqrt(self.precisions)

    def _times(self, away: Matrix) -> Matrix:
        """P a of each row."""
        image: Matrix = ((away @ self.axes) * self.gain) @ self.axes.T + self.floor * away
        return image

    def fill(self, x: Matrix, missing: NDArray[np.bool_]) -> Matrix:
        """x with its missing cells at their expectation given the others of the row.

        P_mm y = -(P a)_m, by conjugate gradients for all rows at once.
        """
        filled = np.where(missing, self.center, x)
        rows = np.flatnonzero(missing.any(axis=1))
        if not len(rows):
            return filled
        mask, root = missing[rows], np.sqrt(self.precisions)
        change = np.zeros(mask.shape)
        left = np.where(mask, -self.surprises(filled[rows]), 0.0)
        direction, size = left, (left**2).sum(1)
        for _ in range(_SWEEPS):
            if not (size > 1e-16).any():
                break
            image = np.where(mask, self._times(direction / root) / root, 0.0)
            curvature = (direction * image).sum(1)
            step = (size / np.where(curvature > 0, curvature, 1.0))[:, None]
            change += step * direction
            left = left - step * image
            smaller = (left**2).sum(1)
            direction = left + (smaller / np.where(size > 0, size, 1.0))[:, None] * direction
            size = smaller
        filled[rows] += change / root * self.scale
        return filled

    def expected(self, x: Matrix, missing: NDArray[np.bool_]) -> Matrix:
        """What each cell should be, given those cells of its row that are not odd themselves.

        Row by row, the oddest cell is set aside and the others are looked at again without it, so
        that one wrong cell does not make its neighbours look wrong.
        """
        aside = missing.copy()
        filled = self.fill(x, aside)
        going = np.arange(len(x))
        for _ in range(max(_ODD_CELLS, x.shape[1] // 4)):
            surprise = np.where(aside[going], 0.0, np.abs(self.surprises(filled[going])))
            worst = surprise.argmax(axis=1)
            odd = surprise[np.arange(len(going)), worst] > _ODD_CELL
            if not odd.any():
                break
            going, worst = going[odd], worst[odd]
            aside[going, worst] = True
            filled[going] = self.fill(x[going], aside[going])
        return filled - np.where(aside, 0.0, self.surprises(filled) * self.spreads)
