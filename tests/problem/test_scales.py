"""Scales that a minority of the rows, or a tenth of the cells, cannot move."""

import pytest
import torch

from proxlin import Problem
from proxlin.models import mlp_regressor
from proxlin.problem.loss import RowLoss, loss_change
from proxlin.problem.scales import clipped_mean, median, row_sizes, scales_of
from proxlin.problem.shards import LocalBatch

SIZES = [1e1, 1e3, 1e6, 1e12, 1e30]


def dirty(n, share, size, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(n, 5, generator=generator, dtype=dtype)
    rows[: int(share * n)] *= size
    return rows


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, float("inf")])
def test_scales_stay_within_those_of_clean_rows(size, share, p):
    loss = RowLoss(p)
    clean, residual = dirty(400, 0.0, 1.0), dirty(400, share, size)
    losses = loss(residual)
    (scales,) = scales_of([LocalBatch((residual,), 400)], [residual], [losses], clip=True)
    # With 40 % of the rows far away the median is the 5/6 quantile of the others.
    assert float(clean.abs().mean(1).median()) <= float(scales.size)
    assert float(scales.size) <= float(clean.abs().mean(1).quantile(0.9))
    assert float(scales.loss) <= 5 * float(loss(clean).quantile(0.9))


@pytest.mark.parametrize("size", SIZES)
def test_a_tenth_of_the_cells_does_not_move_the_size_of_a_row(size):
    generator = torch.Generator().manual_seed(0)
    clean = torch.randn(200, 50, generator=generator)
    bad = torch.rand(200, 50, generator=generator) < 0.1
    sizes = row_sizes(torch.where(bad, size * clean, clean))
    assert float(sizes.median()) <= 3.0 * float(row_sizes(clean).median())


def test_a_row_that_is_mostly_predicted_exactly_keeps_its_mean():
    row = torch.zeros(1, 100)
    row[0, :10] = 3.0
    assert float(row_sizes(row)) == pytest.approx(0.3)


def test_exact_zeros_are_not_a_scale():
    values = torch.tensor([0.0, 0.0, 0.0, 2.0, 4.0, 6.0])
    assert float(median(values)) == 4.0
    assert float(clipped_mean(values)) == 2.0
    assert float(clipped_mean(torch.zeros(3))) == 0.0


@pytest.mark.parametrize("counts", [(5, 3), (8, 0), (1, 7)])
def test_a_sample_of_a_spread_batch_is_that_of_the_whole(counts):
    rows = torch.arange(8.0)
    whole, _ = LocalBatch((rows,), 8).sample(4)
    split = torch.split(torch.arange(8), counts)
    parts = [LocalBatch((rows[positions],), 8, positions).sample(4) for positions in split]
    spread = [
        place.spread(rows[positions][own])
        for positions, (own, place) in zip(split, parts, strict=True)
    ]
    assert torch.equal(sum(spread), rows[whole])


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
