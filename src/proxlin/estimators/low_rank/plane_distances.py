"""How far rows lie out in a plane and off it, by components that they had no part in.

Where rows are not several times the columns, components bend towards every row that has a say in
them: such a row lies nearer than a new one of the same kind, and a good row that was once left out
would never come back. So each of them is judged by the components of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import f as fisher

from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.tables import Mask, Matrix, Vector

_QUANTILE = 0.9995  # of good rows that stay inside the limits of their scores
_ROWS_PER_AXIS = 5  # below which a variance says little of where new rows lie
_ROWS_PER_COLUMN = 5  # from which on a row hardly bends the components that judge it
_FOLDS = 10


@dataclass(frozen=True, eq=False)
class Plane:
    """Leading principal axes of some rows."""

    center: Vector  # (m,)
    axes: Matrix  # (k, m), orthonormal
    variances: Vector  # (k,) along them
    count: int  # of the rows

    @classmethod
    def of(cls, rows: Matrix, k: int) -> Plane:
        """The plane of k axes about the mean of the rows."""
        center = rows.mean(axis=0)
        _, lengths, axes = np.linalg.svd(rows - center, full_matrices=False)
        variances = lengths[:k] ** 2 / max(1, len(rows) - 1)
        return cls(center, axes[:k], variances, len(rows))

    def leading(self) -> Plane:
        """The axes that vary and that there are rows enough for, at least one of them."""
        alive = self.variances > 1e-9 * max(self.variances.max(initial=0.0), 1e-300)
        k = min(int(alive.sum()), max(1, (self.count - 1) // _ROWS_PER_AXIS))
        return Plane(self.center, self.axes[:k], self.variances[:k], self.count)

    def squares(self, rows: Matrix) -> tuple[Vector, Vector]:
        """(squared Mahalanobis distance in the plane, squared distance from it) of each row."""
        away = rows - self.center
        scores = away @ self.axes.T
        inner: Vector = (scores**2 / self.variances).sum(1)
        return inner, np.maximum((away**2).sum(1) - (scores**2).sum(1), 0.0)


def plane_scores(rows: Matrix, plane: Plane, own: Mask | None = None) -> Vector:
    """The score of each row, at most 1 inside both limits; `own` are the rows of the plane.

    The limits are those of a Gaussian, stretched to the median of the rows, which outliers of less
    than half do not move.
    """
    lead = plane.leading()
    k, m = lead.axes.shape
    inner, outer = lead.squares(rows)
    if own is not None and lead.count < _ROWS_PER_COLUMN * m:
        members = np.flatnonzero(own)
        folds = min(_FOLDS, len(members))
        for fold in range(folds if len(members) > k + 2 else 0):
            judged = members[fold::folds]
            others = np.delete(members, np.s_[fold::folds])
            inner[judged], outer[judged] = Plane.of(rows[others], k).leading().squares(rows[judged])
    ratios = []
    if k:
        # A new row's distance, by variances of so many rows, is Hotelling's.
        limits = fisher.ppf((0.5, _QUANTILE), k, max(1, lead.count - k))
        ratios.append(inner * (limits[0] / (limits[1] * max(float(np.median(inner)), 1e-300))))
    size = float((lead.center**2).sum() + plane.variances.sum())
    if m > k and np.median(outer) > 1e-18 * size:
        # Wilson and Hilferty: cube roots of sums of squares are nearly Gaussian.
        roots = np.cbrt(outer)
        scale = OutlierScale.fit(roots, size=float(np.median(roots)))
        ratios.append(np.maximum((roots - scale.center) / (scale.cutoff * scale.spread), 0.0))
    worst: Vector = np.sqrt(np.max(ratios, axis=0)) if ratios else np.zeros(len(rows))
    return worst
