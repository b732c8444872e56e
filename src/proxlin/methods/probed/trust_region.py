"""The trust region of the probed method: how far the quadratic is trusted, by its predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

_LEAST_RADIUS, _MOST_RADIUS = 1e-9, 0.05
_LEAST_DAMPING, _MOST_DAMPING = 1e-7, 1.0
_GOOD, _BAD = 0.25, 0.75  # error of the prediction, relative to it, that widens or narrows
_QUICK, _SLOW = 3.0, 1.5  # growth after a perfect prediction and after one that is just good
_ROUNDING = 1e-6  # changes below this part of the loss are not measured


@dataclass
class TrustRegion:
    """Bounds s^T A s by radius * loss, and damps A; both follow the measured predictions."""

    radius: float = 1e-5
    damping: float = 1e-2  # relative to the mean of the diagonal of C
    widest: float = field(default=_MOST_RADIUS, metadata={"fixed": True})

    def judge(
        self, predicted: float, actual: float, form: float, loss: float, rounding: float = 0.0
    ) -> bool:
        """Adapt to a step of quadratic form s^T A s; False says to take it back.

        A loss that fell far more than predicted is a bad prediction, too: the quadratic does not
        hold there, and such leaps end in dead units. `loss` is the scale of changes; those below a
        millionth of it, or below the rounding of what was measured, say nothing.
        """
        bound = form >= 0.99 * self.radius * loss
        least = max(_ROUNDING * loss, rounding)
        scale = max(abs(predicted), 0.5 * form)
        if loss <= 0 or (scale <= least and abs(actual) <= 2 * least):
            self._widen(_SLOW)
            return True
        error = abs(actual - predicted) / max(scale, least)
        if not error <= _BAD:  # NaN is bad too
            self.radius = max(min(self.radius, form / loss) / 2, _LEAST_RADIUS)
            self.damping = min(self.damping * 1.5, _MOST_DAMPING)
            return actual <= 0
        if error < _GOOD and bound:
            self._widen(_QUICK + (_SLOW - _QUICK) * error / _GOOD)
        elif error < _GOOD:
            self.damping = max(self.damping / 1.3, _LEAST_DAMPING)
        return True

    def shortened(self, step: Tensor, form: float, loss: float) -> tuple[Tensor, float]:
        """The step, of quadratic form `form`, cut to the region; between two points of C lies C."""
        allowed = self.radius * loss
        return (step, form) if form <= allowed else (step * math.sqrt(allowed / form), allowed)

    def retreat(self) -> None:
        """Believe the quadratic much less, after a bad stretch."""
        self.radius = max(self.radius / 4, _LEAST_RADIUS)
        self.damping = min(self.damping * 4, _MOST_DAMPING)

    def _widen(self, factor: float) -> None:
        self.radius = min(self.radius * factor, self.widest)


def exact_region() -> TrustRegion:
    """For steps on the whole data, whose change is measured each time: bolder."""
    return TrustRegion(widest=10.0)
