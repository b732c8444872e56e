"""How far each row lies from a linear fit, and beyond which distance it is an outlier."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from proxlin.estimators.regression.likely_fit import EXACT, residual_spread, worth_of_scale
from proxlin.estimators.robust_scale import Vector, inner_scale, m_scale
from proxlin.estimators.tables import Array

FALSE_FLAGS = 0.006  # share of good rows with Gaussian noise that are flagged
UNLIKE = 0.003  # chance below which near rows contradict a fit to all
FEW = 3.0  # rows a coefficient below which a ridge is considered
FEWEST = 2.0  # rows a coefficient below which there is no other


@dataclass(frozen=True, eq=False)
class Judged:
    """How far each row lies from a fit."""

    scale: Vector  # (targets,) > 0 standard deviation of the noise
    distance: Vector  # (n, targets) |residual| in its own standard deviations
    cutoff: float  # beyond which the largest distance of a row is an outlier's
    left_out: Vector  # (n, targets) |residual| of each row from a fit without it
    unseen_scale: Vector  # (targets,) >= scale: deviation of good rows that the fit has not seen

    def times(self, units: Vector) -> Judged:
        """The same in other units of the targets."""
        return replace(
            self, scale=self.scale * units, left_out=self.left_out * units,
            unseen_scale=self.unseen_scale * units,
        )  # fmt: skip


def judge_residuals(
    x: Array,
    residual: Array,
    weights: Vector | None,
    trust: Vector,
    *,
    intercept: bool,
    size: float,
    left_out: Vector | None = None,
) -> Judged:
    """Rows against any linear fit: scales that count degrees of freedom, spreads that leverage.

    Of few rows the residuals `left_out`, from fits without them, are judged if they are known.
    """
    count = row_counts(weights, len(x))
    design = np.column_stack([np.ones(len(x)), x]) if intercept else np.asarray(x, dtype=np.float64)
    k = design.shape[1]
    few = few_for(count, k)
    lost = 0 if few else k
    if few and left_out is not None:
        residual = left_out
    used = np.where(trust > 0, count, 0.0)
    scales = []
    for column in residual.T:
        wide = float(m_scale(column, count, freedom=max(0.05, 1.0 - lost / float(count.sum()))))
        inner = inner_scale(column, used, start=wide, largest=wide, lost=lost) if wide else 0.0
        scales.append(max(inner, EXACT * size))
    spread = np.ones(len(x)) if few else residual_spread(design, count * trust, trust)
    scale = np.array(scales)
    cutoff = cutoff_of(worth_of_scale(float(count.sum()), lost), residual.shape[1])
    size_of = np.abs(residual)
    unseen = scale / min(1.0, float(np.median(spread[used > 0]))) if used.any() else scale
    return Judged(
        scale, size_of / (scale * spread[:, None]), cutoff, size_of / spread[:, None] ** 2, unseen
    )


def cutoff_of(freedom: float, targets: int) -> float:
    """What 0.6 % of good rows exceed: the largest of `targets` studentised residuals."""
    share = 1.0 - (1.0 - FALSE_FLAGS) ** (1.0 / targets)
    return float(student.ppf(1.0 - share / 2.0, max(1.0, freedom - 1.0)))


def few_for(count: Vector, coefficients: int) -> bool:
    """Whether so few rows count that these coefficients may follow each of them."""
    return bool(count.sum() < FEWEST * coefficients)


def row_counts(weights: Vector | None, n: int) -> Vector:
    """Whole weights count rows; others are brought to a mean of one over the rows that have any."""
    if weights is None:
        return np.ones(n)
    if (weights == np.round(weights)).all():
        return weights.astype(np.float64)
    counted: Vector = weights * ((weights > 0).sum() / weights.sum())
    return counted
