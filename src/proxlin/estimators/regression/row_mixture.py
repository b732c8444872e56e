"""How likely each row is a good one: residuals as a Gaussian among errors of unknown size.

Good rows have residuals N(0, s^2); of wrong ones nothing is known, and near the good ones they lie
evenly. The share of wrong rows within reach and s are found together by maximum likelihood
(expectation-maximisation, Dempster et al. 1977). A row counts by its probability to be good,
w(u) = 1 / (1 + odds exp(u^2 / 2)), which makes the fit the likeliest of such a mixture. Where all
wrong rows are far away, or none is, the odds are zero and all rows within reach count fully.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from proxlin.estimators.robust_scale import Vector

_BEYOND = 1e-3  # share of tables in which chance has a good row out of reach
_SURPRISE = 0.05  # share of clean tables in which a row is held for wrong
_STEPS, _SHARE_STEPS = 10, 3  # towards scale and share, and towards the share alone in each
_SETTLED = 1e-6  # relative change of the scale that ends the steps
_PEAK = float(np.sqrt(np.pi / 2.0))  # of the uniform density on (-1, 1) over a Gaussian's at zero


@dataclass(frozen=True)
class RowMixture:
    """w(u) = 1 / (1 + odds exp(u^2 / 2)) up to a limit, and 0 beyond."""

    scale: float
    freedom: float  # degrees of freedom of the scale
    odds: float = 0.0  # of a wrong row over a good one, where the residual is zero
    limit: float = np.inf  # of the residuals: no good row lies beyond

    def trust(self, size: Vector) -> Vector:
        """The probability of each row to be good, by the size of its residual."""
        good = 1.0 / (1.0 + self.odds * np.exp(self.exponent(size)))
        return np.where(size <= self.limit, good, 0.0)

    def exponent(self, size: Vector) -> Vector:
        """u^2 / 2 of a Gaussian as rare as Student's t = size / scale (Wallace 1959).

        With few rows the scale is uncertain, and good rows seem farther out than they are.
        """
        squares = np.minimum(size / self.scale, 1e3) ** 2
        return np.minimum(_shrunk(self.freedom) * np.log1p(squares / self.freedom), 300.0)

    def reach(self, total: float) -> float:
        """The residual that one of `total` good rows exceeds in one of a thousand tables."""
        farthest = -float(ndtri(_BEYOND / 2.0 / total))
        most = min(farthest**2 / 2.0 / _shrunk(self.freedom), 10.0)
        return self.scale * float(np.sqrt(self.freedom * np.expm1(most)))

    def improved(self, size: Vector, counts: Vector, least: float) -> RowMixture:
        """Steps towards the likeliest mixture for residuals of these sizes.

        Rows that count `least` stay within reach, and so many are good: no majority is wrong.
        """
        order = np.argsort(size, kind="stable")
        gone = np.cumsum(counts[order])
        enough = float(size[order][min(int(np.searchsorted(gone, least)), len(order) - 1)])
        now = self
        for _ in range(_STEPS):
            limit = max(now.reach(gone[-1]), enough)
            inside = size <= limit
            near, count = size[inside], counts[inside]
            total = float(count.sum())
            peak = now.scale * _PEAK / limit
            exponent = now.exponent(near)
            flat = peak * np.exp(exponent)  # density of wrong rows over that of good ones
            if float(count @ flat) <= total:
                wrong = 0.0  # the likelihood falls with every wrong row
            else:
                wrong = max(now.odds / (now.odds + peak), 1.0 / total)
                for _ in range(_SHARE_STEPS):
                    wrong = float(count @ (wrong * flat / (1.0 + wrong * (flat - 1.0)))) / total
                wrong = min(wrong, 1.0 - min(least / total, 1.0))
            good = count * (1.0 - wrong) / (1.0 - wrong + wrong * flat)
            # The mean of u^2 is 1; residuals share in their own scale, hence 2 / freedom.
            square = 2.0 * float(good @ exponent) / float(good.sum()) * (1.0 + 2.0 / self.freedom)
            scale = now.scale * float(np.sqrt(square))
            if scale <= 0.0:  # rows within reach fit exactly, such as the only one that counts
                break
            before, odds = now.scale, wrong / (1.0 - wrong) * scale * _PEAK / limit
            now = RowMixture(scale, self.freedom, odds, limit)
            if abs(scale - before) <= _SETTLED * before:
                break
        return now


def _shrunk(freedom: float) -> float:
    """Wallace's u^2 / 2 over log(1 + t^2 / freedom)."""
    return 0.5 * freedom * ((8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)) ** 2


def surprising(distance: Vector, freedom: float, counts: Vector, level: float = _SURPRISE) -> bool:
    """Whether chance has good rows as far out as this in a share `level` of tables at most.

    Simes' (1986) test over all rows that count, by Student's t.
    """
    used = counts > 0
    order = np.argsort(-distance[used], kind="stable")
    share = np.cumsum(counts[used][order]) / float(counts.sum())
    chance = 2.0 * student.sf(distance[used][order], max(1.0, freedom))
    return bool((chance <= level * np.minimum(share, 1.0)).any())
