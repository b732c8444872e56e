"""Residuals of three kinds: of good rows, of a group of wrong ones that lie together, of the rest.

Good ones are N(0, s^2), those of the group N(shift, width^2), the rest lie evenly over the range of
all. How likely a table is under such a mixture tells whether it has wrong rows at all, and which
fit of several describes it (expectation-maximisation, Dempster et al. 1977).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import logsumexp

from proxlin.estimators.robust_scale import Vector

_APART = 2.5  # deviations between two groups; at 2 their sum has one top (Ashman et al. 1994)
_LEAST_RANGE = 6.0  # of the rest, in deviations of the good ones
_FEW = 0.5  # rows of the rest at the start
_LOOKS = 20  # steps before a group is held for one


@dataclass(frozen=True, eq=False)
class RowKinds:
    """shares[0] N(0, scale^2) + shares[1] N(shift, width^2) + shares[2] / range."""

    scale: float
    shift: float = 0.0
    width: float = 1.0
    shares: Vector = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))

    @classmethod
    def parted(cls, residual: Vector, counts: Vector, *, lost: float) -> tuple[RowKinds, float]:
        """From two groups that leave the least squares, by steps; and where the good ones lie."""
        used = counts > 0
        order = np.argsort(residual[used], kind="stable")
        size, count = residual[used][order], counts[used][order]
        below, sums = np.cumsum(count), np.cumsum(count * size)
        share = below[:-1] / below[-1]
        between = (sums[:-1] - share * sums[-1]) ** 2 / (share * (1.0 - share))
        cut = int(np.argmax(between)) + 1
        groups = [(size[:cut], count[:cut]), (size[cut:], count[cut:])]
        groups.sort(key=lambda group: -float(group[1].sum()))
        middles = [float(np.average(part, weights=mass)) for part, mass in groups]
        widths = [
            float(np.sqrt(np.average((part - middle) ** 2, weights=mass)))
            for (part, mass), middle in zip(groups, middles, strict=True)
        ]
        least = 1e-6 * float(np.ptp(size)) + np.finfo(np.float64).tiny
        shares = np.array([*(float(mass.sum()) for _, mass in groups), _FEW])
        scale, width = max(widths[0], least), max(*widths, least)
        kinds = cls(scale, middles[1] - middles[0], width, shares / shares.sum())
        middle = middles[0]
        for _ in range(_LOOKS):
            good = count * kinds.trust(size - middle)[0]
            middle = float(good @ size / good.sum())
            kinds = kinds.improved(size - middle, count, lost=lost)
            if not kinds.apart:
                break
        return kinds, middle

    @property
    def apart(self) -> bool:
        """Whether good rows and the group are two groups."""
        return bool(2.0 * self.shift**2 >= _APART**2 * (self.scale**2 + self.width**2))

    def _logs(self, residual: Vector) -> Vector:
        """(3, n) logarithms of the densities, times their shares."""
        with np.errstate(divide="ignore"):
            shares = np.log(self.shares)
        reach = max(float(np.ptp(residual)), _LEAST_RANGE * self.scale)
        densities = [
            -0.5 * ((residual - middle) / width) ** 2 - np.log(width * np.sqrt(2.0 * np.pi))
            for middle, width in ((0.0, self.scale), (self.shift, self.width))
        ]
        logs: Vector = np.stack([*densities, np.full(len(residual), -np.log(reach))])
        return logs + shares[:, None]

    def _chances(self, residual: Vector) -> Vector:
        """(3, n) the probability of each row to be of each kind."""
        logs = self._logs(residual)
        chances: Vector = np.exp(logs - logsumexp(logs, axis=0))
        return chances

    def log_likelihood(self, residual: Vector, counts: Vector) -> float:
        """Of the rows that count."""
        used = counts > 0
        return float(counts[used] @ logsumexp(self._logs(residual[used]), axis=0))

    def with_shares(self, residual: Vector, counts: Vector) -> RowKinds:
        """A step towards the likeliest shares."""
        used = counts > 0
        mass = self._chances(residual[used]) @ counts[used]
        return replace(self, shares=mass / mass.sum())

    def improved(self, residual: Vector, counts: Vector, *, lost: float) -> RowKinds:
        """A step towards the likeliest, after a fit that `lost` so many degrees of freedom."""
        used = counts > 0
        size = residual[used]
        good, group, rest = self._chances(size) * counts[used]
        masses = np.array([good.sum(), group.sum(), rest.sum()])
        if masses[0] <= lost + 1.0 or masses[1] < 1.0:
            return replace(self, shift=0.0)
        scale = float(np.sqrt(good @ size**2 / (masses[0] - lost))) or self.scale
        shift = float(group @ size / masses[1])
        width = max(float(np.sqrt(group @ (size - shift) ** 2 / masses[1])), scale)
        return RowKinds(scale, shift, width, masses / masses.sum())

    def trust(self, residual: Vector) -> tuple[Vector, Vector]:
        """w, the probability of each row to be good, and the slope of psi(r) = w r."""
        good, group, _ = self._chances(residual)
        pull = residual * (1.0 - good) / self.scale**2 - group * (
            (residual - self.shift) / self.width**2
        )
        return good, good * (1.0 - residual * pull)
