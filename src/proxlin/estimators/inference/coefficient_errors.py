"""Standard errors of the coefficients of a linear fit, by a formula or by repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from proxlin.estimators.inference.bootstrap import fast_bootstrap
from proxlin.estimators.inference.quantile_errors import quantile_covariance, quantile_refit
from proxlin.estimators.inference.standard_errors import MEstimate, ScaledDesign
from proxlin.estimators.tables import Array, Vector

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class FittedLine:
    """A linear fit with its rows: what the errors of its coefficients are made of."""

    x: Array  # (n, features)
    y: Array  # (n, outputs)
    fitted: Array  # (n, outputs)
    count: Vector  # (n,) >= 0, how often each row is there
    row_weights: Vector  # (n,) what each counted, the mean over the outputs
    worth: Vector | None  # (n,) both together, by which columns are scaled; None: all alike
    intercept: bool
    trust: Vector | None  # (n, outputs) what each cell counted; None: as its row did
    slope: Vector | None  # (n, outputs) of psi(r) = trust r; NaN where errors are not known
    scale: Vector  # (outputs,)
    levels: Sequence[float] | None = None  # of the outputs of each target, if they are quantiles

    @cached_property
    def design(self) -> ScaledDesign:
        """Columns in units of the rows that count: wrong features far out move quartiles."""
        return ScaledDesign.of(self.x, self.worth, intercept=self.intercept)

    def errors(self, formula: str) -> Vector:
        """(outputs, 1 + features), the intercept's first; NaN where none are known."""
        if self.levels is not None:
            return self._quantile_errors(formula, self.levels)
        unknown = np.full(len(self.design.back), np.nan)
        return np.stack([
            unknown if fit is None else self._deviations(fit.covariance(formula))
            for fit in self._estimates
        ])  # fmt: skip

    def influence(self, output: int) -> Vector | None:
        """(n, 1 + features) by how many standard errors each row moved a coefficient."""
        fit = self._estimates[output]
        if fit is None:
            return None
        moved: Vector = fit.influence() @ self.design.back.T
        moved /= np.maximum(np.sqrt((moved**2).sum(axis=0)), _TINY)
        return moved

    def bootstrapped(
        self,
        coverage: float,
        repeats: int,
        generator: np.random.Generator,
        tell: Callable[[float], None],
    ) -> tuple[Vector, Vector]:
        """Errors (outputs, 1 + features), and quantiles (2, ...) of what the repeats add."""
        fits, back = self._estimates, self.design.back
        errors = np.full((len(fits), len(back)), np.nan)
        reach = np.full((2, len(fits), len(back)), np.nan)
        for j, fit in enumerate(fits):
            if fit is None:
                continue

            def tell_of_all(share: float, done: int = j) -> None:
                tell((done + share) / len(fits))

            moved = fast_bootstrap(fit, repeats, generator, tell_of_all) @ back.T
            errors[j] = moved.std(axis=0, ddof=1)
            reach[:, j] = np.quantile(moved, (0.5 - coverage / 2, 0.5 + coverage / 2), axis=0)
        return errors, reach

    @cached_property
    def _estimates(self) -> list[MEstimate | None]:
        """The fit of each output; None by a ridge, or without rows that could be judged."""
        design, count = self.design.design, self.count
        residual = np.where(count[:, None] > 0, self.y - self.fitted, 0.0)
        if self.trust is None or self.slope is None:
            trust = self.row_weights
            freedom = max(1.0, count @ trust - design.shape[1])
            scales = np.sqrt(np.maximum((count * trust) @ residual**2 / freedom, _TINY))
            used, pairs = np.where(trust > 0, count, 0.0), zip(residual.T, scales, strict=True)
            return [MEstimate(design, column, s, used, trust) for column, s in pairs]
        columns = zip(residual.T, self.trust.T, self.scale, self.slope.T, strict=True)
        return [
            None
            if np.isnan(slope).any()
            else MEstimate(design, column, scale, np.where(trust > 0, count, 0.0), trust, slope)
            for column, trust, scale, slope in columns
        ]

    def _quantile_errors(self, formula: str, levels: Sequence[float]) -> Vector:
        """The same for quantiles, each of them and its neighbours fitted by the solver."""
        if formula == "sandwich" and not self.intercept:
            formula = "ker"  # two neighbouring quantiles through zero cross there
        count = self.count * self.row_weights
        used, errors = count > 0, []
        design, count = self.design.design[used], count[used]
        for j, (target, fitted) in enumerate(zip(self.y[used].T, self.fitted[used].T, strict=True)):
            covariance = quantile_covariance(
                design, target - fitted, levels[j % len(levels)], count, formula=formula,
                refit=quantile_refit(design, target, count, self.intercept),
            )  # fmt: skip
            errors.append(self._deviations(covariance))
        return np.stack(errors)

    def _deviations(self, covariance: Vector) -> Vector:
        """Of intercept and slopes, from the covariance of the design's coefficients."""
        back = self.design.back
        return np.asarray(np.sqrt(np.einsum("ij,jk,ik->i", back, covariance, back)))
