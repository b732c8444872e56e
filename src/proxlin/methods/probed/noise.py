"""How many rows a batch has: few while its halves agree on the slope, more when they do not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from proxlin.methods.curvature import Curvature

_QUIET, _LOUD = 0.4, 2.0  # noise over signal that halves or doubles the batch
_RATE = 0.3  # of the running mean
_RANGE = (-2.0, 4.0)  # of its logarithms: one wild look costs one doubling


@dataclass
class Noise:
    """Noise over signal of the slopes of batches, and the batch size that follows from it.

    Both are measured by what a Newton step along them foretells: noise is what half the difference
    between the slopes of two halves promises, signal what the running average of slopes does.
    """

    least: int  # rows of a batch, below which a step would not cost much less
    most: int
    level: float = 0.0  # running mean of log(noise / signal)
    looks: int = 0

    def fitting(self, size: int, noise: float, signal: float) -> int:
        """The batch size that follows from a look at a batch of `size` rows."""
        if not (noise > 0 and signal > 0):
            return size
        low, high = _RANGE
        measured = min(max(math.log(noise) - math.log(signal), low), high)
        self.looks += 1
        self.level += max(_RATE, 1.0 / self.looks) * (measured - self.level)
        if self.level > math.log(_LOUD) and 2 * size <= self.most:
            self.level -= math.log(2)
            return 2 * size
        if self.level < math.log(_QUIET) and size // 2 >= self.least:
            self.level += math.log(2)
            return size // 2
        return size


def noise_of_batches(size: int, n_rows: int, curvature: Curvature) -> Noise:
    """For batches that begin with `size` rows and may shrink where that saves much of a step.

    They may grow beyond it as long as their rows cost less than solving does.
    """
    least = size if curvature.costly else max(size // 2, 1)
    return Noise(least, min(max(size, curvature.rows_of_a_solve), n_rows))
