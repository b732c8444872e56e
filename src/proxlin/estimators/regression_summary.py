"""RegressionSummary: coefficients of a linear robust fit with what is known of their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from proxlin.run.result import Result


@dataclass(frozen=True, eq=False)
class RegressionSummary:
    """What `RobustRegressor.summary` returns: print it, or take `frame()`.

    Standard errors are those of the bisquare fit at its final weights and scale (Huber 1981), of
    the kind that R's `lmrob(setting = "KS2014")` computes: right for noise whose spread does not
    depend on the features.
    """

    names: tuple[str, ...]  # of the coefficients, the intercept first
    targets: tuple[str, ...]
    coefficients: NDArray[np.float64]  # (targets, coefficients)
    errors: NDArray[np.float64]  # the same shape; NaN where a ridge makes them meaningless
    scale: NDArray[np.float64]  # (targets,)
    row_weights: NDArray[np.float64]  # (n,)
    score: NDArray[np.float64]  # (targets,) robust R2 of the training rows
    result: Result
    coverage: float = 0.95

    def frame(self) -> pd.DataFrame:
        """One row for each target and coefficient: estimate, error, t, p value, interval."""
        freedom = max(1.0, float(self.row_weights.sum()) - len(self.names))
        reach = student.ppf(0.5 + self.coverage / 2, freedom) * self.errors
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.coefficients / self.errors
        columns = {
            "coef": self.coefficients,
            "error": self.errors,
            "t": ratio,
            "p": 2 * student.sf(np.abs(ratio), freedom),
            "low": self.coefficients - reach,
            "high": self.coefficients + reach,
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
        part = int(((weights > 0) & (weights < 0.5)).sum())
        return "\n".join(
            [self.frame().to_string(float_format="{:.4g}".format), *facts,
             f"{lost}; {part} for less than half", str(self.result)]
        )  # fmt: skip
