"""How many rows a batch has: few while its halves agree on the slope, more when they do not."""

from __future__ import annotations

import math
from dataclasses import dataclass

_QUIET, _LOUD = 0.4, 2.0  # noise over signal that halves or doubles the batch
_RATE = 0.3  # of the running mean
_RANGE = (-2.0, 4.0)  # of its logarithms: no single look decides


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
