"""Good rows whose residuals have longer tails than a Gaussian's: Student's t, errors beside it.

A Gaussian takes such tails for wrong rows and leaves out what they tell. Here rows count by w(u) =
tails / (tails + u^2), u = r / s, times their probability to be good; wrong ones lie evenly over the
range of all (expectation-maximisation; Lange, Little & Taylor 1989).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, gammaln

from proxlin.estimators.robust_scale import Vector

TAILS = (2.0, 4.0)  # degrees of freedom that are tried

_LEAST_RANGE = 6.0  # of the wrong rows, in scales of the good ones
_FEW = 0.5  # wrong rows at the start
_NONE = 0.05  # wrong rows below which there are none


@dataclass(frozen=True)
class LongTails:
    """(1 - wrong) t(r / scale) / scale + wrong / range."""

    scale: float
    tails: float  # degrees of freedom
    wrong: float  # share of the rows

    @classmethod
    def begun(cls, scale: float, tails: float, total: float) -> LongTails:
        """From the scale of another fit, with hardly a wrong row."""
        return cls(scale, tails, _FEW / total)

    def _logs(self, residual: Vector) -> tuple[Vector, float]:
        """Logarithms of the densities of good and wrong rows, times their shares."""
        tails = self.tails
        at_zero = gammaln((tails + 1.0) / 2.0) - gammaln(tails / 2.0)
        good = (
            at_zero - 0.5 * np.log(tails * np.pi) - np.log(self.scale)
            - 0.5 * (tails + 1.0) * np.log1p((residual / self.scale) ** 2 / tails)
        )  # fmt: skip
        reach = max(float(np.ptp(residual)), _LEAST_RANGE * self.scale)
        with np.errstate(divide="ignore"):
            return good + np.log1p(-self.wrong), float(np.log(self.wrong) - np.log(reach))

    def log_likelihood(self, residual: Vector, counts: Vector) -> float:
        """Of the rows that count."""
        used = counts > 0
        return float(counts[used] @ np.logaddexp(*self._logs(residual[used])))

    def trust(self, residual: Vector) -> tuple[Vector, Vector, Vector]:
        """w, the slope of psi(r) = w r, and the probability of each row to be good."""
        logs = self._logs(residual)
        good = expit(logs[0] - logs[1])
        tail = self.tails / (self.tails + (residual / self.scale) ** 2)
        pull = (1.0 - good) * (self.tails + 1.0) * (1.0 - tail)
        return good * tail, good * tail * (2.0 * tail - 1.0 - pull), good

    def improved(self, residual: Vector, counts: Vector, *, lost: float) -> LongTails:
        """A step towards the likeliest, after a fit that `lost` so many degrees of freedom."""
        used = counts > 0
        size, count = residual[used], counts[used]
        weight, _, good = self.trust(size)
        total, mass = float(count.sum()), float(count @ good)
        squares = float((count * weight) @ size**2) * (self.tails + 1.0) / self.tails
        scale = float(np.sqrt(squares / max(mass - lost, 1.0))) or self.scale
        wrong = min(1.0 - mass / total, (total - lost - 1.0) / 2.0 / total)
        wrong = wrong if wrong * total > _NONE else 0.0
        return replace(self, scale=scale, wrong=max(0.0, wrong))
