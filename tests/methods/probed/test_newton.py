"""Newton steps by conjugate gradients, and the trust region that judges them."""

import math

import pytest
import torch
from scipy.optimize import lsq_linear
from torch import nn

from proxlin import Problem, minimize
from proxlin.linearize import has_products, linearize
from proxlin.methods.curvature import DenseCurvature
from proxlin.methods.probed.newton import bounded_step, newton_step
from proxlin.methods.probed.trust_region import TrustRegion, exact_region
from proxlin.models import mlp_regressor


def spd(size, generator):
    a = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return a @ a.T + torch.eye(size)


def test_newton_step_minimises_the_quadratic_of_the_batch():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = torch.randn(40, 2, generator=generator, dtype=torch.float64)
    torch.manual_seed(0)
    problem = Problem(mlp_regressor(3, 2, hidden=(4,)).double(), (x, y), 1.5)
    theta = problem.theta()
    model = linearize(problem, theta, (x, y))
    slope, weights = problem.loss.quadratic(model.residual, torch.tensor(1e-2))
    gradient = model.adjoint(slope / len(x))
    shift = torch.full_like(theta, 0.1)
    curvature = DenseCurvature(len(theta), theta.device)
    curvature.add(model.probes(weights, 400, generator), 1.0)
    curvature.factor(1e-2, shift)
    step, form = newton_step(
        model, weights, gradient, shift, curvature, n_rows=len(weights), total=lambda part: part
    )
    rows = model.rows()
    exact = torch.einsum("bnd,bn,bne->de", rows, weights, rows) / len(x) + torch.diag(shift)
    best = -torch.linalg.solve(exact, gradient)
    assert float((step - best).norm()) <= 2e-2 * float(best.norm())
    assert form == pytest.approx(float(step @ exact @ step))


@pytest.mark.parametrize("seed", range(5))
def test_bounded_steps_end_at_the_minimiser_over_the_box(seed):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(15, 12, generator=generator, dtype=torch.float64)
    target = torch.randn(15, generator=generator, dtype=torch.float64)
    low, high = torch.full((12,), -0.1).double(), torch.full((12,), 0.2).double()
    matrix, theta = root.T @ root, torch.zeros(12, dtype=torch.float64)

    def value(point):
        return float((root @ point - target).square().sum())

    for _ in range(8):
        gradient = matrix @ theta - root.T @ target
        step, form = bounded_step(
            lambda v: matrix @ v, gradient, lambda v: v, (low - theta, high - theta)
        )
        assert form == pytest.approx(float(step @ matrix @ step))
        assert value(theta + step) <= (1 + 1e-12) * value(theta)
        theta = (theta + step).clamp(low, high)
    best = lsq_linear(root.numpy(), target.numpy(), (low.numpy(), high.numpy()), tol=1e-14).x
    torch.testing.assert_close(theta, torch.from_numpy(best), atol=1e-6, rtol=0)
    assert bool((theta == low).any() | (theta == high).any())


def test_a_bounded_step_from_the_minimiser_is_none():
    """Every parameter rests at its bound, pressed against it."""
    bounds = (torch.zeros(3), torch.ones(3))
    step, form = bounded_step(lambda v: v, torch.ones(3), lambda v: v, bounds)
    assert torch.equal(step, torch.zeros(3))
    assert form == 0


def test_a_bounded_step_is_found_where_a_bound_cuts_off_the_flat_direction():
    x = torch.tensor([[0.574, -0.819], [0.0819, 0.0574]], dtype=torch.float64)
    matrix, gradient = x.T @ x, -x.T @ torch.tensor([0.0, 10.0], dtype=torch.float64)
    free = torch.full((2,), math.inf, dtype=torch.float64)
    bounds = (-free, torch.tensor([math.inf, 0.0078], dtype=torch.float64))
    step, _ = bounded_step(lambda v: matrix @ v, gradient, lambda v: v, bounds)
    assert float(step[1]) == 0.0078
    assert float(step[0]) == pytest.approx(2.447, abs=1e-2)


def test_good_predictions_widen_and_bad_ones_narrow():
    region = TrustRegion(radius=1e-3)
    assert region.judge(predicted=-1e-3, actual=-1e-3, form=1e-3, loss=1.0)
    assert region.radius == pytest.approx(3e-3)
    assert region.judge(predicted=-1e-3, actual=-1e-4, form=1e-3, loss=1.0)  # told badly, but lower
    assert region.radius == pytest.approx(5e-4)  # half of what the step used
    assert not region.judge(predicted=-1e-3, actual=1e-3, form=5e-4, loss=1.0)


def test_a_leap_beyond_the_prediction_narrows_too():
    region = TrustRegion(radius=1e-3)
    assert region.judge(predicted=-1e-3, actual=-1e-2, form=1e-3, loss=1.0)
    assert region.radius < 1e-3


def test_a_step_inside_the_region_that_was_told_well_is_damped_less():
    region = TrustRegion(radius=1.0, damping=1e-2)
    region.judge(predicted=-1e-3, actual=-1e-3, form=1e-3, loss=1.0)
    assert region.damping < 1e-2
    assert region.radius == 1.0


@pytest.mark.parametrize("actual", [math.nan, math.inf])
def test_what_is_not_finite_is_taken_back(actual):
    region = TrustRegion(radius=1e-3)
    assert not region.judge(predicted=-1e-3, actual=actual, form=1e-3, loss=1.0)
    assert region.radius < 1e-3


def test_the_region_does_not_freeze_below_the_rounding_of_the_loss():
    region = exact_region()
    before = region.radius
    assert region.judge(predicted=0.0, actual=1e-9, form=0.0, loss=1.0)
    assert region.radius > before
    assert region.judge(predicted=0.0, actual=0.0, form=0.0, loss=0.0)


@pytest.mark.parametrize("actual", [1e-2, math.nan])
def test_a_rise_after_a_step_that_should_change_nothing_is_taken_back(actual):
    region = TrustRegion(radius=1e-3)
    assert not region.judge(predicted=-1e-9, actual=actual, form=1e-9, loss=1.0)
    assert region.judge(predicted=-1e-9, actual=1e-7, form=1e-9, loss=1.0)  # rounding


def test_modules_without_products_take_averaged_steps_on_all_rows():
    """A bag of embeddings knows J^T u alone."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(0, 20, (60, 5), generator=generator)
    torch.manual_seed(0)
    net = nn.Sequential(nn.EmbeddingBag(20, 3), nn.Linear(3, 1))
    target = (words < 10).float().mean(1, keepdim=True)
    problem = Problem(net, (words, target), 1.0)
    assert not has_products(problem, problem.theta(), problem.example)
    before = problem.objective(problem.theta())
    assert minimize(problem, max_seconds=None, max_iter=150).objective < 0.5 * before
