"""Covariances of the coefficients of M-estimates, by the formula one asks for.

An M-estimate solves sum_i c_i psi(r_i / s) a_i = 0, r = y - A b. With H = sum_i c_i psi'_i a_i a_i'
and M = sum_i c_i psi_i^2 a_i a_i' its covariance is s^2 H^-1 M H^-1, whatever the spread of the
noise does along the features (Huber 1967). If it does nothing, M and H are multiples of one matrix,
which the other formulas estimate in different ways (Huber 1981, section 7.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from proxlin._checks import check_choice
from proxlin.estimators.robust_scale import EFFICIENT, bisquare_weight
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array, Vector

FORMULAS = ("sandwich", "H1", "H2", "H3", "w")

_LEAST_CURVATURE = 0.2  # of H over its average direction; below, H is too noisy to be inverted
_MOST_LEVERAGE = 0.9
_BLOCK = 1 << 16  # rows of one product


@dataclass(frozen=True, eq=False)
class ScaledDesign:
    """Features by median and quartiles, an intercept before them, and the way back."""

    design: Vector  # (n, k)
    back: Vector  # (1 + features, k): from coefficients of the design to intercept and slopes

    @classmethod
    def of(cls, x: Array, weights: Vector | None, *, intercept: bool) -> ScaledDesign:
        """Sums of squares of columns in their own units would lose digits."""
        scaling = RobustScaling.fit(x, weights)
        center = scaling.center if intercept else np.zeros_like(scaling.center)
        columns = np.asarray((x - center) / scaling.scale, dtype=np.float64)
        slopes = np.diag(1.0 / scaling.scale)
        if not intercept:
            return cls(columns, np.concatenate([np.zeros((1, len(center))), slopes]))
        back = np.zeros((1 + len(center), 1 + len(center)))
        back[0, 0], back[0, 1:], back[1:, 1:] = 1.0, -center / scaling.scale, slopes
        return cls(np.column_stack([np.ones(len(x)), columns]), back)


@dataclass(frozen=True, eq=False)
class MEstimate:
    """One target's fit by Tukey's bisquare at 95 % efficiency, or by least squares.

    Least squares may have each row's probability to be good as weight: w = 1 / (1 + odds exp(u^2 /
    2)), psi = w u, psi' = w (1 - (1 - w) u^2).
    """

    design: Vector  # (n, k)
    residual: Vector  # (n,) target - fit
    scale: float  # s > 0
    count: Vector  # (n,) >= 0, what each row counts
    trust: Vector | None = None  # (n,) w of least squares; None: the bisquare
    given_slope: Vector | None = None  # (n,) psi' by weights of another kind

    @cached_property
    def weight(self) -> Vector:
        """psi(u) / u."""
        if self.trust is not None:
            return self.trust
        return bisquare_weight(self.residual / (EFFICIENT * self.scale))

    @cached_property
    def psi(self) -> Vector:
        """psi(r_i / s)."""
        value: Vector = self.weight * np.where(self.weight > 0, self.residual, 0.0) / self.scale
        return value

    @cached_property
    def slope(self) -> Vector:
        """psi'(r_i / s)."""
        if self.given_slope is not None:
            return self.given_slope
        if self.trust is not None:
            inside = np.where(self.trust > 0, self.residual, 0.0) / self.scale
            return np.asarray(self.trust * (1.0 - (1.0 - self.trust) * inside**2))
        square = np.minimum((self.residual / (EFFICIENT * self.scale)) ** 2, 1.0)
        value: Vector = (1.0 - square) * (1.0 - 5.0 * square)
        return value

    @property
    def freedom(self) -> float:
        """Rows less coefficients, 1 at least."""
        return float(max(1.0, self.count.sum() - self.design.shape[1]))

    def gram(self, weights: Vector) -> Vector:
        """sum_i c_i weights_i a_i a_i'."""
        total = np.zeros((self.design.shape[1],) * 2)
        for first in range(0, len(self.design), _BLOCK):
            part = slice(first, first + _BLOCK)
            rows = self.design[part]
            total += (rows * (self.count[part] * weights[part])[:, None]).T @ rows
        return total

    def mean(self, values: Vector) -> float:
        """The mean over the rows."""
        return float(self.count @ values) / float(self.count.sum())

    @cached_property
    def bread(self) -> Vector:
        """H^-1; where psi' of few rows leaves H without a sign, (mean psi' / mean w) A'WA for H."""
        plain = self.gram(self.slope)
        average = self.gram(self.weight) * max(self.mean(self.slope), 1e-3)
        average /= max(self.mean(self.weight), 1e-3)
        try:
            firm = eigh(plain, average, eigvals_only=True).min() > _LEAST_CURVATURE
        except np.linalg.LinAlgError:
            firm = False
        return inverse_of(plain if firm else average)

    def influence(self) -> Vector:
        """(n, k) s H^-1 psi_i a_i / (1 - h_i): by how much each row has moved the coefficients.

        h_i = psi'_i a_i' H^-1 a_i is what a row takes off its own residual, as in least squares.
        """
        pulled, leverage = self._pulled(slice(None))
        rest = 1.0 - np.minimum(leverage, _MOST_LEVERAGE)
        moved: Vector = pulled * (self.scale * self.psi / rest)[:, None]
        return moved

    def _pulled(self, rows: slice) -> tuple[Vector, Vector]:
        """H^-1 a_i, and the leverage h_i >= 0."""
        pulled = self.design[rows] @ self.bread
        own = self.slope[rows] * (pulled * self.design[rows]).sum(1)
        return pulled, np.maximum(own, 0.0)

    def covariance(self, formula: str = "sandwich") -> Vector:
        """(k, k) by one of `FORMULAS`.

        "sandwich" makes up for leverage as HC3 does (MacKinnon & White 1985) and lets the noise
        spread as it likes; a row that the fit must follow (the only one of its category) has no
        residual to tell its noise by, and counts with that of all rows at least. The others
        suppose one spread: "H1", "H2" and "H3" are those of statsmodels' RLM, "w" is robustbase's
        `.vcov.w`.
        """
        check_choice("errors", formula, FORMULAS)
        k, n = self.design.shape[1], float(self.count.sum())
        level = max(self.mean(self.slope), 1e-3)
        square = self.scale**2 * n * self.mean(self.psi**2) / self.freedom
        if formula == "sandwich":
            common = float(np.sqrt(square)) / (self.scale * level)
            total = np.zeros((self.design.shape[1],) * 2)
            for first in range(0, len(self.design), _BLOCK):
                part = slice(first, first + _BLOCK)
                pulled, leverage = self._pulled(part)
                size = np.abs(self.psi[part]) / (1.0 - np.minimum(leverage, _MOST_LEVERAGE))
                size = np.where(leverage > _MOST_LEVERAGE, np.maximum(size, common), size)
                moved = pulled * (self.scale * size)[:, None]
                total += (moved * self.count[part, None]).T @ moved
            return total
        varied = self.mean((self.slope - level) ** 2)
        correction = 1.0 + k / n * varied / level**2
        if formula == "w":
            unit = self.gram(self.weight) / self.mean(self.weight)
            return np.asarray(square / level**2 * correction**2 * inverse_of(unit))
        plain = self.gram(np.ones(len(self.residual)))
        if formula == "H1":
            return np.asarray(square / level**2 * correction**2 * inverse_of(plain))
        inner = inverse_of(self.gram(self.slope))
        if formula == "H2":
            return np.asarray(square / level * correction * inner)
        return np.asarray(square / correction * inner @ plain @ inner)


def inverse_of(gram: Vector) -> Vector:
    """That of a symmetric matrix, in the directions in which it has one."""
    return np.asarray(np.linalg.pinv(gram, hermitian=True), dtype=np.float64)
