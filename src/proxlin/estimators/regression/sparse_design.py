"""Least squares over a sparse table by products with it: never dense, never centred."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import LinearOperator, lsmr

from proxlin.estimators.robust_scale import Vector
from proxlin.estimators.scaling import RobustScaling


def sparse_scaling(x: csr_array) -> RobustScaling:
    """`RobustScaling.fit` of the columns without their centres, zeros counting as cells.

    A column of which three quarters are zero has its mean size as scale.
    """
    columns = csc_array(x)
    filled = np.diff(columns.indptr)
    scale = abs(columns).sum(axis=0) / max(1, x.shape[0])
    for j in np.flatnonzero(4 * filled >= x.shape[0]):
        scale[j] = RobustScaling.fit(columns[:, [j]].toarray()).scale[0]
    usable = scale > np.finfo(np.float32).tiny
    return RobustScaling(np.zeros(x.shape[1]), np.where(usable, scale, 1.0))


class SparseDesign:
    """[1, x] with columns of length one, for least squares by products."""

    def __init__(self, x: csr_array, scale: Vector, intercept: bool) -> None:
        self.x, self.intercept = x, intercept
        length = np.sqrt(np.asarray(x.multiply(x).sum(axis=0)).reshape(-1))
        first = [np.sqrt(x.shape[0])] if intercept else []
        length = np.concatenate([first, length])
        self.length = np.where(length > 0, length, 1.0)
        charged = np.concatenate([[0.0] if intercept else [], scale])
        self.charged = charged / self.length  # scaled coefficient over unit coefficient

    def rows(self, keep: NDArray[np.bool_]) -> SparseDesign:
        """The same columns on some of the rows."""
        part = object.__new__(SparseDesign)
        part.x, part.intercept = self.x[keep], self.intercept
        part.length, part.charged = self.length, self.charged
        return part

    def apply(self, theta: Vector) -> Vector:
        """Fitted values for plain coefficients, the intercept first."""
        if not self.intercept:
            return np.asarray(self.x @ theta)
        fitted: Vector = np.asarray(self.x @ theta[1:]) + theta[0]
        return fitted

    def transposed(self, rows: Vector) -> Vector:
        """[1, x]' rows."""
        products = np.asarray(self.x.T @ rows)
        return np.concatenate([[rows.sum()], products]) if self.intercept else products

    def least_squares(
        self, y: Vector, weights: Vector, strength: float, start: Vector, accuracy: float
    ) -> Vector:
        """argmin sum_i w_i (y_i - a_i theta)^2 / sum w + strength ||scaled coefficients||^2."""
        root = np.sqrt(weights)
        n, k = len(y), len(self.length)
        damp = np.sqrt(strength * weights.sum()) * self.charged

        def forward(unit: Vector) -> Vector:
            unit = np.ravel(unit)
            return np.concatenate([root * self.apply(unit / self.length), damp * unit])

        def back(rows: Vector) -> Vector:
            rows = np.ravel(rows)
            pulls: Vector = self.transposed(root * rows[:n]) / self.length + damp * rows[n:]
            return pulls

        operator = LinearOperator((n + k, k), matvec=forward, rmatvec=back, dtype=np.float64)
        target = np.concatenate([root * y, np.zeros(k)])
        solved = lsmr(
            operator, target, atol=accuracy, btol=accuracy, conlim=0.0,
            maxiter=min(1000, 4 * k + 20), x0=start * self.length,
        )  # fmt: skip
        theta: Vector = np.asarray(solved[0]) / self.length
        return theta

    def slope(self, y: Vector, weights: Vector, strength: float, theta: Vector) -> Vector:
        """Half the gradient of the same, in unit coefficients."""
        pull = self.transposed(weights * (y - self.apply(theta))) / self.length
        slope: Vector = pull / weights.sum() - strength * self.charged**2 * theta * self.length
        return slope
