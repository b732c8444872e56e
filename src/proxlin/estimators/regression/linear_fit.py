"""The linear model of RobustRegressor: solved to proven optimality, at a chosen strength."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proxlin.errors import InvalidInputError
from proxlin.estimators.estimator_settings import named_regularizer
from proxlin.estimators.tables import Array, as_array, as_tensor
from proxlin.exact.linear import LinearResult, solve_linear
from proxlin.problem.loss import Exponent, RowLoss
from proxlin.run.result import Result
from proxlin.terms import Constraint, GroupLasso, Regularizer

STRENGTHS = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # tried for alpha="auto", strong first
_FOLDS = 3
_PARTS, _PARTS_OF_MANY = 10, 3  # of rows left out in turn
_MANY = 1e9  # multiplications of a fit
_TOLERANCE = 1e-8  # relative distance from the optimum that counts as reached
_ROUGH = 1e-3  # the same while strengths or weights are compared
_ROUGH_STEPS = 40
_SPANNED = 1e-14  # squared singular values below this share of the largest count as zero
_SAME = 1e-9  # relative change of the fitted values that is mere rounding


@dataclass(frozen=True, eq=False)
class LinearFit:
    """One linear problem: data in the units in which the loss is meant, and the solver's limits."""

    p: Exponent
    regularizer: str | Regularizer | None
    alpha: float | str
    constraint: Constraint | None
    fit_intercept: bool
    tol: float | None = None
    max_iter: int | None = None
    max_seconds: float | None = None

    def solve(
        self,
        x: Array,
        y: Array,
        weights: NDArray[np.float64] | None,
        *,
        start: tuple[Array, Array] | None,
        seed: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, Result]:
        """Coefficients (targets, features), intercepts (targets,), strength, and the run."""
        basis = self._basis(x)
        if basis is not None:
            x = x @ basis
            start = None if start is None else (start[0] @ basis, start[1])
        strength = self._strength(x, y, weights, seed)
        solution = self._at(strength, (x, y, weights), start)
        coef, offset = as_array(solution.coef).T.copy(), as_array(solution.intercept)
        if self.constraint is None and linear_regularizer(self.regularizer, strength) is None:
            used = x if weights is None else x[weights > 0]
            coef, offset = _least_norm(coef, offset, used, free=self.fit_intercept)
        return coef if basis is None else coef @ basis.T, offset, strength, solution

    def roughly(self) -> LinearFit:
        """The same problem to three digits, for what is only compared."""
        return replace(self, tol=max(self.tol or 0.0, _ROUGH), max_iter=_ROUGH_STEPS)

    def left_out(
        self,
        x: Array,
        y: Array,
        weights: NDArray[np.float64] | None,
        *,
        strength: float,
        seed: int,
    ) -> NDArray[np.float64]:
        """(n, targets) residuals of rows from fits at this strength without a part of the rows.

        There are ten parts of the rows that count, or three of many; the others are in no fit. All
        fits together take as long as one may.
        """
        used = np.arange(len(x)) if weights is None else np.flatnonzero(weights > 0)
        many = len(x) * min(x.shape) ** 2 > _MANY
        parts = min(len(used), _PARTS_OF_MANY if many else _PARTS)
        seconds = None if self.max_seconds is None else self.max_seconds / parts
        rough = replace(self, alpha=strength, max_seconds=seconds).roughly()
        part_of = np.arange(len(x)) % parts
        part_of[used] = np.random.default_rng(seed).permutation(len(used)) % parts
        residual = np.empty(y.shape)
        for part in range(parts):
            held = part_of == part
            kept = used if parts == 1 else used[~held[used]]  # a single row has to fit itself
            own = None if weights is None else weights[kept]
            coef, offset, _, _ = rough.solve(x[kept], y[kept], own, start=None, seed=seed)
            residual[held] = y[held] - x[held] @ coef.T - offset
        return residual

    def _basis(self, x: Array) -> Array | None:
        """Orthonormal columns that span the rows, where they are fewer than the features.

        Neither no regulariser nor a ridge has a use for coefficients outside the span; without
        them the systems to solve are no larger than the rows are many.
        """
        plain = self.regularizer in (None, "ridge") and self.constraint is None
        if not plain or x.shape[1] <= len(x):
            return None
        values, vectors = np.linalg.eigh(np.asarray(x @ x.T, dtype=np.float64))
        kept = values > _SPANNED * values.max(initial=0.0)
        basis: Array = x.T @ (vectors[:, kept] / np.sqrt(values[kept]))
        return basis

    def _at(
        self,
        strength: float,
        data: tuple[Array, Array, NDArray[np.float64] | None],
        start: tuple[Array, Array] | None,
    ) -> LinearResult:
        x, y, weights = data
        g = linear_regularizer(self.regularizer, strength)
        begin = None if start is None else (_double(start[0].T), _double(start[1]))
        return solve_linear(
            _double(x),
            _double(y),
            p=self.p,
            regularizer=g,
            constraint=self.constraint,
            fit_intercept=self.fit_intercept,
            sample_weight=None if weights is None else _double(weights),
            tol=self.tol or _TOLERANCE,
            max_iter=self.max_iter,
            max_seconds=self.max_seconds,
            start=begin,
        )

    def _strength(
        self, x: Array, y: Array, weights: NDArray[np.float64] | None, seed: int
    ) -> float:
        """`alpha`, or the strength whose held-out rows have the smallest median loss.

        The median and not the mean: held-out rows are as dirty as the others. Rows without a weight
        are no judges.
        """
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        if self.alpha != "auto":
            raise InvalidInputError(f'alpha must be a number >= 0 or "auto"; got {self.alpha!r}.')
        if not isinstance(self.regularizer, str):
            raise InvalidInputError(
                'alpha="auto" needs a regularizer by name, such as "ridge"; got'
                f" {self.regularizer!r}."
            )
        if weights is not None:
            judges = weights > 0
            x, y, weights = x[judges], y[judges], weights[judges]
        if len(x) < 2 * _FOLDS:
            return STRENGTHS[len(STRENGTHS) // 2]
        folds = np.random.default_rng(seed).permutation(len(x)) % _FOLDS
        loss = RowLoss(self.p)
        losses: list[list[Any]] = [[] for _ in STRENGTHS]
        rough = self.roughly()
        for fold in range(_FOLDS):
            held = folds == fold
            kept = None if weights is None else weights[~held]
            start: tuple[Array, Array] | None = None
            for number, strength in enumerate(STRENGTHS):
                found = rough._at(strength, (x[~held], y[~held], kept), start)
                start = (as_array(found.coef).T, as_array(found.intercept))
                residual = _double(x[held]) @ found.coef + found.intercept - _double(y[held])
                losses[number].append(loss(residual).numpy())
        middle = [np.median(np.concatenate(parts)) for parts in losses]
        return STRENGTHS[int(np.argmin(middle))]


def linear_regularizer(regularizer: str | Regularizer | None, alpha: float) -> Regularizer | None:
    """g on the coefficients (features, targets): the groups of "group" are features, its rows."""
    if regularizer == "group":
        named = named_regularizer(regularizer, alpha, None)
        assert isinstance(named, GroupLasso)
        return GroupLasso(named.weight, groups="rows")
    return named_regularizer(regularizer, alpha, None)


def _least_norm(coef: Array, intercept: Array, rows: Array, *, free: bool) -> tuple[Array, Array]:
    """The coefficients of least norm among those that fit these rows in the same way.

    Columns that depend on each other, or more of them than rows, leave the coefficients open; this
    choice does not depend on how often or in which order the rows come.
    """
    middle = rows.mean(axis=0) if free else np.zeros(rows.shape[1])
    moved = rows - middle
    values, vectors = np.linalg.eigh(moved.T @ moved)
    spanned = vectors[:, values > _SPANNED * values.max(initial=0.0)]
    shorter = coef @ spanned @ spanned.T
    lost = np.abs(moved @ (coef - shorter).T).max(initial=0.0)
    if spanned.shape[1] == len(values) or lost > _SAME * np.abs(moved @ coef.T).max(initial=0.0):
        return coef, intercept
    return shorter, intercept + (coef - shorter) @ middle if free else intercept


def _double(array: Array) -> torch.Tensor:
    return as_tensor(np.asarray(array), dtype=torch.float64)
