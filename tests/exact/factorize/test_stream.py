import pytest
import torch

from proxlin.exact.factorize import Cells, RowNorm, Stream, factorize
from proxlin.exact.factorize.cells import column_norms, column_scales
from proxlin.exact.factorize.fit_factors import FactorSettings, fit_factors
from proxlin.exact.factorize.fixed_basis import FixedBasis
from proxlin.exact.factorize.sweep import Objective
from tests.exact.factorize.plants import parts_error, planted_cells, subspace_error


def streamed(plant, norm, rank, chunk=200, **options):
    cells = Cells.of(plant.x)
    stream = Stream.begin(cells.rows(slice(0, chunk)), rank, norm, **options)
    first = stream.v.clone()
    for start in range(0, len(plant.x), chunk):
        stream.update(cells.rows(slice(start, start + chunk)))
    return first, stream


@pytest.mark.parametrize("seed", range(2))
def test_a_stream_comes_near_what_all_rows_at_once_give(seed):
    plant = planted_cells(2400, 60, 4, noise=0.3, seed=seed)
    first, stream = streamed(plant, RowNorm(1.0), 4)
    assert subspace_error(stream.v, plant.right) < 0.6 * subspace_error(first, plant.right)
    cells = Cells.of(plant.x)
    for start in range(0, 2400, 200):  # a second pass replaces what was embedded early
        stream.update(cells.rows(slice(start, start + 200)))
    error = subspace_error(stream.v, plant.right)
    whole = factorize(Cells.of(plant.x), 4, RowNorm(1.0), max_iter=25)
    assert error < 1.5 * subspace_error(whole.v, plant.right)


def test_non_negative_streams_stay_non_negative_and_find_the_parts():
    plant = planted_cells(2000, 30, 3, non_negative=True, noise=0.05)
    _, stream = streamed(plant, RowNorm(1.0, non_negative=True), 3)
    assert bool((stream.v >= 0).all())
    assert parts_error(stream.v, plant.right) < 5e-3


def test_a_copy_learns_without_changing_the_stream():
    plant = planted_cells(400, 20, 3)
    _, stream = streamed(plant, RowNorm(1.0), 3)
    before = stream.v.clone()
    stream.copy().update(Cells.of(plant.x[:100]))
    assert torch.equal(stream.v, before)


def bad_columns(seed=0):
    plant = planted_cells(300, 40, 3, noise=0.1, gross=0.0, seed=seed)
    noise = torch.randn(300, 5, generator=torch.Generator().manual_seed(seed))
    plant.x[:, :5] += 8 * noise
    return plant


def test_bad_columns_do_not_bend_the_others():
    plant = bad_columns()
    options = {"tol": 1e-4, "max_iter": 100, "max_seconds": None, "seed": 0}
    cells = Cells.of(plant.x)
    errors = {}
    for by_column in (True, False):
        found = fit_factors(cells, 3, RowNorm(2.0), FactorSettings(by_column=by_column, **options))
        errors[by_column] = float((found.u @ found.v - plant.clean)[:, 5:].abs().mean())
    assert errors[True] < 0.05
    assert errors[True] < 0.5 * errors[False]


@pytest.mark.parametrize("p", [1.5, 2.0])
def test_embedding_rows_in_scaled_columns_does_not_raise_the_column_objective(p):
    # The scaled embedding minimises a function above the objective that touches it.
    plant = bad_columns()
    cells, norm = Cells.of(plant.x), RowNorm(p)
    objective = Objective(cells.transposed, norm)
    g = torch.Generator().manual_seed(0)
    noise = torch.randn(plant.left.shape, generator=g, dtype=plant.left.dtype)
    u, v = plant.left + 0.1 * noise, plant.right
    scales = column_scales(column_norms(cells, u, v, p), p)
    moved = FixedBasis(v, norm, scales).embed(cells).u
    assert objective.value(v.T, moved.T) < objective.value(v.T, u.T)
