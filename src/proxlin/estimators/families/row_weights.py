"""How far off rows are, by a scale that 40 % of them cannot move, and what they count by that."""

from __future__ import annotations

import numpy as np

from proxlin.estimators.tables import Matrix, Vector

LEAST_SCALE = 1e-9  # of the targets' scale: residuals below it count as none
_FULL, _IGNORED = 2.5, 6.0  # robust deviations: full weight up to there, none beyond
_NORMAL_MAD, _LOOKS = 1.4826, 5


def residual_scale(residuals: Matrix | Vector) -> float:
    """1.4826 times the median size of a residual, taken again without those beyond three of it.

    With 40 % of the rows far out the first look is twice too large, the last one right.
    """
    sizes = np.abs(residuals).ravel()
    scale = _NORMAL_MAD * float(np.median(sizes))
    for _ in range(_LOOKS):
        near = sizes[sizes <= 3 * scale]
        smaller = _NORMAL_MAD * float(np.median(near)) if len(near) else 0.0
        if smaller > 0.99 * scale:
            break
        scale = smaller
    return max(scale, LEAST_SCALE)


def absolute_weights(residuals: Vector, scale: float, *, redescending: bool) -> Vector:
    """Weights by which squares count as absolute errors beyond one deviation.

    Rows that are far off, if `redescending`, lose even that.
    """
    weights: Vector = np.minimum(1.0, scale / np.maximum(np.abs(residuals), 1e-300))
    return weights * redescending_weights(residuals[:, None], scale) if redescending else weights


def redescending_weights(residuals: Matrix, scale: float) -> Vector:
    """Weight of each row by its largest residual: 1 up to 2.5 deviations, 0 beyond 6."""
    score = np.abs(residuals).max(axis=1) / scale
    beyond = np.clip((score - _FULL) / (_IGNORED - _FULL), 0.0, 1.0)
    weights: Vector = (1.0 - beyond**2) ** 2
    return weights
