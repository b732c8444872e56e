import math

import cvxpy
import numpy
import pytest
import torch
from torch import nn

from proxlin import ADMM, MBO, Armijo, Diagonal, Euclidean, Problem, Ridge, Status, minimize
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.models import linear_regressor
from tests.methods.small_problems import PROBLEMS, ROWS, SOLVERS, Watched, autoencoder, linear


@pytest.mark.parametrize("p", [1, 1.5, 2, math.inf])
@pytest.mark.parametrize("build", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_every_accepted_step_lowers_the_full_objective_by_the_armijo_amount(solver, build, p):
    accepted = 0
    for seed in range(3):
        task = build(seed, p, regularizer=Ridge(1e-3))
        search = Watched()
        method = MBO(solver=solver, search=search, decrease_rows=None)
        result = minimize(task, method, max_seconds=None, max_iter=3, seed=seed)
        for anchor, target, value, decrease, found in search.calls:
            assert value == task.objective(anchor)
            assert decrease == ConvexModel(task, anchor).decrease(target) < 0
            if found.accepted:
                accepted += 1
                after = task.objective(anchor + found.step * (target - anchor))
                assert found.objective == pytest.approx(after, rel=1e-13)
                assert found.objective <= value + 0.1 * found.step * decrease
        start, *records = result.history.records
        before = start["objective"]
        for record in (one for one in records if "step" in one):
            assert record["objective"] <= before + 0.1 * record["step"] * record["decrease"]
            before = record["objective"]
    assert accepted >= 3


class Squared(nn.Module):
    """w -> w^2 x, whose linearisation at a small w promises far too much."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.01], dtype=torch.float64))

    def forward(self, x):
        return self.w.square() * x


def over_promising():
    x = torch.ones(5, 1, dtype=torch.float64)
    return Problem(Squared(), (x, x), p=1)


def test_a_search_that_accepts_nothing_ends_the_run_where_it_stood():
    # At w = 0.01 the model |w^2 + 2 w s - 1| has its minimum at s = 49.995, where w^2 = 2500.
    task = over_promising()
    start = task.theta()
    method = MBO(solver=ADMM(), metric=Euclidean(1e-6), search=Armijo(max_trials=1))
    result = minimize(task, method, max_seconds=None, max_iter=5)
    assert result.status is Status.NO_DECREASE
    assert torch.equal(result.theta, start)
    assert result.objective == pytest.approx(1 - 1e-4)
    assert result.iterations == 1
    assert result.history.records[-1]["step"] == 0.0


def test_the_same_step_is_shortened_until_it_is_accepted():
    method = MBO(solver=ADMM(), metric=Euclidean(1e-6))
    result = minimize(over_promising(), method, max_seconds=None, max_iter=1)
    # (0.01 + 49.995 eta)^2 first is at most 2 - 0.1 eta for eta = 1/64.
    assert result.history.records[1]["step"] == 1 / 64
    assert result.history.records[1]["trials"] == 7


def test_a_stationary_start_is_no_further_decrease():
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    task = Problem(linear_regressor(3, 1).double(), (x, torch.zeros(20, 1).double()), p=1)
    result = minimize(task, MBO(solver=ADMM()), max_seconds=None, max_iter=5)
    assert result.status is Status.NO_DECREASE
    assert result.certificate.value == 0.0
    assert result.objective == 0.0


@pytest.mark.parametrize(("asked", "used"), [(7, 7), (ROWS, ROWS), (10**6, ROWS), (None, ROWS)])
def test_history_records_on_how_many_rows_the_decrease_was_computed(asked, used):
    method = MBO(solver=ADMM(max_steps=20), decrease_rows=asked)
    result = minimize(linear(), method, max_seconds=None, max_iter=1)
    frame = result.history.frame()
    assert frame["decrease_rows"].dropna().tolist() == [used]


def test_a_sampled_decrease_is_the_models_on_distinct_rows():
    task = autoencoder()
    search = Watched()
    method = MBO(solver=ADMM(max_steps=50), search=search, decrease_rows=ROWS - 1)
    minimize(task, method, max_seconds=None, max_iter=1)
    anchor, target, _, decrease, _ = search.calls[0]
    model = ConvexModel(task, anchor)
    # Leaving out one of n distinct rows: one of the n leave-one-out decreases.
    possible = [
        model.decrease(target, torch.tensor([j for j in range(ROWS) if j != i]))
        for i in range(ROWS)
    ]
    assert min(abs(decrease - value) for value in possible) < 1e-12


@pytest.mark.parametrize(
    ("metric", "weights"),
    [(Euclidean(0.3), 0.3), (Diagonal(torch.linspace(0.1, 2, 10).double()), None)],
    ids=["euclidean", "diagonal"],
)
def test_stationarity_is_the_weighted_distance_to_the_minimiser_of_the_model(metric, weights):
    task = linear(p=2)
    points = []
    result = minimize(
        task,
        MBO(solver=ADMM(tolerance=1e-10, max_steps=20000), metric=metric, decrease_rows=None),
        max_seconds=None,
        max_iter=3,
        callbacks=[
            lambda told: points.append(
                (told.theta.clone(), told.certificate and told.certificate.value)
            )
        ],
    )
    weights = metric.diagonal if weights is None else weights
    measured = [stationarity for _, stationarity in points if stationarity is not None]
    for (theta, _), stationarity in zip(points, measured, strict=False):
        exact = ADMM(tolerance=1e-11, max_steps=50000).solve(ConvexModel(task, theta, metric))
        expected = float(torch.linalg.vector_norm(weights * (theta - exact.theta)))
        assert stationarity == pytest.approx(expected, rel=1e-6)
    assert result.certificate.value == measured[-1]


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_stationarity_vanishes_on_convex_problems_where_the_optimum_is(p):
    task = linear(p=p, regularizer=Ridge(1e-2))
    solver = ADMM(tolerance=1e-8, max_steps=20000)
    method = MBO(solver=solver, metric=Euclidean(0.05), decrease_rows=None)
    result = minimize(task, method, max_seconds=None, max_iter=60, tol=1e-4)
    assert result.status is Status.CONVERGED
    assert result.certificate.value <= 1e-4
    # h (theta - minimiser of the model) is a sub-gradient at that minimiser, which is the next
    # point; with modulus mu it is within stationarity^2 / (2 mu) of the optimum.
    following = minimize(task, method, max_seconds=None, max_iter=1)
    gap = following.objective - optimum(task)
    assert -3e-7 <= gap <= result.certificate.value**2 / (2 * 1e-2) + 3e-7


def optimum(task):
    """The minimum of a linear problem with Ridge(1e-2), by another library's conic solver."""
    x, y = (tensor.numpy() for tensor in task.rows.tensors)
    weight, bias = cvxpy.Variable((4, 2)), cvxpy.Variable((1, 2))
    residual = x @ weight + numpy.ones((ROWS, 1)) @ bias - y
    loss = cvxpy.sum(cvxpy.norm(residual, task.p, axis=1)) / ROWS
    ridge = 0.005 * (cvxpy.sum_squares(weight) + cvxpy.sum_squares(bias))
    return cvxpy.Problem(cvxpy.Minimize(loss + ridge)).solve(solver="CLARABEL")


class Constant(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(outputs, dtype=torch.float64))

    def forward(self, x):
        return self.value.expand(len(x), -1)


def test_the_best_constant_at_p_1_is_the_median():
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(31, 3, generator=generator, dtype=torch.float64)
    y[:10] += 1000
    task = Problem(Constant(3), (y, y), p=1)
    # The outliers' residuals make a relative tolerance coarse.
    method = MBO(solver=ADMM(tolerance=1e-10), metric=Euclidean(0.1), decrease_rows=None)
    minimize(task, method, max_seconds=None, max_iter=50)
    torch.testing.assert_close(task.theta(), y.median(dim=0).values, rtol=0, atol=1e-5)
