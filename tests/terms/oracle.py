"""Another road to every joint prox: the terms in cvxpy, solved by an interior-point method."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import torch
from torch import Tensor

from proxlin.terms import (
    Ball,
    Box,
    ElasticNet,
    GroupLasso,
    Lasso,
    LpNorm,
    NonNegative,
    Ridge,
    Simplex,
    Tied,
)
from proxlin.terms.layout import Layout

GAP = 3e-9  # about as small as power cones allow without a warning


def distance_to_oracle(objective: float) -> float:
    """How far the oracle may be from the minimiser, given the objective there.

    The objective F is 1-strongly convex, so 1/2 ||x - x*||^2 <= F(x) - F* <= GAP * max(1, F*).
    """
    return math.sqrt(2 * GAP * max(1.0, objective))


def oracle_prox(
    layout: Layout, regularizer: Any, constraint: Any, theta: Tensor, step: float
) -> Tensor:
    """argmin_{x in C}  step * g(x) + 1/2 ||x - theta||^2, solved to the relative gap GAP."""
    x = cp.Variable(layout.size)
    objective = cp.sum_squares(x - theta.double().numpy()) / 2
    for term in regularizer.terms if regularizer is not None else ():
        objective = objective + step * _charge(term, x, layout)
    sets = constraint.terms if constraint is not None else ()
    problem = cp.Problem(cp.Minimize(objective), [c for s in sets for c in _set(s, x, layout)])
    accuracy = {"tol_gap_abs": GAP, "tol_gap_rel": GAP, "tol_feas": GAP}
    problem.solve(solver=cp.CLARABEL, **accuracy)
    return torch.from_numpy(np.asarray(x.value))


def _indices(layout: Layout, on: Any, label: str = "on") -> dict[str, np.ndarray]:
    names = layout.names if on is None else layout.match(on, label=label)
    spans = {name: layout.slice(name) for name in names}
    return {n: np.arange(s.start, s.stop).reshape(layout.shape(n)) for n, s in spans.items()}


def _groups(index: np.ndarray, along: str) -> list[np.ndarray]:
    axis = 0 if along == "rows" else 1
    return [np.take(index, k, axis=axis).ravel() for k in range(index.shape[axis])]


def _charge(term: Any, x: cp.Variable, layout: Layout) -> Any:
    index = _indices(layout, term.on)
    part = x[np.concatenate([i.ravel() for i in index.values()])]
    if isinstance(term, Ridge):
        return term.weight / 2 * cp.sum_squares(part)
    if isinstance(term, Lasso):
        return term.weight * cp.norm1(part)
    if isinstance(term, ElasticNet):
        return term.l1 * cp.norm1(part) + term.l2 / 2 * cp.sum_squares(part)
    if isinstance(term, LpNorm):
        return term.weight * cp.norm(part, term.p)
    assert isinstance(term, GroupLasso)
    groups = [g for i in index.values() for g in _groups(i, term.groups)]
    return term.weight * sum(cp.norm(x[g], 2) for g in groups)


def _set(term: Any, x: cp.Variable, layout: Layout) -> list[Any]:
    if isinstance(term, Tied):
        first = _indices(layout, term.first).values()
        second = _indices(layout, term.second).values()
        swap = [i.swapaxes(0, 1) if term.transposed else i for i in second]
        return [x[a.ravel()] == x[b.ravel()] for a, b in zip(first, swap, strict=True)]
    index = _indices(layout, term.on)
    part = x[np.concatenate([i.ravel() for i in index.values()])]
    if isinstance(term, NonNegative):
        return [part >= 0]
    if isinstance(term, Box):
        bounds = ((part >= term.low, term.low), (part <= term.high, term.high))
        return [relation for relation, bound in bounds if np.isfinite(bound)]
    if isinstance(term, Ball):
        return [cp.norm(part, term.p) <= term.radius]
    assert isinstance(term, Simplex)
    if term.along == "all":
        return [part >= 0, cp.sum(part) == term.total]
    groups = [g for i in index.values() for g in _groups(i, term.along)]
    return [part >= 0, *(cp.sum(x[g]) == term.total for g in groups)]
