"""Outlier scores: how many robust standard deviations a row's residual norm lies above the middle.

A row is flagged beyond 3.5, the cut-off of Iglewicz and Hoaglin (1993) for scores of median and
MAD. For Gaussian residuals the norm of a row with one target is half-normal and 3.5 flags about
0.6 % of good rows; with many targets the norm is nearly Gaussian itself and it flags about 0.02 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.tables import Array
from proxlin.problem.scales import NORMAL_MAD

CUTOFF = 3.5
FALSE_ALARMS = 1 / 80  # share of good rows that a detector flags if nobody says how many are bad

_EXACT = 1e-7  # of the size of the data: a spread below it means that most rows fit exactly


@dataclass(frozen=True)
class OutlierScale:
    """score(row) = (norm - center) / spread; both are taken from the training rows."""

    center: float
    spread: float  # > 0
    cutoff: float = CUTOFF

    @classmethod
    def fit(
        cls, norms: Array, *, size: float = 1.0, cutoff: float = CUTOFF, tol: float | None = None
    ) -> OutlierScale:
        """Median and 1.4826 MAD of the norms, taken twice: of all rows, then of those not flagged.

        The first look stays bounded while fewer than half of the rows are outliers, but many of
        them inflate it; the second look is free of what the first one caught. `size` is a typical
        norm of the data, below 1e-7 of which a residual counts as none. A solver that stops at
        `tol` does not fit all rows alike: where most of them fit to less than it, as rows of zeros
        do, their spread says nothing of the others, and ten times the tolerance takes its place.
        """
        known = np.asarray(norms, dtype=np.float64)
        known = known[np.isfinite(known)]
        if not len(known):
            return cls(0.0, max(_EXACT * size, np.finfo(np.float64).tiny), cutoff)
        scale = cls._look(known, size, cutoff)
        scale = cls._look(known[known <= scale.limit], size, cutoff)
        if tol is not None and scale.spread < tol * size:
            return cls(scale.center, 10 * tol * size, cutoff)
        return scale

    @classmethod
    def _look(cls, norms: NDArray[np.float64], size: float, cutoff: float) -> OutlierScale:
        center = float(np.median(norms))
        spread = NORMAL_MAD * float(np.median(np.abs(norms - center)))
        return cls(center, max(spread, _EXACT * size, np.finfo(np.float64).tiny), cutoff)

    @property
    def limit(self) -> float:
        """The norm beyond which a row is flagged."""
        return self.center + self.cutoff * self.spread

    def scores(self, norms: Array) -> NDArray[np.float64]:
        """The score of each row; rows that fit better than the middle have negative ones."""
        with np.errstate(over="ignore"):  # where all rows but a few fit exactly
            scores = (np.asarray(norms, dtype=np.float64) - self.center) / self.spread
        return np.minimum(scores, np.finfo(np.float64).max)

    def flags(self, scores: Array) -> NDArray[np.bool_]:
        """Whether each row's score is beyond the cut-off; False for rows without a score."""
        flags: NDArray[np.bool_] = np.asarray(scores) > self.cutoff
        return flags


def detection_limit(norms: Array, scale: OutlierScale, *, size: float = 1.0) -> float:
    """The norm that one in 80 rows within the limit of the scale exceeds.

    Of n such rows the ceil((n + 1) 79/80)-th smallest norm is exceeded by a new row of the same
    kind with a chance of at most 1/80 (conformal prediction). Fewer than 79 rows do not say where
    that is, and rows that fit exactly up to rounding are all alike: the limit of the scale stays.
    """
    ordinary = np.sort(norms[norms <= scale.limit])
    rank = math.ceil((len(ordinary) + 1) * (1 - FALSE_ALARMS))
    if rank > len(ordinary) or scale.spread <= _EXACT * size:
        return scale.limit
    return float(ordinary[rank - 1])
