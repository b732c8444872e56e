"""HeldOutError: by which held-out rows compare candidates; wrong rows among them do not decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.robust_scale import residual_scale
from proxlin.estimators.tables import Matrix, Vector

BETTER = 1e-3  # share of the held-out error that a weaker ridge or a further member must save

_EXPLAINED, _CLIP = 3.0, 10.0  # robust deviations of a row that counts, and of its error
_ROUNDS = 12  # of the choice; weights are multiples of its inverse


@dataclass(frozen=True, eq=False)
class HeldOutError:
    """A mean error over the held-out rows that some candidate explains, clipped.

    Rows that no candidate predicts within three deviations do not count; of the others an error
    counts up to ten, so that a candidate which gives the far ends of a skewed target up is seen.
    """

    explained: NDArray[np.bool_]  # (rows, targets)
    scales: Vector  # (targets,) of the narrowest candidate

    @classmethod
    def over(cls, residuals: Sequence[Matrix], floor: float = 0.0) -> HeldOutError:
        """For candidates with these residuals; scales are not below the floor."""
        scales = np.min([[residual_scale(c) for c in part.T] for part in residuals], axis=0)
        scales = np.maximum(scales, floor)
        nearest = np.min([np.abs(part) for part in residuals], axis=0)
        return cls(nearest <= _EXPLAINED * scales, scales)

    def of(self, residuals: Matrix) -> float:
        """The mean over targets of the mean error."""
        clipped = np.minimum(np.abs(residuals), _CLIP * self.scales)
        count = np.maximum(self.explained.sum(axis=0), 1)
        return float((np.where(self.explained, clipped, 0.0).sum(axis=0) / count).mean())


def clipped_mean(residuals: Matrix | Vector, limit: float) -> float:
    """Mean size of the residuals, each counted up to the limit."""
    return float(np.minimum(np.abs(residuals), limit).mean())


def averaging_weights(residuals: dict[str, Matrix], error: HeldOutError) -> dict[str, float]:
    """Greedy: the best family, then again and again the one whose share lowers the error."""
    name = min(residuals, key=lambda family: error.of(residuals[family]))
    picked, total, lowest = [name], residuals[name].copy(), error.of(residuals[name])
    while len(picked) < _ROUNDS:
        tries = {n: error.of((total + r) / (len(picked) + 1)) for n, r in residuals.items()}
        name = min(tries, key=tries.__getitem__)
        if tries[name] > lowest * (1 - BETTER / len(picked)):
            break
        picked.append(name)
        total, lowest = total + residuals[name], tries[name]
    return {n: picked.count(n) / len(picked) for n in residuals if n in picked}
