"""Stationarity of a point: how far the minimiser of its convex model lies from it."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin._checks import check_count
from proxlin.methods.contract import Budget
from proxlin.methods.subproblem import ADMM
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.metric import Euclidean
from proxlin.problem import Problem
from proxlin.problem.parallel import clock_of
from proxlin.problem.rows import evenly_spread

_SOLVER = ADMM(max_steps=1000, tolerance=1e-4)


def sampled_stationarity(
    problem: Problem, theta: Tensor, rows: int, *, max_seconds: float | None = None
) -> float | None:
    """h ||theta - argmin of the model at theta|| with h = 1, on `rows` rows evenly spread.

    None if the model was not solved in the time. On a sample this is a measure of the sample's
    objective: it stays above zero at a minimiser of the full one, by the scatter of the rows.
    """
    check_count("rows", rows)
    index = evenly_spread(problem.n_rows, rows)
    model = ConvexModel(problem.restricted(index), theta, Euclidean())
    clock = clock_of(problem.communicator)
    solved = _SOLVER.solve(model, deadline=Budget(max_seconds, None, clock))
    if not solved.converged:
        return None
    return float(torch.linalg.vector_norm(solved.theta - theta))
