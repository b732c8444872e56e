"""RegressionSummary: coefficients of a linear robust fit with what is known of their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from proxlin.run.result import Result

_FORMULAS = {
    "sandwich": "sandwich, for noise of any spread",
    "H1": "H1 of statsmodels' RLM, for noise of one spread",
    "H2": "H2 of statsmodels' RLM, for noise of one spread",
    "H3": "H3 of statsmodels' RLM, for noise of one spread",
    "w": "robustbase's .vcov.w, for noise of one spread",
    "nid": "quantreg's nid, for noise of any spread",
    "iid": "quantreg's iid, for noise of one spread",
    "ker": "quantreg's ker, for noise of any spread",
    "epa": "statsmodels' QuantReg, for noise of one density",
    "bootstrap": "fast and robust bootstrap, for noise of any spread",
}


@dataclass(frozen=True, eq=False)
class RegressionSummary:
    """What `RobustRegressor.summary` returns: print it, or take `frame()`."""

    names: tuple[str, ...]  # of the coefficients, the intercept first
    targets: tuple[str, ...]
    coefficients: NDArray[np.float64]  # (targets, coefficients)
    errors: NDArray[np.float64]  # the same shape; NaN where a ridge makes them meaningless
    scale: NDArray[np.float64]  # (targets,)
    row_weights: NDArray[np.float64]  # (n,)
    score: NDArray[np.float64]  # (targets,) robust R2 of the training rows
    result: Result
    coverage: float = 0.95
    formula: str = "sandwich"
    repeats: NDArray[np.float64] | None = None  # (2, targets, coefficients) a bootstrap's quantiles

    def frame(self) -> pd.DataFrame:
        """One row for each target and coefficient: estimate, error, t, p value, interval."""
        freedom = max(1.0, float(self.row_weights.sum()) - len(self.names))
        reach = student.ppf(0.5 + self.coverage / 2, freedom) * self.errors
        ends = np.stack([-reach, reach])
        if self.repeats is not None:
            ends = -self.repeats[::-1]  # what repeats add to the estimate, it has of the truth
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.coefficients / self.errors
        columns = {
            "coef": self.coefficients,
            "error": self.errors,
            "t": ratio,
            "p": 2 * student.sf(np.abs(ratio), freedom),
            "low": self.coefficients + ends[0],
            "high": self.coefficients + ends[1],
        }
        index = pd.MultiIndex.from_product([self.targets, self.names], names=["target", "name"])
        return pd.DataFrame({name: values.reshape(-1) for name, values in columns.items()}, index)

    def __str__(self) -> str:
        weights = self.row_weights
        none = np.flatnonzero(weights == 0)
        rows = ", ".join(map(str, none[:10])) + (", ..." if len(none) > 10 else "")
        facts = [
            f"{name}: scale {scale:.4g}, robust R2 {score:.4g}"
            for name, scale, score in zip(self.targets, self.scale, self.score, strict=True)
        ]
        lost = f"{len(none)} of {len(weights)} rows count for nothing" + (
            f": {rows}" if rows else ""
        )
        unknown = np.isnan(self.errors).any(axis=1)
        facts += [
            f"{name}: no errors are known of a fit by a ridge or by least absolute residuals"
            for name in np.array(self.targets)[unknown]
        ]
        part = int(((weights > 0) & (weights < 0.5)).sum())
        return "\n".join(
            [self.frame().to_string(float_format="{:.4g}".format),
             f"errors by the {_FORMULAS[self.formula]}; intervals of {self.coverage:.0%}", *facts,
             f"{lost}; {part} for less than half", str(self.result)]
        )  # fmt: skip
