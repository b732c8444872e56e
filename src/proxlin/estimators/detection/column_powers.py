"""Columns bent until their middle is Gaussian: a long tail of good cells is no empty place.

Distances between rows count a step in the tail of a skewed column like one in its dense part. A
power by which most cells look Gaussian evens that out. It is chosen by the middle of the column
alone (Raymaekers and Rousseeuw 2021): outliers do not bend it, and gaps between groups remain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from proxlin.estimators.tables import Matrix, Vector

_POWERS = np.arange(-3.0, 5.5, 0.5)  # 1 changes nothing
_QUANTILES = (np.arange(200) + 0.5) / 200
_MIDDLE = (_QUANTILES > 0.125) & (_QUANTILES < 0.875)
_WORTH = 0.5  # of its distance from a Gaussian; a column that no power brings nearer stays as it is


@dataclass(frozen=True, eq=False)
class ColumnPowers:
    """(power(z) - center) / scale with the power of Yeo and Johnson (2000), column by column."""

    powers: Vector  # (columns,)
    center: Vector  # (columns,)
    scale: Vector  # (columns,) > 0

    @classmethod
    def fit(cls, z: Matrix) -> ColumnPowers:
        """Powers by which the middle three quarters of each column are the most Gaussian.

        Where none halves how far they are from it, as in columns of two groups, the power is 1.
        """
        quantiles = np.quantile(z, _QUANTILES, axis=0)
        powers = np.ones(z.shape[1])
        chance = 1 / len(z)  # about what Gaussian columns of so many rows have
        least = _WORTH * (_non_normality(quantiles[_MIDDLE]) - chance)
        for power in _POWERS:
            distance = _non_normality(_powered(quantiles[_MIDDLE], np.full_like(powers, power)))
            better = distance < least - 1e-9
            powers, least = np.where(better, power, powers), np.where(better, distance, least)
        transformed = _powered(quantiles, powers)
        scale = transformed.std(axis=0)
        return cls(powers, transformed.mean(axis=0), np.where(scale > 1e-9, scale, 1.0))

    def apply(self, z: Matrix) -> Matrix:
        """The transformed columns, of mean 0 and standard deviation 1."""
        transformed: Matrix = (_powered(z, self.powers) - self.center) / self.scale
        return transformed


def _non_normality(middle: Matrix) -> Vector:
    """One minus the correlation of each column with the quantiles of a Gaussian."""
    gaussian = ndtri(_QUANTILES[_MIDDLE])
    lengths = np.linalg.norm(middle - middle.mean(axis=0), axis=0) * np.linalg.norm(gaussian)
    non_normality: Vector = 1 - gaussian @ middle / np.maximum(lengths, 1e-12)
    return non_normality


def _powered(z: Matrix, powers: Vector) -> Matrix:
    """((1 + z)^power - 1) / power for z >= 0, mirrored with 2 - power below; log at 0."""
    logs = np.log1p(np.abs(z))
    exponents = np.where(z >= 0, powers, 2 - powers)
    straight = np.where(exponents == 0, 1.0, exponents)
    transformed: Matrix = np.sign(z) * np.where(
        exponents == 0, logs, np.expm1(straight * logs) / straight
    )
    return transformed
