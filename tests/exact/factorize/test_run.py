import pytest
import torch

from proxlin.data import planted_factorization
from proxlin.errors import InvalidInputError
from proxlin.exact.factorize import Cells, RowNorm, factorize, normal_form
from proxlin.exact.factorize.measure import best_basis
from proxlin.exact.factorize.sweep import Objective
from proxlin.methods.contract import Status
from tests.exact.factorize.plants import parts_error, planted_cells, subspace_error


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("non_negative", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_no_sweep_raises_the_objective(p, non_negative, alpha):
    plant = planted_cells(60, 20, 3, non_negative=non_negative, noise=0.2)
    norm = RowNorm(p, alpha, non_negative)
    cells = Cells.of(plant.x)
    found = factorize(cells, 3, norm, max_iter=25, tol=1e-12)
    objective = found.result.history.frame()["objective"]
    assert bool((objective.diff().dropna() <= 0).all())
    assert objective.iloc[-1] < objective.iloc[0]
    assert found.result.objective == pytest.approx(Objective(cells, norm).value(found.u, found.v))
    if non_negative:
        assert bool((found.u >= 0).all())
        assert bool((found.v >= 0).all())


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_subspace_is_found_among_gross_cells_and_missing_ones(seed):
    plant = planted_cells(seed=seed)
    found = factorize(Cells.of(plant.x), 4, RowNorm(1.0))
    assert subspace_error(found.v, plant.right) < 1e-3
    filled = torch.where(plant.x.isnan(), plant.x.nanmedian(0).values, plant.x)
    plain = torch.linalg.svd(filled, full_matrices=False).Vh[:4]
    assert subspace_error(plain, plant.right) > 0.3


@pytest.mark.parametrize("seed", range(3))
def test_planted_parts_are_found_among_gross_cells_and_missing_ones(seed):
    plant = planted_cells(300, 60, 4, non_negative=True, seed=seed)
    found = factorize(Cells.of(plant.x), 4, RowNorm(1.0, non_negative=True))
    assert parts_error(found.v, plant.right) < 5e-3


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_subspace_is_found_among_gross_rows(seed):
    plant = planted_factorization(150, 40, 4, outlier_ratio=0.2, missing_ratio=0.2, seed=seed)
    found = factorize(Cells(plant.x, plant.observed), 4, RowNorm(2.0))
    assert subspace_error(found.v, plant.right.T) < 1e-3


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_convergence_is_claimed_only_where_neither_factor_can_gain(p):
    plant = planted_cells(80, 25, 3, noise=0.2)
    cells, norm = Cells.of(plant.x), RowNorm(p)
    found = factorize(cells, 3, norm, tol=1e-4)
    assert found.result.status is Status.CONVERGED
    objective = Objective(cells, norm)
    value = objective.value(found.u, found.v)
    # Another road to the best basis for these embeddings: plain gradient descent on V alone.
    v = found.v.clone().requires_grad_()
    optimizer = torch.optim.Adam([v], lr=1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        residual = (found.u @ v - cells.values) * cells.observed
        (residual.abs() + 1e-12).pow(p).sum(1).pow(1 / p).mean().backward()
        optimizer.step()
    assert objective.value(found.u, v.detach()) > value * (1 - 1e-4)
    short = factorize(cells, 3, norm, max_iter=1)
    assert short.result.status is Status.ITERATIONS
    assert short.result.certificate is None


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_the_bound_of_the_basis_is_below_what_any_basis_reaches(p):
    plant = planted_cells(80, 25, 3, noise=0.2)
    cells, norm = Cells.of(plant.x), RowNorm(p)
    found = factorize(cells, 3, norm)
    objective = Objective(cells, norm)
    far = found.v + 0.3 * torch.randn(found.v.shape, generator=torch.Generator().manual_seed(0))
    basis, bound = best_basis(objective, found.u, far, floor=1e-6, tolerance=1e-6)
    assert bound <= objective.value(found.u, basis) * (1 + 1e-9)
    assert objective.value(found.u, basis) < objective.value(found.u, far)


@pytest.mark.parametrize("non_negative", [False, True])
def test_the_normal_form_keeps_the_product(non_negative):
    plant = planted_cells(50, 20, 4, non_negative=non_negative)
    for alpha in (0.0, 1.0):
        u, v = normal_form(plant.left, plant.right, alpha=alpha, non_negative=non_negative)
        assert torch.allclose(u @ v, plant.clean, atol=1e-10)
        before = plant.left.square().sum() + plant.right.square().sum()
        if alpha:
            assert torch.isclose(u.square().sum() + v.square().sum(), before)
        elif not non_negative:
            assert torch.allclose(v @ v.T, torch.eye(4, dtype=torch.float64), atol=1e-10)


def test_same_seed_same_bits():
    plant = planted_cells(60, 20, 3, noise=0.1)
    runs = [factorize(Cells.of(plant.x), 3, RowNorm(1.0), seed=3, max_iter=8) for _ in range(2)]
    assert torch.equal(runs[0].v, runs[1].v)


def test_a_rank_beyond_the_table_is_refused():
    with pytest.raises(InvalidInputError, match=r"at most 5.*got 6"):
        factorize(Cells(torch.ones(8, 5)), 6, RowNorm(1.0))


@pytest.mark.parametrize(("p", "alpha"), [(1.0, 0.0), (1.0, 0.1), (2.0, 0.0)])
@pytest.mark.parametrize("size", [1e4, 1e8])
def test_wrong_cells_of_any_size_do_not_call_a_point_converged(p, alpha, size):
    plant = planted_cells(100, 20, 3, noise=0.1)
    clean = Objective(Cells.of(plant.x), RowNorm(p, alpha))
    x = plant.x.clone()
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.05] = size
    objective = Objective(Cells.of(x), RowNorm(p, alpha))
    found = factorize(objective.cells, 3, objective.norm, tol=1e-3)
    measured = objective.bounded_value(found.u, found.v)
    assert measured < 10 * clean.value(torch.zeros_like(found.u), torch.zeros_like(found.v))
    if found.result.status is Status.CONVERGED:
        _, bound = best_basis(objective, found.u, found.v, floor=1e-6, tolerance=1e-6)
        gap = found.result.objective - bound
        assert gap <= 2e-3 * measured + 1e-9 * found.result.objective


def test_the_bounded_objective_is_the_objective_where_nothing_is_far_off():
    plant = planted_cells(100, 20, 3, noise=0.1, gross=0.0)
    for p in (1.0, 1.5, 2.0):
        objective = Objective(Cells.of(plant.x), RowNorm(p))
        found = factorize(objective.cells, 3, objective.norm, max_iter=20)
        bounded = objective.bounded_value(found.u, found.v)
        assert bounded == pytest.approx(found.result.objective, rel=1e-3)
