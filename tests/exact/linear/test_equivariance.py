"""What the optimum must do when the data are moved, scaled, mixed, repeated or reordered."""

import math

import pytest
import torch

from proxlin import ElasticNet, GroupLasso, Lasso, LpNorm, Ridge, Status
from proxlin.exact.linear import solve_linear
from tests.exact.linear.oracle import planted

EXPONENTS = [1.0, 1.5, 2.0, math.inf]


@pytest.mark.parametrize("p", EXPONENTS)
def test_adding_a_linear_function_to_the_targets_adds_it_to_the_answer(p: float) -> None:
    x, y = planted(61, 3, 2)
    coef, shift = torch.ones(3, 2, dtype=torch.float64), torch.tensor([5.0, -7.0]).double()
    one = solve_linear(x, y, p=p, tol=1e-11)
    two = solve_linear(x, y + x @ coef + shift, p=p, tol=1e-11)
    assert torch.allclose(two.coef, one.coef + coef, atol=1e-5)
    assert torch.allclose(two.intercept, one.intercept + shift, atol=1e-5)
    assert two.objective == pytest.approx(one.objective, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("p", EXPONENTS)
def test_scaling_the_targets_scales_the_objective(p: float, scale: float) -> None:
    x, y = planted(61, 3, 2)
    one, two = solve_linear(x, y, p=p), solve_linear(x, scale * y, p=p)
    assert two.status is Status.CONVERGED
    assert two.objective == pytest.approx(scale * one.objective, rel=3e-8)


@pytest.mark.parametrize("p", EXPONENTS)
def test_mixing_and_scaling_the_features_changes_no_prediction(p: float) -> None:
    x, y = planted(61, 3, 2)
    mix = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, -1.0]]).double()
    mix = mix * torch.tensor([1e12, 1e-12, 1.0]).double()
    one, two = solve_linear(x, y, p=p, tol=1e-10), solve_linear(x @ mix, y, p=p, tol=1e-10)
    assert two.objective == pytest.approx(one.objective, rel=1e-6)


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_weights_equal_repetitions_of_rows(p: float) -> None:
    x, y = planted(41, 3, 2)
    times = torch.arange(41) % 4
    repeated = solve_linear(
        x.repeat_interleave(times, 0), y.repeat_interleave(times, 0), p=p, regularizer=Ridge(0.1)
    )
    weighted = solve_linear(x, y, p=p, sample_weight=times, regularizer=Ridge(0.1))
    assert weighted.objective == pytest.approx(repeated.objective, rel=2e-8)
    assert torch.allclose(weighted.coef, repeated.coef, atol=1e-3)


def test_weights_count_relative_to_each_other() -> None:
    x, y = planted(41, 3, 2)
    weights = torch.linspace(0.1, 1.0, 41)
    one = solve_linear(x, y, p=2, sample_weight=weights)
    two = solve_linear(x, y, p=2, sample_weight=1e9 * weights.double())
    assert two.objective == pytest.approx(one.objective, rel=3e-8)


def test_p_one_solves_each_target_by_itself() -> None:
    x, y = planted(61, 3, 3)
    y[:, 1] *= 1e6  # each must be exact in its own units
    joint = solve_linear(x, y, p=1, tol=1e-10)
    for j in range(3):
        alone = solve_linear(x, y[:, j], p=1, tol=1e-10)
        assert torch.allclose(joint.coef[:, j], alone.coef[:, 0], rtol=1e-6)


def test_the_norm_couples_the_targets() -> None:
    x, y = planted(61, 3, 3)
    joint = solve_linear(x, y, p=2)
    alone = torch.cat([solve_linear(x, y[:, j], p=2).coef for j in range(3)], 1)
    assert (joint.coef - alone).abs().max() > 1e-3


def test_a_rotation_of_the_targets_rotates_the_euclidean_answer() -> None:
    x, y = planted(61, 3, 2)
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]]).double()
    one, two = solve_linear(x, y, p=2, tol=1e-11), solve_linear(x, y @ turn, p=2, tol=1e-11)
    assert torch.allclose(two.coef, one.coef @ turn, atol=1e-5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ElasticNet(0.2, 0.1), Lasso(0.2) + Ridge(0.1)),
        (LpNorm(0.2, 1), Lasso(0.2)),
        (ElasticNet(0.0, 0.3), Ridge(0.3)),
    ],
)
def test_equal_regularisers_have_equal_optima(one: Lasso, other: Lasso) -> None:
    x, y = planted(61, 3, 2)
    first, second = (solve_linear(x, y, p=2, regularizer=g) for g in (one, other))
    assert first.objective == pytest.approx(second.objective, rel=2e-8)


def test_rows_of_one_target_make_the_group_lasso_a_lasso() -> None:
    x, y = planted(61, 4, 1)
    group = solve_linear(x, y, p=1, regularizer=GroupLasso(0.3))
    lasso = solve_linear(x, y, p=1, regularizer=Lasso(0.3))
    assert group.objective == pytest.approx(lasso.objective, rel=2e-8)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_strong_penalties_leave_the_median_and_exact_zeros(p: float) -> None:
    x, y = planted(61, 4, 2)
    solution = solve_linear(x, y, p=p, regularizer=GroupLasso(100.0))
    assert torch.equal(solution.coef, torch.zeros(4, 2, dtype=torch.float64))
    alone = solve_linear(x[:, :0], y, p=p)
    assert solution.objective == pytest.approx(alone.objective, rel=2e-8)
    if p == 1:
        assert torch.allclose(solution.intercept, y.median(0).values)


def test_squared_errors_without_penalty_are_least_squares() -> None:
    x, y = planted(61, 4, 2)
    solution = solve_linear(x, y, p="mse", tol=1e-14)
    full = torch.cat([x, torch.ones(61, 1, dtype=torch.float64)], 1)
    expected = torch.linalg.lstsq(full, y).solution
    assert torch.allclose(solution.coef, expected[:4], atol=1e-8)
    assert torch.allclose(solution.intercept, expected[4], atol=1e-8)


def test_a_start_at_the_optimum_is_found_optimal_sooner() -> None:
    x, y = planted(500, 5, 2)
    cold = solve_linear(x, y, p=2, tol=1e-6)
    warm = solve_linear(x, y, p=2, tol=1e-6, start=(cold.coef, cold.intercept))
    assert warm.status is Status.CONVERGED
    assert warm.iterations < cold.iterations
    assert warm.objective <= cold.objective * (1 + 1e-6)
