"""Reweighting: rows that do not fit lose their say, and the fit is found again.

A norm bounds the pull of a bad row but never lets go: with 40 % of the rows on one side the fit
still moves. Weights that fall to zero with the outlier score, applied again and again from a robust
first fit, let go (Hampel 1974; Yohai 1987). Each fit is convex, their sequence follows a bounded
and non-convex loss, so the first fit decides which of its valleys is found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.scores import CUTOFF, OutlierScale
from proxlin.estimators.tables import Array

ROUNDS = 10  # at most
_UNTOUCHED = 1.0  # outlier score up to which a row keeps its full weight
_SETTLED = 0.02  # mean change of the weights that ends the rounds


def row_weights(
    norms: Array, among: NDArray[np.bool_] | None = None, *, size: float = 1.0
) -> NDArray[np.float64]:
    """(1 - ((s - 1) / 2.5)^2)^2 for outlier scores s in [1, 3.5]: 1 below, 0 beyond.

    The scores are counted from the rows `among`, all by default. At least half of those keep their
    full weight: the median has score 0.
    """
    judged = norms if among is None else norms[among]
    scores = OutlierScale.fit(judged, size=size).scores(norms)
    beyond = np.clip((scores - _UNTOUCHED) / (CUTOFF - _UNTOUCHED), 0.0, 1.0)
    weights: NDArray[np.float64] = (1.0 - beyond**2) ** 2
    return weights


def settled(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    """Whether the weights hardly change any more."""
    return float(np.abs(after - before).mean()) < _SETTLED
