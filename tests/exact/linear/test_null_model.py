"""The model without features: found at once where it is optimal, and never fallen behind."""

import math

import pytest
import torch

from proxlin import Box, ElasticNet, GroupLasso, Lasso, NonNegative, Simplex, Status
from proxlin.exact.linear import solve_linear
from proxlin.exact.linear.null_model import weighted_center
from proxlin.problem.loss import RowLoss
from proxlin.terms import Regularizer
from tests.exact.linear.oracle import planted


def strongest(p: float | str, kind: type[Lasso] | type[GroupLasso]) -> float:
    """The strength at which zero turns optimal, by the slopes at the best intercept."""
    x, y = planted(61, 4, 2)
    alone = solve_linear(x[:, :0], y, p=p, tol=1e-12)
    residual = (alone.intercept - y).requires_grad_()
    rows = residual.square().sum(1) if p == "mse" else torch.linalg.vector_norm(residual, p, 1)
    rows.mean().backward()
    pull = x.T @ residual.grad
    return float(pull.abs().max() if kind is Lasso else pull.norm(dim=1).max())


@pytest.mark.parametrize("kind", [Lasso, GroupLasso])
@pytest.mark.parametrize("p", [2.0, "mse"])
def test_zero_is_the_answer_exactly_from_the_critical_strength_on(
    p: float | str, kind: type[Lasso] | type[GroupLasso]
) -> None:
    x, y = planted(61, 4, 2)
    alpha = strongest(p, kind)
    above = solve_linear(x, y, p=p, regularizer=kind(1.0001 * alpha))
    below = solve_linear(x, y, p=p, regularizer=kind(0.99 * alpha))
    assert above.status is below.status is Status.CONVERGED
    assert above.iterations == 0
    assert not bool(above.coef.any())
    assert bool(below.coef.any())
    assert len(above.history.frame()) == 1


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("p", [1.0, 1.5, math.inf])
@pytest.mark.parametrize("regularizer", [Lasso(1e5), GroupLasso(1e5), ElasticNet(1e5, 1.0)])
def test_strong_penalties_are_proven_without_a_step(
    regularizer: Regularizer, p: float, fit_intercept: bool
) -> None:
    x, y = planted(200, 20, 3)
    x[:20] *= 1e4  # the charge of rows far out is what the proof is hard to find for otherwise
    solution = solve_linear(
        x, x[:, :3] + y, p=p, regularizer=regularizer, fit_intercept=fit_intercept
    )
    assert solution.status is Status.CONVERGED
    assert solution.iterations == 0
    assert not bool(solution.coef.any())


def test_only_pulls_into_the_set_count() -> None:
    x, y = planted(61, 1, 1)
    y = -3.0 * x + 0.01 * y
    held = solve_linear(x, y, p=1, regularizer=Lasso(0.01), constraint=NonNegative())
    free = solve_linear(x, y, p=1, regularizer=Lasso(0.01))
    assert (held.status, float(held.coef)) == (Status.CONVERGED, 0.0)
    assert float(free.coef) < -2.9


def test_zero_is_not_the_answer_where_it_is_not_allowed() -> None:
    x, y = planted(61, 4, 2)
    solution = solve_linear(x, y, p=1, regularizer=Lasso(100.0), constraint=Box(0.5, 1.0))
    assert solution.status is Status.CONVERGED
    assert torch.allclose(solution.coef, torch.full_like(solution.coef, 0.5))


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("p", [1.0, 2.0, math.inf, "mse"])
def test_a_run_cut_short_is_never_worse_than_no_features(p: float | str, steps: int) -> None:
    x, y = planted(40, 3, 2)
    x[0] = 1e12
    cut = solve_linear(x, y, p=p, max_iter=steps)
    best = y.mean(0) if p == "mse" else y.median(0).values
    rows = (best - y).square().sum(1) if p == "mse" else torch.linalg.vector_norm(best - y, p, 1)
    assert cut.objective <= float(rows.mean()) * (1 + 1e-12)
    assert cut.status in (Status.ITERATIONS, Status.CONVERGED)


@pytest.mark.parametrize("terms", [{}, {"regularizer": Lasso(0.2)}, {"constraint": Simplex(0.8)}])
def test_a_run_cut_short_is_never_worse_than_its_start(terms: dict[str, object]) -> None:
    x, y = planted(60, 4, 2)
    full = solve_linear(x, y, p=2, **terms)
    cut = solve_linear(x, y, p=2, max_iter=0, start=(full.coef, full.intercept), **terms)
    assert cut.objective <= full.objective * (1 + 1e-14)


def test_the_weighted_median_is_the_median_of_repeated_rows() -> None:
    _, y = planted(21, 1, 3)
    times = torch.arange(21) % 5
    repeated = y.repeat_interleave(times, 0)
    assert torch.equal(weighted_center(y, times.double(), RowLoss(1.0)), repeated.median(0).values)
    assert torch.allclose(weighted_center(y, times.double(), RowLoss("mse")), repeated.mean(0))
