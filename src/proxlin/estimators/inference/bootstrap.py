"""The fast and robust bootstrap: repeats of a fit for the price of one weighted gram matrix each.

Rows drawn anew would often hold more wrong ones than the table, and each repeat would search from
the beginning. Instead (Salibian-Barrera & Zamar 2002) the estimate is written as a fixed point
theta = g(theta), theta = (b, s); on drawn rows one step g* is taken from the estimate, and
(I - g')^-1 makes up for the steps that are missing. Rows with and without weight are drawn apart,
so that no repeat holds more wrong rows than the table does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from proxlin.estimators.inference.standard_errors import MEstimate, inverse_of
from proxlin.estimators.robust_scale import CUT_VARIANCE, INNER
from proxlin.estimators.tables import Vector

_NUDGE = 0.05  # of the scale, over which its own step is differentiated
_NUMBERS = 4e6  # drawn at a time


def fast_bootstrap(
    fit: MEstimate,
    repeats: int,
    generator: np.random.Generator,
    tell: Callable[[float], None] = lambda share: None,
) -> Vector:
    """(repeats, k) what each repeat adds to the coefficients; `tell` hears of the share done.

    The one step is b* = (A' C* W A)^-1 A' C* W y and s* the deviation of the drawn rows within 2.75
    s, with C* how often each row was drawn and W the weights at the estimate.
    """
    used = np.flatnonzero(fit.count > 0)
    design, residual, weight = fit.design[used], fit.residual[used], fit.weight[used]
    count, k = fit.count[used], design.shape[1]
    strata = [np.flatnonzero(part) for part in (weight > 0, weight == 0) if part.any()]
    pairs = (weight[:, None] * design)[:, :, None] * design[:, None, :]
    pairs = pairs.reshape(len(used), k * k)
    moments = (weight * residual)[:, None] * design
    inside = (np.abs(residual) <= INNER * fit.scale).astype(np.float64)
    squares = np.stack([inside, inside * residual**2], axis=1)
    back = np.linalg.pinv(np.eye(k + 1) - _derivative(fit))
    steps, block = np.empty((repeats, k + 1)), max(1, int(_NUMBERS / len(used)))
    for first in range(0, repeats, block):
        drawn = np.zeros((min(block, repeats - first), len(used)))
        for rows in strata:
            total = round(float(count[rows].sum()))
            drawn[:, rows] = generator.multinomial(
                total, count[rows] / count[rows].sum(), size=len(drawn)
            )
        grams = (drawn @ pairs).reshape(-1, k, k)
        grams += 1e-13 * np.trace(grams, axis1=1, axis2=2)[:, None, None] * np.eye(k) / k
        part = slice(first, first + len(drawn))
        steps[part, :k] = np.linalg.solve(grams, (drawn @ moments)[..., None])[..., 0]
        held, sums = (drawn @ squares).T
        variance = sums / np.maximum(held - k, 1.0) / CUT_VARIANCE
        steps[part, k] = np.sqrt(variance) - _scale_step(fit, fit.scale)
        tell((first + len(drawn)) / repeats)
    # Residuals of a fit are too small by (n - k) / n on average.
    widened: Vector = (steps @ back.T)[:, :k] * np.sqrt(fit.count.sum() / fit.freedom)
    return widened


def _derivative(fit: MEstimate) -> Vector:
    """g' (k + 1, k + 1) at the estimate."""
    k = fit.design.shape[1]
    inverse = inverse_of(fit.gram(fit.weight))
    whole = np.zeros((k + 1, k + 1))
    # b = (A'WA)^-1 A'Wy with W of b and s: d(w r) = -(psi' - w) a'db - (psi' - w) r/s ds.
    bent = fit.weight - fit.slope
    whole[:k, :k] = inverse @ fit.gram(bent)
    whole[:k, k] = inverse @ (fit.design.T @ (fit.count * bent * fit.residual)) / fit.scale
    inside = np.abs(fit.residual) <= INNER * fit.scale
    held = max(float(fit.count @ inside) - k, 1.0)
    pulled = fit.design.T @ (fit.count * inside * fit.residual)
    whole[k, :k] = -pulled / (held * CUT_VARIANCE * fit.scale)
    up, down = (_scale_step(fit, fit.scale * (1 + nudge)) for nudge in (_NUDGE, -_NUDGE))
    whole[k, k] = np.clip((up - down) / (2 * _NUDGE * fit.scale), 0.0, 0.9)
    return whole


def _scale_step(fit: MEstimate, scale: float) -> float:
    """The deviation of the rows within 2.75 of a scale."""
    inside = fit.count * (np.abs(fit.residual) <= INNER * scale)
    freedom = max(float(inside.sum()) - fit.design.shape[1], 1.0)
    return float(np.sqrt(inside @ fit.residual**2 / freedom / CUT_VARIANCE))
