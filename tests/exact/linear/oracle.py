"""The linear problem as cvxpy sees it, and planted data for it."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import torch
from torch import Tensor

from proxlin.exact.linear import LinearResult
from proxlin.prox import norm


def planted(n: int, m: int, t: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Noisy linear data, a fifth of whose rows has targets that are far off."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, m, generator=generator, dtype=torch.float64)
    coef = torch.randn(m, t, generator=generator, dtype=torch.float64)
    y = x @ coef + 1.0 + 0.3 * torch.randn(n, t, generator=generator, dtype=torch.float64)
    y[: n // 5] += 20 * torch.randn(n // 5, t, generator=generator, dtype=torch.float64)
    return x, y


def optimum(
    x: Tensor,
    y: Tensor,
    p: float | str,
    *,
    kind: str = "none",
    weight: float = 0.0,
    weights: Tensor | None = None,
) -> float:
    """The optimal objective by cvxpy's conic solver."""
    n, m = x.shape
    t = y.shape[1]
    coef, intercept = cp.Variable((m, t)), cp.Variable((1, t))
    residual = x.numpy() @ coef + np.ones((n, 1)) @ intercept - y.numpy()
    w = np.ones(n) if weights is None else weights.numpy()
    if p == "mse":
        loss = cp.sum(cp.multiply(w, cp.sum(cp.square(residual), axis=1)))
    elif p in (1, 2, math.inf):
        rows = cp.norm(residual, "inf" if p == math.inf else p, axis=1)
        loss = cp.sum(cp.multiply(w, rows))
    else:
        loss = cp.sum([w[i] * cp.pnorm(residual[i], p, approx=False) for i in range(n)])
    charge, sets = 0.0, []
    if kind == "ridge":
        charge = 0.5 * weight * cp.sum_squares(coef)
    elif kind == "lasso":
        charge = weight * cp.sum(cp.abs(coef))
    elif kind == "group":
        charge = weight * cp.sum(cp.norm(coef, 2, axis=1))
    elif kind == "nonnegative":
        sets = [coef >= 0]
    elif kind == "box":
        sets = [coef >= -0.4, coef <= 0.3]
    elif kind == "ball":
        sets = [cp.norm(cp.vec(coef, order="C"), 2) <= weight]
    elif kind == "simplex":
        sets = [coef >= 0, cp.sum(coef) == weight]
    problem = cp.Problem(cp.Minimize(loss / w.sum() + charge), sets)
    accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    return float(problem.solve(solver=cp.CLARABEL, **accuracy))


def mean_loss(x: Tensor, y: Tensor, solution: LinearResult, p: float) -> float:
    """The unpenalised objective at the solution, written out."""
    return float(norm(x @ solution.coef + solution.intercept - y, p=p).mean())
