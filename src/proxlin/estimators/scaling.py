"""Scaling that outliers cannot move: median and inter-quartile range of each column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.tables import Array
from proxlin.problem.scales import NORMAL_IQR, NORMAL_MAD

_WIDER = 10.0  # times the median deviation that the inter-quartile range may say at most


@dataclass(frozen=True, eq=False)
class Scaling:
    """z = (x - center) / scale, column by column."""

    center: NDArray[np.float64]  # (columns,)
    scale: NDArray[np.float64]  # (columns,) > 0

    def apply(self, x: Array) -> Array:
        """(x - center) / scale."""
        scaled: Array = (x - self.center) / self.scale
        return scaled

    def invert(self, z: Array) -> Array:
        """z * scale + center."""
        plain: Array = z * self.scale + self.center
        return plain


class RobustScaling(Scaling):
    """The scaling by median and inter-quartile range."""

    @classmethod
    def identity(cls, columns: int) -> RobustScaling:
        """The scaling that changes nothing."""
        return cls(np.zeros(columns), np.ones(columns))

    @classmethod
    def fit(cls, x: Array, weights: NDArray[np.float64] | None = None) -> RobustScaling:
        """Median and IQR / 1.349 of each column, which is the standard deviation of a Gaussian.

        A column whose middle half is one value (a rare flag) is scaled by its mean distance from
        the median instead, a constant one by 1. NaN cells count for nothing; a column of nothing
        else is left alone. Weights count as repetitions of rows.
        """
        columns = [_quartiles(x[:, j], weights) for j in range(x.shape[1])]
        if not columns:
            return cls.identity(0)
        center, iqr, spread = np.array(columns).T
        scale = np.where(iqr > 0, iqr / NORMAL_IQR, spread)
        # A spread at the level of rounding is a constant column; a subnormal one divides badly.
        usable = scale > np.maximum(1e-12 * np.abs(center), np.finfo(np.float32).tiny)
        return cls(center, np.where(usable, scale, 1.0))

    def fold(
        self, coef: Array, intercept: Array, targets: RobustScaling
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(W, b) on plain columns from (V, c) on scaled ones, where z_y = V z_x + c.

        y = s_y (V (x - m_x) / s_x + c) + m_y, so W = s_y V / s_x and b = s_y c + m_y - W m_x.
        """
        weight = targets.scale[:, None] * np.asarray(coef, dtype=np.float64) / self.scale
        offset = targets.scale * intercept + targets.center - weight @ self.center
        return weight, offset

    def unfold(
        self, coef: Array, intercept: Array, targets: RobustScaling
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(V, c) on scaled columns from (W, b) on plain ones: the inverse of `fold`."""
        weight = np.asarray(coef, dtype=np.float64)
        offset = (intercept - targets.center + weight @ self.center) / targets.scale
        return weight * self.scale / targets.scale[:, None], offset


def _quartiles(column: Array, weights: NDArray[np.float64] | None) -> tuple[float, float, float]:
    """Median, inter-quartile range and mean distance from the median, over the known cells."""
    known = ~np.isnan(column)
    values = column[known].astype(np.float64)
    if not len(values):
        return 0.0, 0.0, 0.0
    mass = None if weights is None else weights[known]
    if mass is not None and not mass.any():
        return 0.0, 0.0, 0.0
    # The inverse of the distribution function is the definition that repeated rows, and weights
    # in their place, leave alone.
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), weights=mass, method="inverted_cdf")
    spread = np.average(np.abs(values - middle), weights=mass)
    return float(middle), float(high - low), float(spread)


def robust_width(away: NDArray[np.float64], quartiles: tuple[float, float], middle: float) -> float:
    """The inter-quartile range as a Gaussian's deviation, at most ten times the median one.

    A quarter of the cells moves a quartile, not a median. Where the middle half is one value the
    median distance of the others, 0 if there are none; `away` are the distances from the middle.
    """
    width = (quartiles[1] - quartiles[0]) / NORMAL_IQR
    deviation = NORMAL_MAD * float(np.median(away))
    rounding = 1e-12 * abs(middle)
    if deviation > rounding:
        width = min(width, _WIDER * deviation)
    if not width > rounding:
        others = away[away > rounding]
        width = float(np.median(others)) if len(others) else 0.0
    return float(width)


def is_code(value: float, others: NDArray[np.float64]) -> bool:
    """Whether a frequent value stands for "unknown", as 9999 does; zeros are a quantity.

    It then lies farther from all others than these are apart.
    """
    if value == 0 or not len(others):
        return value != 0
    return bool(np.abs(others - value).min() > np.ptp(others))
