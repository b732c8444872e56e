"""Probed: its probes, its optimum on problems with a known answer, its exact zeros and bounds."""

import math

import cvxpy as cp
import pytest
import torch
from torch import nn

from proxlin import Box, Lasso, NonNegative, Problem, Ridge, Simplex, minimize
from proxlin.data import blob_images, planted_regression
from proxlin.errors import InvalidInputError
from proxlin.exact.linear import solve_linear
from proxlin.linearize import linearize_parts
from proxlin.methods import Probed
from proxlin.methods.contract import Budget
from proxlin.methods.curvature import DenseCurvature
from proxlin.methods.probed.batch_probe import probe_batch
from proxlin.models import linear_regressor, mlp_regressor


def data(n=400, features=5, targets=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=generator)
    weight = torch.randn(features, targets, generator=generator)
    noise = torch.randn(n, targets, generator=generator)
    noise[: n // 5] *= 20
    return x, x @ weight + 0.3 * noise


def optimum(x, y, p, regularizer=lambda w: 0, constraints=lambda w: []):
    """The least objective of linear regression without intercept, by a convex solver."""
    w = cp.Variable((y.shape[1], x.shape[1]))
    residual = x.double().numpy() @ w.T - y.double().numpy()
    loss = cp.sum(cp.norm(residual, p, axis=1)) / len(x)
    problem = cp.Problem(cp.Minimize(loss + regularizer(w)), constraints(w))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.statistics
@pytest.mark.parametrize("p", [1.0, 1.5, 4.0, "mse"])
def test_probes_have_the_curvature_as_their_second_moment(p):
    x, y = data(n=8)
    torch.manual_seed(0)
    problem = Problem(mlp_regressor(5, 2, hidden=(3,)), (x, y), p)
    theta, generator, looks = problem.theta(), torch.Generator().manual_seed(0), 400
    batch = problem.take(slice(0, 8))
    found = [
        torch.stack(probe_batch(problem, theta, batch, 1e-2, generator, parts=4).probes)
        for _ in range(looks)
    ]
    probes = torch.stack(found)  # (looks, parts, d): each part of two rows has probes of its own
    mean = torch.einsum("lpd,lpe->pde", probes, probes) / looks
    parts = list(linearize_parts(problem, theta, batch, 2))
    weights = [
        problem.loss.curvature_weights(part.model.residual, 1e-2 * part.scales.size)
        for part in parts
    ]
    rows = torch.stack([part.model.rows() for part in parts])
    exact = torch.einsum("pbnd,pbn,pbne->pde", rows, torch.stack(weights), rows) / 2
    # The entries of the mean scatter like sqrt(2 C_ii C_jj / looks) at the most.
    diagonal = exact.diagonal(dim1=1, dim2=2)
    scatter = torch.einsum("pd,pe->pde", diagonal, diagonal).clamp_min(0).sqrt()
    assert bool(((mean - exact).abs() <= 6 * math.sqrt(2 / looks) * scatter + 1e-6).all())


def test_on_a_quadratic_it_converges_like_newton():
    # Least squares: the curvature is exact and constant, so with step length 1 the error shrinks
    # by the accuracy of the averaged curvature in each step, whatever the condition number is.
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, generator=generator, dtype=torch.float64)
    x *= torch.tensor([1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)
    y = x @ torch.ones(4, 1, dtype=torch.float64) + 1.0
    problem = Problem(linear_regressor(4, bias=False).double(), (x, y), "mse")
    method = Probed(batch_size=64, length=1.0, momentum=0.0, window=4000)
    nearest = x @ torch.linalg.lstsq(x, y).solution
    best = float((nearest - y).square().sum(1).mean())
    state = method.init(problem, problem.theta(), generator)
    method.prepare(state.units.inside(problem), state, Budget(None, None))
    gaps = [problem.objective(method.candidates(state)[0]) - best]
    for _ in range(4):
        state.region.radius, state.region.damping = 1e9, 1e-12
        method.step(problem, state, Budget(None, None))
        gaps.append(problem.objective(method.candidates(state)[0]) - best)
    assert gaps[4] < 1e-4 * gaps[0]


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(
    ("terms", "regularizer", "constraints"),
    [
        ({"regularizer": Ridge(0.1)}, lambda w: 0.05 * cp.sum_squares(w), lambda w: []),
        ({"regularizer": Lasso(0.1)}, lambda w: 0.1 * cp.sum(cp.abs(w)), lambda w: []),
        ({"constraint": NonNegative()}, lambda w: 0, lambda w: [w >= 0]),
    ],
    ids=["ridge", "lasso", "non-negative"],
)
def test_linear_problems_reach_the_optimum(p, terms, regularizer, constraints):
    x, y = data()
    problem = Problem(linear_regressor(5, 2, bias=False), (x, y), p, **terms)
    result = minimize(problem, "probed", max_seconds=None, max_iter=600)
    best = optimum(x, y, p, regularizer, constraints)
    assert result.objective == pytest.approx(best, rel=1e-4)


def test_lasso_gives_exact_zeros():
    x, _ = data(features=8)
    y = x[:, :2] * 3
    problem = Problem(linear_regressor(8, 2, bias=False), (x, y), 1, regularizer=Lasso(0.3))
    weight = problem.layout.split(
        minimize(problem, "probed", max_seconds=None, max_iter=600).theta
    )["weight"]
    assert int((weight == 0).sum()) >= 12  # 14 of the 16 are zero in the plant


@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize("constraint", [NonNegative(), Box(-0.2, 0.3), Simplex()])
def test_constraints_hold_at_every_step(constraint, batch_size):
    x, y = data()
    torch.manual_seed(0)
    problem = Problem(mlp_regressor(5, 2, hidden=(4,)), (x, y), 1, constraint=constraint)
    method = Probed(batch_size=batch_size)
    slack = 1e-6 if isinstance(constraint, Simplex) else 1e-7  # bounds as float32 has them
    theta = problem.penalty.project(problem.theta())
    state = method.init(problem, theta, torch.Generator().manual_seed(0))
    for _ in range(60):
        method.step(problem, state, Budget(None, 60))
        assert all(problem.penalty.contains(theta, slack) for theta in method.candidates(state))


def test_newton_steps_in_a_box_solve_a_problem_that_batches_only_approach():
    x, y = data(features=8)
    box = Box(-0.2, 0.1)
    problem = Problem(linear_regressor(8, 2, bias=False), (x, y), 1.5, constraint=box)
    wide = (x.double(), y.double())
    best = solve_linear(*wide, p=1.5, constraint=box, fit_intercept=False).objective
    few = minimize(problem, "probed", max_iter=30).objective
    assert few == pytest.approx(best, rel=1e-5)


def test_the_largest_residual_of_a_row_is_minimised_too():
    x, y = data()
    problem = Problem(linear_regressor(5, 2), (x, y), math.inf)
    best = solve_linear(x.double(), y.double(), p=math.inf).objective
    assert minimize(problem, "probed", max_iter=150).objective == pytest.approx(best, rel=1e-2)


@pytest.mark.parametrize("stretch", [1e2, 1e4])
def test_a_feature_of_another_size_takes_few_steps(stretch):
    """Damping that suits one feature is far too much for another: it must be seen to fall."""
    x, y = data()
    x = x * torch.tensor([stretch, 1.0, 1.0, 1.0, 1.0])
    problem = Problem(linear_regressor(5, 2), (x, y), "mse")
    best = solve_linear(x.double(), y.double(), p="mse").objective
    assert minimize(problem, "probed", max_iter=100).objective == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("batch_size", [None, 5])
def test_a_start_that_fits_every_row_is_left_for_a_smaller_objective(batch_size):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 50, generator=generator), torch.randn(20, 1, generator=generator)
    net = linear_regressor(50, 1, bias=False)
    net.weight.data = torch.linalg.lstsq(x, y).solution.T.contiguous()
    problem = Problem(net, (x, y), "mse", regularizer=Ridge(0.5))
    exact = torch.linalg.solve(x.T @ x / 20 + 0.25 * torch.eye(50), x.T @ y / 20)
    best = problem.objective(exact.flatten())
    found = minimize(problem, Probed(batch_size=batch_size), max_iter=300).objective
    assert found == pytest.approx(best, rel=1e-2)


def test_gross_outliers_do_not_move_it():
    plant = planted_regression(1000, 6, 3, noise=0.1, dtype=torch.float32)
    errors = {}
    for p in (1, 2, "mse"):
        problem = Problem(linear_regressor(6, 3), (plant.x, plant.y), p)
        minimize(problem, "probed", max_seconds=None, max_iter=250)
        errors[p] = float((problem.module.weight.detach() - plant.weight).norm())
    assert errors[1] < 0.05 * errors["mse"]
    assert errors[2] < 0.05 * errors["mse"]


@pytest.mark.parametrize("seed", [0, 1])
def test_it_leaves_the_all_zero_output(seed):
    # Mostly dark images at p = 1: their median is the all-zero output, a strong attractor.
    x = blob_images(200, 10, width=1.0).images
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Softplus(), nn.ConvTranspose2d(4, 1, 3), nn.Softplus()
    )
    problem = Problem(net, x, 1)
    dark = float(x.flatten(1).sum(1).mean())
    assert minimize(problem, "probed", max_seconds=None, max_iter=30).objective < 0.5 * dark


@pytest.mark.parametrize("curvature", ["dense", "layered"])
def test_both_structures_train_a_net(curvature):
    x, y = data(features=6)
    torch.manual_seed(0)
    problem = Problem(mlp_regressor(6, 2, hidden=(8,)), (x, torch.tanh(y)), 1.5)
    before = problem.objective(problem.theta())
    result = minimize(problem, Probed(curvature=curvature), max_seconds=None, max_iter=60)
    assert result.objective < 0.5 * before


def test_nothing_to_learn_is_no_error():
    # Zero inputs: no Jacobian and no curvature, in the dense and in the layered structure.
    for width in (3, 60):
        x = torch.zeros(20, width)
        problem = Problem(nn.Linear(width, width, bias=False), (x, torch.ones(20, width)), 1)
        assert minimize(problem, "probed", max_seconds=None, max_iter=20).objective == width


def test_zero_last_layer_trains():
    x, y = data(features=40)
    torch.manual_seed(0)
    net = mlp_regressor(40, 2, hidden=(50,))
    nn.init.zeros_(net[-1].weight)
    problem = Problem(net, (x, y), 1)
    before = problem.objective(problem.theta())
    result = minimize(problem, "probed", max_seconds=None, max_iter=150)
    assert result.objective < 0.7 * before


def test_short_time_budget_is_kept_and_used(ticking_clock):
    x, y = data(n=2000)
    problem = Problem(linear_regressor(5, 2), (x, y), 1)
    result = minimize(problem, "probed", max_seconds=1)
    assert 0.9 < result.seconds < 1.2  # the step that was under way, and the last evaluation
    assert result.iterations > 0


def test_bad_stretch_returns_to_the_kept_point():
    x, y = data()
    problem = Problem(linear_regressor(5, 2), (x, y), 1)
    method = Probed()
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    for _ in range(51):
        method.step(problem, state, Budget(None, 1000))
    kept = state.good.clone()
    state.theta = state.theta * math.nan
    method.step(problem, state, Budget(None, 1000))
    assert torch.equal(state.theta, kept)
    assert isinstance(state.curvature, DenseCurvature)
    assert bool(torch.isfinite(state.curvature.matrix).all())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"length": 0}, "length"),
        ({"momentum": 1.0}, "momentum"),
        ({"curvature": "kfac"}, "'layered'"),
        ({"window": 0}, "window"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(InvalidInputError, match=words):
        Probed(**settings)
