"""The same sub-problem stated for an independent convex solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from tests.methods.subproblem.linear_model import LinearModel

Expression = Any
Extra = Callable[[Expression], Expression]
Constraints = Callable[[Expression], Sequence[Expression]]


def lp_norm(expression: Expression, p: float) -> Expression:
    if p == np.inf:
        return cp.norm(expression, "inf")
    return cp.norm(expression, p) if p in (1, 2) else cp.pnorm(expression, p, approx=False)


def optimal_value(
    model: LinearModel, regularizer: Extra | None = None, constraints: Constraints | None = None
) -> float:
    """The optimal value of the model with g and C given as expressions in theta."""
    theta = cp.Variable(model.anchor.numel())
    anchor = model.anchor.double().numpy()
    weights = np.broadcast_to(model.metric.weights(model.anchor).double().numpy(), anchor.shape)
    rows = zip(model.residual.double().numpy(), model.jacobian.double().numpy(), strict=True)
    losses = [lp_norm(f + j @ (theta - anchor), model.p) for f, j in rows]
    objective = sum(losses) / len(losses)
    objective += 0.5 * cp.sum(cp.multiply(weights, cp.square(theta - anchor)))
    if regularizer is not None:
        objective += regularizer(theta)
    problem = cp.Problem(cp.Minimize(objective), constraints(theta) if constraints else [])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return float(problem.value)
