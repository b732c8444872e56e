"""Scales of residuals that half of the rows cannot move, and the weights that go with them.

The M-scale s of residuals r solves mean rho(r_i / (c s)) = 1/2 with Tukey's bisquare rho, which is
bounded by 1: rows beyond c s count all the same, however far they lie, and s stays finite and
positive while fewer than half of the rows are wrong (Huber 1964; Rousseeuw & Yohai 1984).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Vector = NDArray[np.float64]

HALF = 1.547645  # c at which a half of the rows may be wrong and s is a Gaussian's deviation
EFFICIENT = 4.685061  # c at which a bisquare fit is 95 % efficient at Gaussian noise
INNER = 2.75  # deviations within which 99.4 % of Gaussian rows lie
CUT_VARIANCE = 0.949686  # of a standard Gaussian within INNER
LEAST_SCALE = 1e-9  # of the targets' scale: residuals below it count as none

_STEPS = 60
_SETTLED = 1e-9
_FULL, _IGNORED = 2.5, 6.0  # robust deviations: full weight up to there, none beyond
_NORMAL_MAD, _LOOKS = 1.4826, 5


def bisquare_loss(u: Vector) -> Vector:
    """rho(u) = 1 - (1 - u^2)^3 up to |u| = 1, and 1 beyond."""
    return 1.0 - (1.0 - np.clip(np.abs(u), 0.0, 1.0) ** 2) ** 3


def bisquare_weight(u: Vector) -> Vector:
    """(1 - u^2)^2 up to |u| = 1, and 0 beyond: rho'(u) / 6u."""
    return (1.0 - np.clip(np.abs(u), 0.0, 1.0) ** 2) ** 2


def m_scale(residuals: Vector, weights: Vector | None = None, *, freedom: float = 1.0) -> Vector:
    """The M-scale along the last axis; `freedom` is the share of degrees of freedom, 1 - k/n.

    Rows that k coefficients fit too well are made up for: the mean is taken over n - k. Zero where
    so many residuals are zero that no positive scale solves the equation.
    """
    size = np.abs(residuals)
    mass = (
        np.full(size.shape[-1], 1.0 / size.shape[-1])
        if weights is None
        else weights / weights.sum()
    )
    target = 0.5 * freedom
    # Quantiles bound s up to a factor; Newton's steps for log s take over from there.
    scale = np.quantile(size, 1.0 - target / 2.0, axis=-1) + np.quantile(size, 0.5, axis=-1)
    tiny = np.finfo(np.float64).tiny
    collapsed = (size > 0) @ mass <= target
    scale = np.where(collapsed, 0.0, np.maximum(scale, tiny))
    for _ in range(_STEPS):
        with np.errstate(over="ignore"):
            u = np.minimum(size / np.maximum(HALF * scale, tiny)[..., None], 1.0)
        inside = 1.0 - u * u
        excess = (1.0 - inside**3) @ mass - target
        slope = (6.0 * u * u * inside**2) @ mass  # -s d/ds of the mean
        step = np.clip(excess / np.maximum(slope, 1e-3), -0.7, 1.0)
        step = np.where(collapsed, 0.0, step)
        scale = scale * (1.0 + step)
        if np.all(np.abs(step) < _SETTLED):
            break
    return np.asarray(scale, dtype=np.float64)


def half_scale(residuals: Vector, weights: Vector, *, lost: float) -> float:
    """The deviation of the smaller half of the residuals, as if cut from a Gaussian.

    That of least trimmed squares (Rousseeuw 1984) after a fit that `lost` so many degrees of
    freedom. Where two fifths of the rows are wrong it is twice too large, the M-scale three times.
    """
    used = weights > 0
    order = np.argsort(np.abs(residuals[used]), kind="stable")
    squares, mass = residuals[used][order] ** 2, weights[used][order]
    total, gone = float(mass.sum()), np.cumsum(mass)
    last = min(int(np.searchsorted(gone, (total + lost + 1.0) / 2.0)), len(gone) - 1)
    share = float(gone[last]) / total
    cut = norm.ppf((1.0 + share) / 2.0)
    kept = 1.0 - 2.0 * cut * norm.pdf(cut) / share if share < 1.0 else 1.0  # of the variance
    mean = float(mass[: last + 1] @ squares[: last + 1]) / float(gone[last])
    return float(np.sqrt(mean / kept / max(0.05, 1.0 - lost / total)))


def tau_scale(residuals: Vector, weights: Vector | None = None) -> Vector:
    """s sqrt(mean rho(r / (4.685 s))): as hard to move as the M-scale s, and more efficient."""
    scale = np.maximum(m_scale(residuals, weights), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        loss = bisquare_loss(residuals / (EFFICIENT * scale[..., None]))
    mean = loss.mean(-1) if weights is None else loss @ (weights / weights.sum())
    return np.asarray(scale * np.sqrt(mean), dtype=np.float64)


def inner_scale(
    residuals: Vector, weights: Vector, *, start: float, largest: float, lost: float
) -> float:
    """The deviation of the residuals within 2.75 of it, as if cut from a Gaussian; <= `largest`.

    Many wrong rows raise an M-scale. From it downwards this one ends where the rows that count are
    those that lie within 2.75 of their own deviation. `lost` degrees of freedom are made up for.
    """
    scale = start
    for _ in range(_STEPS):
        inside = np.where(np.abs(residuals) <= INNER * scale, weights, 0.0)
        count = float(inside.sum())
        if count <= lost + 1.0:
            break
        variance = float(inside @ residuals**2) / (count - lost) / CUT_VARIANCE
        new = min(largest, float(np.sqrt(variance)))
        if abs(new - scale) <= _SETTLED * scale:
            break
        scale = new
    return scale


def residual_scale(residuals: Vector) -> float:
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


def redescending_weights(residuals: Vector, scale: float) -> Vector:
    """Weight of each row by its largest residual: 1 up to 2.5 deviations, 0 beyond 6."""
    score = np.abs(residuals).max(axis=1) / scale
    return bisquare_weight(np.maximum((score - _FULL) / (_IGNORED - _FULL), 0.0))
