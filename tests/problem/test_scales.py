"""Scales that a minority of the rows, or a tenth of the cells, cannot move."""

import pytest
import torch

from proxlin.problem.loss import RowLoss
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
