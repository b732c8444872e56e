"""The optimum is the one of other solvers, and the reported gap is a true bound."""

import math
from itertools import product

import pytest
import torch
from sklearn.linear_model import QuantileRegressor

from proxlin import Ball, Box, GroupLasso, Lasso, NonNegative, Ridge, Simplex, Status
from proxlin.exact.linear import solve_linear
from tests.exact.linear.oracle import mean_loss, optimum, planted

EXPONENTS = [1.0, 1.3, 2.0, math.inf, "mse"]
TERMS = {
    "none": {},
    "ridge": {"regularizer": Ridge(0.2)},
    "lasso": {"regularizer": Lasso(0.2)},
    "group": {"regularizer": GroupLasso(0.2)},
    "nonnegative": {"constraint": NonNegative()},
    "box": {"constraint": Box(-0.4, 0.3)},
    "ball": {"constraint": Ball(0.8)},
    "simplex": {"constraint": Simplex(0.8)},
}
WEIGHTS = {"ridge": 0.2, "lasso": 0.2, "group": 0.2, "ball": 0.8, "simplex": 0.8}


@pytest.mark.parametrize(
    ("p", "kind"),
    [*product(EXPONENTS, TERMS), (4.0, "none"), (4.0, "group"), (4.0, "ball"), (4.0, "lasso")],
)
def test_objective_is_the_optimum_of_a_conic_solver(p: float | str, kind: str) -> None:
    x, y = planted(40, 4, 3)
    solution = solve_linear(x, y, p=p, tol=1e-9, **TERMS[kind])
    expected = optimum(x, y, p, kind=kind, weight=WEIGHTS.get(kind, 0.0))
    assert solution.status is Status.CONVERGED
    assert solution.certificate.value <= 1e-9
    # The power cones of general exponents are what the other solver is least exact in.
    tolerance = 1e-6 if p in (1.3, 4.0) else 1e-7
    assert solution.objective == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_weighted_objective_is_the_optimum_of_a_conic_solver(p: float) -> None:
    x, y = planted(40, 4, 3)
    weights = torch.arange(40, dtype=torch.float64)
    solution = solve_linear(x, y, p=p, sample_weight=weights)
    expected = optimum(x, y, p, weights=weights)
    assert solution.objective == pytest.approx(expected, rel=1e-6)


def test_one_target_equals_the_median_regression_of_scikit_learn() -> None:
    x, y = planted(300, 5, 1)
    peer = QuantileRegressor(quantile=0.5, alpha=0, solver="highs").fit(x.numpy(), y[:, 0].numpy())
    solution = solve_linear(x, y, p=1)
    assert torch.allclose(solution.coef[:, 0], torch.tensor(peer.coef_), atol=1e-6)
    assert float(solution.intercept) == pytest.approx(peer.intercept_, abs=1e-6)


def test_lasso_equals_the_median_regression_of_scikit_learn() -> None:
    x, y = planted(300, 5, 1)
    peer = QuantileRegressor(quantile=0.5, alpha=0.1, solver="highs")
    peer.fit(x.numpy(), y[:, 0].numpy())
    # Its pinball loss at one half is half the absolute error, and its weight is on the mean.
    solution = solve_linear(x, y, p=1, regularizer=Lasso(0.2), tol=1e-10)
    assert torch.allclose(solution.coef[:, 0], torch.tensor(peer.coef_), atol=1e-6)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_no_nearby_point_is_better_than_the_gap_allows(p: float) -> None:
    x, y = planted(60, 4, 3)
    solution = solve_linear(x, y, p=p, tol=1e-10)
    bound = solution.objective * (1 - 1e-10)
    generator = torch.Generator().manual_seed(1)
    for size in (1e-6, 1e-4, 1e-2):
        for _ in range(20):
            step = torch.randn(5, 3, generator=generator, dtype=torch.float64) * size
            residual = x @ (solution.coef + step[:4]) + solution.intercept + step[4] - y
            assert float(torch.linalg.vector_norm(residual, p, dim=1).mean()) >= bound


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("kind", ["none", "lasso", "nonnegative", "ball"])
def test_the_gap_of_a_run_cut_short_covers_its_distance(steps: int, kind: str) -> None:
    x, y = planted(60, 4, 2)
    exact = solve_linear(x, y, p=2, tol=1e-11, **TERMS[kind])
    cut = solve_linear(x, y, p=2, tol=1e-13, max_iter=steps, **TERMS[kind])
    assert cut.iterations <= steps
    assert cut.status is Status.ITERATIONS
    distance = (cut.objective - exact.objective) / cut.objective
    assert distance <= cut.certificate.value + 1e-10
    assert cut.certificate.value > 0


def test_one_step_leaves_a_gap_and_says_so() -> None:
    x, y = planted(200, 4, 1)
    cut = solve_linear(x, y, p=1, max_iter=1)
    assert cut.status is Status.ITERATIONS
    assert cut.certificate.value > 1e-6


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_objective_is_what_the_formula_gives(p: float) -> None:
    x, y = planted(50, 3, 2)
    solution = solve_linear(x, y, p=p)
    assert solution.objective == pytest.approx(mean_loss(x, y, solution, p), rel=1e-14)
    shrunk = solve_linear(x, y, p=p, regularizer=Lasso(0.3))
    charge = 0.3 * float(shrunk.coef.abs().sum())
    assert shrunk.objective == pytest.approx(mean_loss(x, y, shrunk, p) + charge, rel=1e-14)


def test_large_systems_by_conjugate_gradients_reach_the_same_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = planted(80, 6, 3)
    dense = solve_linear(x, y, p=2, regularizer=GroupLasso(0.1))
    monkeypatch.setattr("proxlin.exact.linear.lagrangian._LARGEST", 2)
    free = solve_linear(x, y, p=2, regularizer=GroupLasso(0.1))
    assert free.status is Status.CONVERGED
    assert free.objective == pytest.approx(dense.objective, rel=2e-8)


def test_rows_in_blocks_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = planted(90, 4, 3)
    whole = solve_linear(x, y, p=1.5)
    monkeypatch.setattr("proxlin.exact.linear.coordinates._CHUNK", 40)
    pieces = solve_linear(x, y, p=1.5)
    assert torch.allclose(whole.coef, pieces.coef, atol=1e-9)
