"""Linear and additive models of scaled columns: a ridge on straight lines or on curves of ramps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.families.huber_ridge import FINE, ROUGH, convex_ridge, robust_ridge
from proxlin.estimators.regression.robust_ridge import row_space
from proxlin.estimators.tables import Matrix, Vector

KNOTS = 12  # ramps of a column, at most
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4)  # of the ridge, strong first

_ROWS_A_KNOT = 25
STRAIGHT = 3.0  # times the number beside its ramps, so that its slope is charged a ninth
_TAIL = 0.01  # share of the cells beyond the outer quantiles
_REACH = 1.0  # ranges between the outer quantiles that the last ramps may go beyond them
_CHUNK = 32_768  # rows of one prediction


@dataclass(frozen=True, eq=False)
class Ramps:
    """Each number as ramps between quantiles: the k-th rises from 0 to 1 from knot k to knot k + 1.

    Three times the number, cut at the outer knots, stands beside them: a straight line costs one
    cheap coefficient, and a ridge takes curves back to it. A column without knots stays as it is.
    """

    knots: tuple[Vector, ...]

    @classmethod
    def fit(cls, x: Matrix, curved: NDArray[np.bool_]) -> Ramps:
        """Knots at the quantiles of the columns that may be curved.

        The outer knots take in cells beyond the outer quantiles, but none that lie far out.
        """
        count = max(2, min(KNOTS, len(x) // _ROWS_A_KNOT))
        shares = np.linspace(_TAIL, 1 - _TAIL, count + 1)
        knots = []
        for column, bent in zip(x.T, curved, strict=True):
            inner = np.empty(0)
            if bent:
                inner = np.unique(np.quantile(column, shares, method="inverted_cdf"))
            if len(inner) < 3:
                knots.append(np.empty(0))
                continue
            reach = _REACH * (inner[-1] - inner[0])
            near = column[(column >= inner[0] - reach) & (column <= inner[-1] + reach)]
            knots.append(np.unique([near.min(), *inner[1:-1], near.max()]))
        return cls(tuple(knots))

    @cached_property
    def owners(self) -> NDArray[np.intp]:
        """The column that each ramp comes from."""
        widths = [max(1, len(knots)) for knots in self.knots]
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def curved(self) -> list[tuple[int, int]]:
        """The columns with knots, and the first ramp of each."""
        columns = [j for j, knots in enumerate(self.knots) if len(knots)]
        return list(zip(columns, np.searchsorted(self.owners, columns).tolist(), strict=True))

    def apply(self, x: Matrix) -> Matrix:
        """(rows, ramps)."""
        ramps = np.array(x[:, self.owners] if self.curved else x, dtype=np.float64)
        for j, first in self.curved:
            k, last = self.knots[j], first + len(self.knots[j]) - 1
            column = x[:, j, None]
            ramps[:, first:last] = np.clip((column - k[:-1]) / np.diff(k), 0.0, 1.0)
            ramps[:, last] = STRAIGHT * np.clip(column[:, 0], k[0], k[-1])
        return ramps

    def product(self, x: Matrix, coef: Matrix) -> Matrix:
        """apply(x) @ coef without a copy of the columns that stay as they are."""
        bent = np.array([j for j, _ in self.curved], dtype=np.intp)
        own = np.isin(self.owners, bent)
        straight = np.zeros((x.shape[1], coef.shape[1]))
        straight[self.owners[~own]] = coef[~own]
        product: Matrix = x @ straight
        if len(bent):
            product += Ramps(tuple(self.knots[j] for j in bent)).apply(x[:, bent]) @ coef[own]
        return product

    def state(self) -> dict[str, Any]:
        """Arrays."""
        lengths = np.array([len(knots) for knots in self.knots])
        return {"knots": np.concatenate([np.empty(0), *self.knots]), "lengths": lengths}

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> Ramps:
        """What `state` took apart."""
        ends = np.cumsum(arrays["lengths"])
        if len(arrays["knots"]) != (ends[-1] if len(ends) else 0):
            raise ValueError("the knots are not as many as their lengths say")
        return cls(tuple(np.split(arrays["knots"], ends[:-1])))


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """z = intercept + sum_j curve_j(x_j); every curve is straight in a linear model."""

    ramps: Ramps
    coef: Matrix  # (ramps, targets)
    intercept: Vector  # (targets,)
    strength: float
    redescending: bool  # whether rows far out lose their weight, or count as in an absolute error
    gap: float  # how far the objective is from its minimum at most, relative; rows as weighted
    levels: float = 1.0  # allowance of the levels of categories
    focus: float = 0.0  # power of a column's rank correlation with the target in its allowance

    @classmethod
    def path(
        cls,
        x: Matrix,
        z: Matrix,
        ramps: Ramps,
        strengths: Sequence[float] = STRENGTHS,
        *,
        redescending: bool = True,
        allowance: Vector | None = None,
        floor: float = 0.0,
        fine: bool = False,
    ) -> Iterator[AdditiveModel]:
        """One model for each strength of the ridge, each begun at the one before.

        A column of x with allowance a is charged strength/a^2. No scale of residuals is taken for
        less than the floor.
        """
        rows = ramps.apply(x)
        width = np.ones(rows.shape[1]) if allowance is None else allowance[ramps.owners]
        rows *= width
        basis = row_space(rows, least=1e-12)
        inside = rows if basis is None else rows @ basis
        start: Matrix | None = None
        tol = FINE if fine else ROUGH
        for strength in strengths:
            if redescending:
                start, gap = robust_ridge(inside, z, strength, start, tol=tol, floor=floor)
            else:
                start, gap = convex_ridge(inside, z, strength, start, tol=tol, floor=floor)
            coef = start[:-1] if basis is None else basis @ start[:-1]
            coef = coef * width[:, None]
            yield cls(ramps, coef, start[-1], strength, redescending, gap)

    def predict(self, x: Matrix) -> Matrix:
        """(rows, targets)."""
        parts = [
            self.ramps.product(x[first : first + _CHUNK], self.coef) + self.intercept
            for first in range(0, len(x), _CHUNK)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self.intercept)))

    def effects(self, x: Matrix, columns: NDArray[np.intp]) -> Matrix:
        """What these columns together add to each row's prediction: (rows, targets)."""
        some = Ramps(tuple(self.ramps.knots[j] for j in columns))
        return some.apply(x[:, columns]) @ self.coef[np.isin(self.ramps.owners, columns)]

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Plain values and arrays."""
        arrays = self.ramps.state() | {"coef": self.coef, "intercept": self.intercept}
        names = ("strength", "redescending", "gap", "levels", "focus")
        return {name: getattr(self, name) for name in names}, arrays

    @classmethod
    def restore(cls, values: dict[str, Any], arrays: dict[str, Any]) -> AdditiveModel:
        """What `state` took apart."""
        ramps = Ramps.restore(arrays)
        if arrays["coef"].shape != (len(ramps.owners), len(arrays["intercept"])):
            raise ValueError("the coefficients are not as many as the ramps")
        names = ("strength", "redescending", "gap", "levels", "focus")
        return cls(ramps, arrays["coef"], arrays["intercept"], *(values[name] for name in names))
