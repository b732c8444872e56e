"""Measures of predictions that a minority of wrong test rows cannot turn around."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from proxlin._checks import check_choice
from proxlin.errors import InvalidInputError
from proxlin.estimators.robust_scale import Vector, tau_scale
from proxlin.estimators.tables import our_errors, read_weights


def robust_r2_score(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    multioutput: str = "uniform_average",
) -> Any:
    """1 - (tau(y - prediction) / tau(y - median))^2, the mean over targets.

    R^2 with a robust scale in place of the standard deviation: the same for Gaussian errors, and
    hardly moved while fewer than half of the rows are wrong. 1 is perfect, 0 no better than the
    median, below 0 worse. Where more than half of the targets are one value, absolute values take
    the place of the scale. "raw_values" gives one score a target.

    >>> y = np.arange(10.0)
    >>> wrong = y.copy()
    >>> wrong[:2] = 1e9
    >>> round(robust_r2_score(wrong, y), 3)
    1.0
    """
    check_choice("multioutput", multioutput, ("uniform_average", "raw_values"))
    with our_errors():
        true, predicted = (np.asarray(values, dtype=np.float64) for values in (y_true, y_pred))
    if true.shape != predicted.shape or not true.size or not true.ndim:
        raise InvalidInputError(
            "y_true and y_pred must have the same shape and at least one row; got"
            f" {true.shape} and {predicted.shape}."
        )
    true, predicted = true.reshape(len(true), -1), predicted.reshape(len(true), -1)
    if not (np.isfinite(true).all() and np.isfinite(predicted).all()):
        raise InvalidInputError("y_true and y_pred must not hold NaN or infinity; some cells do.")
    weights = read_weights(sample_weight, true)
    scores = np.array([_score(y, f, weights) for y, f in zip(true.T, predicted.T, strict=True)])
    return scores if multioutput == "raw_values" else float(scores.mean())


def _score(y: Vector, predicted: Vector, weights: Vector | None) -> float:
    used = np.ones(len(y), dtype=bool) if weights is None else weights > 0
    middle = float(np.median(y[used]))
    left, all_of_it = y - predicted, y - middle
    spread = float(tau_scale(all_of_it, weights))
    if spread > 1e-12 * float(np.abs(all_of_it).max(initial=0.0)):
        return 1.0 - (float(tau_scale(left, weights)) / spread) ** 2
    mass = used.astype(float) if weights is None else weights
    total = float(mass @ np.abs(all_of_it))
    missed = float(mass @ np.abs(left))
    if total == 0.0:
        return 1.0 if missed == 0.0 else 0.0
    return 1.0 - (missed / total) ** 2


robust_r2_scorer = make_scorer(robust_r2_score)
