"""Slow, independent answers: Alg. 3 by plain bisection, coordinate by coordinate, and cvxpy."""

import math
from typing import Any

import cvxpy
import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from proxlin.prox import dual_exponent

EXPONENTS = (1.0, 1 + 1e-6, 1.01, 1.3, 1.5, 2.0, 2.5, 3.0, 50.0, 1e4, math.inf)


def prox_by_bisection(v: Tensor, *, p: float, step: float) -> Tensor:
    """Alg. 3 with an inner root finder for g, for one vector and 1 < p < inf."""
    w = np.abs(v.double().numpy())
    if np.linalg.norm(w, dual_exponent(p)) <= step:
        return torch.zeros_like(v)

    def coordinates(s: float) -> np.ndarray:
        def excess(u: float, target: float) -> float:
            return u + step * (u / s) ** (p - 1) - target

        return np.array([brentq(excess, 0.0, x, args=(x,), xtol=1e-300) if x else 0.0 for x in w])

    def height(s: float) -> float:
        return float(np.linalg.norm(coordinates(s), p)) - s

    s = brentq(height, 1e-9 * np.linalg.norm(w, p), np.linalg.norm(w, p), xtol=1e-16)
    return torch.from_numpy(coordinates(s)).copysign(v.double())


def prox_by_cvxpy(v: Tensor, *, p: float, step: float) -> Tensor:
    x = cvxpy.Variable(len(v))
    distance = cvxpy.sum_squares(x - v.numpy())
    return _solution(x, cvxpy.Problem(cvxpy.Minimize(step * _norm(x, p) + 0.5 * distance)))


def project_by_cvxpy(v: Tensor, *, p: float, radius: float) -> Tensor:
    x = cvxpy.Variable(len(v))
    distance = cvxpy.sum_squares(x - v.numpy())
    return _solution(x, cvxpy.Problem(cvxpy.Minimize(distance), [_norm(x, p) <= radius]))


def _norm(x: Any, p: float) -> Any:
    # Power cones instead of cvxpy's rational approximation of p.
    return cvxpy.norm(x, p) if p in (1, 2, math.inf) else cvxpy.pnorm(x, p, approx=False)


def _solution(x: Any, problem: Any) -> Tensor:
    problem.solve(solver=cvxpy.CLARABEL)
    return torch.from_numpy(x.value)


def exact_norm(v: Tensor, p: float) -> Tensor:
    """||v||_p in float64, scaled by hand, one vector at a time."""
    rows = []
    for row in v.double().reshape(-1, v.shape[-1]).tolist():
        top = max(map(abs, row), default=0.0)
        if top == 0 or p == math.inf:
            rows.append(top)
        else:
            rows.append(top * math.fsum((abs(x) / top) ** p for x in row) ** (1 / p))
    return torch.tensor(rows, dtype=torch.float64).reshape(v.shape[:-1])


def optimality(v: Tensor, u: Tensor, *, p: float, step: Tensor) -> float:
    """How far v - u is from step times the sub-differential of ||.||_p at u, over the size of v.

    It lies in it exactly if ||v - u||_q <= step and <u, v - u> = step ||u||_p.
    """
    q = dual_exponent(p)
    v, u, step = v.double(), u.double(), step.double()
    y = v - u
    size_q, size_p = exact_norm(v, q), exact_norm(v, p)
    outside = (exact_norm(y, q) - step).clamp(min=0) / size_q
    gap = (
        step / size_q * (exact_norm(u, p) / size_p)
        - (u / size_p[..., None] * (y / size_q[..., None])).sum(-1)
    ).abs()
    return float(torch.maximum(outside, gap).max())
