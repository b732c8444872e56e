"""Quantiles from vertex to vertex: optimal by their slopes, or nothing."""

import numpy as np
import pytest
import torch

from proxlin import Pinball, Status
from proxlin.exact.linear import solve_linear
from proxlin.exact.linear.vertex import vertex_quantile


def table(n, k, seed):
    rng = np.random.default_rng(seed)
    design = np.column_stack([rng.standard_t(3, size=(n, k - 1)), np.ones(n)])
    target = design.sum(1) + (0.2 + np.abs(design[:, 0])) * rng.normal(size=n)
    target[: n // 20] += 1e6
    return design, target, rng.uniform(0.1, 3.0, n)


@pytest.mark.parametrize("seed", range(6))
def test_slopes_at_the_vertex_balance_and_stay_in_bounds(seed):
    rng = np.random.default_rng(seed)
    n, k, tau = int(rng.integers(50, 3000)), int(rng.integers(2, 9)), float(rng.uniform(0.05, 0.95))
    design, target, weights = table(n, k, seed)
    theta, slack, _ = vertex_quantile(design, target, weights, tau)
    residual = target - design @ theta
    fitted = np.argsort(np.abs(residual))[:k]
    np.testing.assert_allclose(residual[fitted], 0.0, atol=1e-6)
    slopes = np.where(residual > 0, tau, tau - 1)
    slopes[fitted] = 0.0
    own = np.linalg.solve(design[fitted].T, -design.T @ (weights * slopes)) / weights[fitted]
    assert slack <= 1e-10
    assert own.max() <= tau + 1e-6
    assert own.min() >= tau - 1 - 1e-6


def test_many_rows_take_this_way_and_end_where_the_other_ends():
    design, target, weights = (torch.from_numpy(part) for part in table(3000, 5, 0))
    x = design[:, :-1] * torch.tensor([1.0, 1e6, 1e-6, 1.0]) + 100
    for options in ({}, {"sample_weight": weights}, {"fit_intercept": False}):
        quick = solve_linear(x, target, loss=Pinball(0.3), **options)
        other = solve_linear(x, target, loss=Pinball(0.3), max_iter=2000, **options)
        assert quick.status is Status.CONVERGED
        assert quick.certificate.value <= 1e-8
        assert quick.objective <= other.objective * (1 + 1e-8)


@pytest.mark.parametrize("kind", ["ties", "dependent"])
def test_what_is_not_plain_is_left_to_the_other(kind):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, size=(3000, 3)).astype(float)
    y = rng.integers(0, 3, 3000).astype(float)
    if kind == "dependent":
        x = np.column_stack([x, x[:, 0]])
    fit = solve_linear(torch.from_numpy(x), torch.from_numpy(y), loss=Pinball(0.7))
    other = solve_linear(torch.from_numpy(x), torch.from_numpy(y), loss=Pinball(0.7), max_iter=999)
    assert fit.objective == pytest.approx(other.objective, rel=1e-7)
