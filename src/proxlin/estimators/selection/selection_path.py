"""The path of min (1/sum w) sum_i w_i ||x_i B + b - t_i||_2 + alpha sum_j ||B_j||_2 over alpha."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxlin.exact.linear import LinearResult, solve_linear
from proxlin.prox import norm_subgradient
from proxlin.run.result import Callback
from proxlin.terms import GroupLasso

_SETTLED = 1e-12  # relative norm of a residual that counts as none
_BISECTIONS = 8  # between two strengths of the path, for a wanted number of features


@dataclass(frozen=True, eq=False)
class SelectionPath:
    """What is selected at each strength, the strongest first."""

    alphas: NDArray[np.float64]  # (k,)
    importances: NDArray[np.float64]  # (k, features) ||B_j||_2, exactly 0 where not selected
    objectives: NDArray[np.float64]  # (k,)
    solutions: tuple[LinearResult, ...]  # (k,)

    @classmethod
    def of(cls, points: list[tuple[float, LinearResult]]) -> SelectionPath:
        """The path through these points, in the order of their strengths."""
        ordered = sorted(points, key=lambda point: -point[0])
        solutions = tuple(solution for _, solution in ordered)
        return cls(
            np.array([alpha for alpha, _ in ordered]),
            np.stack([row_norms(solution) for solution in solutions]),
            np.array([solution.objective for solution in solutions]),
            solutions,
        )

    @property
    def supports(self) -> NDArray[np.bool_]:
        """(k, features): which features are selected at each strength."""
        selected: NDArray[np.bool_] = self.importances > 0
        return selected

    def frame(self, names: list[str] | None = None) -> pd.DataFrame:
        """One row for each strength: the importance of every feature."""
        index = pd.Index(self.alphas, name="alpha")
        return pd.DataFrame(self.importances, index=index, columns=names)


class GroupPath:
    """Solutions at falling strengths, each begun at the one before."""

    def __init__(
        self,
        x: Tensor,
        target: Tensor,
        weights: Tensor | None,
        *,
        tol: float,
        max_iter: int | None,
        seconds: float | None,
    ) -> None:
        self.x = x  # (n, m) float64
        self.target = target  # (n, t) float64
        self.weights = weights  # (n,) float64, or None for equal ones
        self.tol = tol
        self.max_iter = max_iter
        self.seconds = seconds
        self.callbacks: Sequence[Callback] = ()  # of every solution
        self.axes = _axes(target)  # (t, n) of the targets' rows, or None if they are not fewer
        self.empty = self._without_features()
        self.strongest = self._strongest()
        self.points: list[tuple[float, LinearResult]] = []

    def solve(self, alpha: float) -> LinearResult:
        """The solution at one strength; the features' rows in it are exactly 0 or selected."""
        near = min(self.points, key=lambda point: abs(point[0] - alpha), default=None)
        solution = None if near is None else self._still_optimal(*near, alpha)
        if solution is None:
            start = None if near is None else (near[1].coef, near[1].intercept)
            solution = self._solve(self.x, GroupLasso(alpha, groups="rows"), start)
        self.points.append((alpha, solution))
        return solution

    def down_to(self, count: int, alphas: NDArray[np.float64]) -> LinearResult:
        """The strongest solution found with at least `count` features, or the weakest of all.

        The strengths are walked until enough features are in, then the last stretch is halved.
        """
        low, high = float(alphas[-1]), self.strongest
        chosen = self.empty
        for alpha in alphas:
            chosen = self.solve(float(alpha))
            if selected(chosen) >= count:
                low = float(alpha)
                break
            high = float(alpha)
        for _ in range(_BISECTIONS if selected(chosen) > count else 0):
            middle = float(np.sqrt(low * high))
            solution = self.solve(middle)
            if selected(solution) >= count:
                low, chosen = middle, solution
            else:
                high = middle
            if selected(chosen) == count:
                break
        return chosen

    def residual(self, solution: LinearResult) -> Tensor:
        """x B + b - t of every row, (n, t)."""
        return self.x @ solution.coef + solution.intercept - self.target

    def _solve(
        self, x: Tensor, penalty: GroupLasso | None, start: tuple[Tensor, Tensor] | None
    ) -> LinearResult:
        target = self.target
        if self.axes is not None:
            target = target @ self.axes
            start = None if start is None else (start[0] @ self.axes, start[1] @ self.axes)
        solution = solve_linear(
            x,
            target,
            p=2,
            regularizer=penalty,
            sample_weight=self.weights,
            tol=self.tol,
            max_iter=self.max_iter,
            max_seconds=self.seconds,
            start=start,
            callbacks=self.callbacks,
        )
        if self.axes is None:
            return solution
        coef, intercept = solution.coef @ self.axes.T, solution.intercept @ self.axes.T
        theta = torch.cat([coef.reshape(-1), intercept])
        return replace(solution, theta=theta, targets=self.target.shape[1])

    def _still_optimal(
        self, before: float, solution: LinearResult, alpha: float
    ) -> LinearResult | None:
        """The solution at a weaker strength if that of a stronger one proves itself there too.

        With loss f and norms g, f/a + g only grows as a falls: f + a g >= (a/b) min (f + b g). Once
        all rows are fitted (f = 0) the strength decides nothing any more.
        """
        proof = solution.certificate
        if alpha > before or proof is None:
            return None
        norms = float(row_norms(solution).sum())
        loss = max(0.0, solution.objective - before * norms)
        objective = loss + alpha * norms
        gap = proof.value + loss * (1.0 - alpha / before) / objective if objective > 0 else 0.0
        if gap > self.tol:
            return None
        proof = replace(proof, value=gap)
        return replace(solution, objective=objective, certificate=proof, iterations=0, seconds=0.0)

    def _without_features(self) -> LinearResult:
        """B = 0 and the geometric median of the targets."""
        nothing = torch.zeros(len(self.target), 1, dtype=self.target.dtype)
        alone = self._solve(nothing, None, None)
        coef = self.x.new_zeros(self.x.shape[1] * self.target.shape[1])
        return replace(alone, theta=torch.cat([coef, alone.intercept]))

    def _strongest(self) -> float:
        """A strength from which on B = 0 is optimal: max_j ||(1/sum w) sum_i w_i x_ij u_i||_2.

        The u_i are slopes of the norms at B = 0 with sum_i w_i u_i = 0, as the intercept demands.
        Rows that lie in the median itself may have any slope of length <= 1 and take what is
        missing; where there are none the strength is the smallest possible one.
        """
        residual = self.empty.intercept - self.target
        length = residual.norm(dim=1)
        weights = torch.ones_like(length) if self.weights is None else self.weights
        exact = length <= _SETTLED * max(float(length.max()), float(self.target.abs().max()))
        slopes = weights[:, None] * norm_subgradient(residual, p=2.0)
        slopes[exact] = 0.0
        if bool(exact.any()):
            share = weights[exact] / weights[exact].sum()
            slopes[exact] = -share[:, None] * slopes.sum(0)
        return float((self.x.T @ slopes / weights.sum()).norm(dim=1).max())


def _axes(target: Tensor) -> Tensor | None:
    """(t, n) orthonormal axes that all rows of the targets lie in; None for as many rows.

    Neither norm sees rotations, and what B and b have across the rows could only lengthen both.
    """
    if len(target) >= target.shape[1]:
        return None
    largest = target.abs().amax(1, keepdim=True)
    rows = target / torch.where(largest > 0, largest, 1.0)  # one far out must not drown the others
    axes: Tensor = torch.linalg.qr(rows.T).Q
    return axes


def row_norms(solution: LinearResult) -> NDArray[np.float64]:
    """||B_j||_2 of each feature, (features,)."""
    norms: NDArray[np.float64] = solution.coef.norm(dim=1).numpy()
    return norms


def selected(solution: LinearResult) -> int:
    """The number of features whose row is not zero."""
    return int((row_norms(solution) > 0).sum())
