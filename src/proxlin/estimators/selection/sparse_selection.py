"""The path of feature selection on a sparse table: solved on few columns, proven on all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array
from torch import Tensor

from proxlin.errors import MemoryBudgetError
from proxlin.estimators.selection.selection_path import GroupPath
from proxlin.exact.linear import LinearResult
from proxlin.prox import norm_subgradient
from proxlin.terms import GroupLasso

_ALLOWED = 1e-4  # share of alpha by which a column outside may exceed it
_ROUNDS = 30
_ADDED = 32  # columns at least, each round
_MOST_BYTES = 2 << 30  # of the columns that are made dense
_INTERPOLATED = 1e-7  # of the median residual: rows that the solution passes through


class SparseGroupPath(GroupPath):
    """Solutions at falling strengths, each on the columns that its optimality asks for.

    A column may stay out while ||(1/n) sum_i x_ij u_i||_2 <= alpha, with u_i the slopes of the
    row norms at the solution (the optimality condition of B_j = 0). Those beyond are let in, the
    worst first, until there is none. What they exceed alpha by at the end, as a share of it, is
    added to the certificate: scaled down by it the slopes are a dual point of the whole problem.
    """

    def __init__(
        self,
        table: csr_array,
        target: Tensor,
        *,
        tol: float,
        max_iter: int | None,
        seconds: float | None,
    ) -> None:
        self.table = csc_array(table)
        nothing = torch.zeros(table.shape[0], 0, dtype=torch.float64)
        super().__init__(nothing, target, None, tol=tol, max_iter=max_iter, seconds=seconds)

    def solve(self, alpha: float) -> LinearResult:
        """The solution at one strength over all columns."""
        near = min(self.points, key=lambda point: abs(point[0] - alpha), default=None)
        before = self.empty if near is None else near[1]
        coef, intercept = before.coef.numpy(), before.intercept
        inside = np.flatnonzero(np.linalg.norm(coef, axis=1) > 0)
        for _ in range(_ROUNDS):
            x = self._dense(inside)
            solution = self.empty
            if len(inside):
                begin = (torch.from_numpy(coef[inside]), intercept)
                solution = self._solve(x, GroupLasso(alpha, groups="rows"), begin)
                coef = np.zeros_like(coef)
                coef[inside] = solution.coef.numpy()
            intercept = solution.intercept
            strengths = self._strengths(x, torch.from_numpy(coef[inside]), intercept, alpha)
            strengths[inside] = 0.0
            beyond = np.flatnonzero(strengths > (1.0 + _ALLOWED) * alpha)
            if not len(beyond):
                break
            worst = beyond[np.argsort(-strengths[beyond])][: max(_ADDED, len(inside))]
            inside = np.union1d(inside, worst)
        excess = max(0.0, float(strengths.max(initial=0.0)) / alpha - 1.0)
        certificate = solution.certificate
        if certificate is not None:
            certificate = replace(certificate, value=certificate.value + excess)
        theta = torch.cat([torch.from_numpy(coef).reshape(-1), intercept])
        whole = replace(solution, theta=theta, certificate=certificate)
        self.points.append((alpha, whole))
        return whole

    def residual(self, solution: LinearResult) -> Tensor:
        """x B + b - t of every row, (n, t)."""
        fitted = torch.from_numpy(np.ascontiguousarray(self.table @ solution.coef.numpy()))
        return fitted + solution.intercept - self.target

    def _dense(self, columns: NDArray[np.intp]) -> Tensor:
        rows = self.table.shape[0]
        if 8 * rows * len(columns) > _MOST_BYTES:
            raise MemoryBudgetError(
                f"{len(columns)} features of {rows} rows are needed at once and take more than 2 GB"
                " dense. Keep fewer: set n_features_to_select, or a larger alpha."
            )
        return torch.from_numpy(np.ascontiguousarray(self.table[:, columns].toarray()))

    def _strengths(
        self, x: Tensor, coef: Tensor, intercept: Tensor, alpha: float
    ) -> NDArray[np.float64]:
        """||(1/n) sum_i x_ij u_i||_2 of every column at the solution on the columns of x.

        Rows that the solution passes through have any slope; theirs are those with which the
        columns inside are optimal, by least squares.
        """
        residual = x @ coef + intercept - self.target
        length = residual.norm(dim=1)
        exact = length <= _INTERPOLATED * float(length.median())
        slopes = norm_subgradient(residual, p=2.0)
        slopes[exact] = 0.0
        if bool(exact.any()):
            n = len(length)
            wanted = -alpha * n * torch.nn.functional.normalize(coef, dim=1)
            missing = torch.cat([-slopes.sum(0, keepdim=True), wanted - x.T @ slopes])
            moved = coef.norm(dim=1) > 0
            keep = torch.cat([torch.ones(1, dtype=torch.bool), moved])
            system = torch.cat([torch.ones(n, 1, dtype=x.dtype), x], dim=1)[exact][:, keep]
            found = torch.linalg.lstsq(system.T, missing[keep], driver="gelsd").solution
            slopes[exact] = found / found.norm(dim=1, keepdim=True).clamp_min(1.0)
        pulls = self.table.T @ slopes.numpy() / len(length)
        return np.asarray(np.linalg.norm(pulls, axis=1))

    def _without_features(self) -> LinearResult:
        alone = super()._without_features()
        coef = torch.zeros(self.table.shape[1] * self.target.shape[1], dtype=torch.float64)
        return replace(alone, theta=torch.cat([coef, alone.intercept]))

    def _strongest(self) -> float:
        nothing = torch.zeros(0, self.target.shape[1], dtype=torch.float64)
        strengths = self._strengths(self.x, nothing, self.empty.intercept, 0.0)
        return float(strengths.max(initial=0.0))
