"""Changes of small losses beside huge ones, in modules of float32."""

import pytest
import torch

from proxlin import Problem
from proxlin.models import mlp_regressor
from proxlin.problem.loss import RowLoss, loss_change


@pytest.mark.parametrize("size", [1e5, 1e9, 1e12])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, float("inf")])
def test_changes_of_clean_rows_are_seen_beside_huge_ones(size, p):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 4, generator=generator), torch.randn(60, 2, generator=generator)
    y[:20] *= size
    torch.manual_seed(0)
    problem = Problem(mlp_regressor(4, 2, hidden=(8,)), (x, y), p)
    before = problem.theta()
    after = before + 1e-3 * torch.randn(before.shape, generator=generator)
    batch = problem.take(slice(0, 60))
    with torch.no_grad():
        losses = problem.losses(before, batch.tensors)
    found = problem.mean_change(before, after, batch, losses)
    # The slope of each row times the change of its output, in float64.
    exact = Problem(mlp_regressor(4, 2, hidden=(8,)).double(), (x.double(), 0 * y.double()), p)
    with torch.no_grad():
        old = exact.residual(before.double(), exact.take(slice(0, 60)).tensors)
        new = exact.residual(after.double(), exact.take(slice(0, 60)).tensors)
    expected = loss_change(problem.loss, old - y.double(), new - old)
    assert found == pytest.approx(float(expected.mean()), rel=1e-2, abs=1e-7)
    change = problem.objective(after) - problem.objective(before)
    assert change == pytest.approx(float(expected.mean()), rel=1e-2, abs=2e-16 * size)


def test_a_change_by_slope_is_the_change_of_the_norm():
    residual = torch.tensor([[3e8, -4e8]], dtype=torch.float64)
    for length in (1e-3, 1.0, 1e3, 1e9):
        shift = length * torch.tensor([[0.6, 0.5]], dtype=torch.float64)
        change = loss_change(RowLoss(2.0), residual, shift)
        # ||r + s|| - ||r|| = (2 r . s + ||s||^2) / (||r + s|| + ||r||), without cancellation.
        sizes = (residual + shift).norm() + residual.norm()
        expected = (2 * (residual * shift).sum() + shift.square().sum()) / sizes
        assert float(change) == pytest.approx(float(expected), rel=1e-6)
