import cvxpy as cp
import pytest
import torch

from proxlin.errors import InvalidInputError
from proxlin.exact.factorize import Cells, RowNorm, embed
from proxlin.exact.factorize.absolute import least_absolute, lower_bound
from tests.exact.factorize.plants import planted_cells


def oracle(x, observed, v, norm):
    """The least value for one row, by a conic solver."""
    u = cp.Variable(len(v))
    cells = observed.nonzero().flatten().numpy()
    residual = u @ v.numpy()[:, cells] - x.numpy()[cells]
    value = cp.norm(residual, norm.p) + norm.alpha / 2 * cp.sum_squares(u)
    problem = cp.Problem(cp.Minimize(value), [u >= 0] if norm.non_negative else [])
    problem.solve(solver="CLARABEL")
    return problem.value


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("non_negative", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_embeddings_reach_the_optimum_of_every_row(p, non_negative, alpha):
    plant = planted_cells(n=6, m=25, rank=3, non_negative=non_negative, noise=0.1)
    norm = RowNorm(p, alpha, non_negative)
    cells = Cells.of(plant.x)
    found = embed(cells, plant.right, norm)
    values = found.losses + norm.penalty(found.u)
    expected = [
        oracle(x, k, plant.right, norm) for x, k in zip(cells.values, cells.observed, strict=True)
    ]
    assert values.tolist() == pytest.approx(expected, rel=1e-6)
    assert float((found.gaps / values).max()) < 1e-7  # and says so itself
    if non_negative:
        assert bool((found.u >= 0).all())


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("non_negative", [False, True])
def test_rows_that_fit_exactly_are_proven_and_quick(p, non_negative):
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.rand(*shape, generator=generator).double() for shape in ((20, 3), (3, 12)))
    found = embed(Cells(u @ v), v, RowNorm(p, 0.0, non_negative), max_steps=60)
    assert not found.unsolved.any()
    assert float(found.gaps.max()) < 1e-10
    torch.testing.assert_close(found.u, u, atol=1e-9, rtol=0)


def test_rows_without_enough_steps_say_so():
    generator = torch.Generator().manual_seed(0)
    x, v = (torch.randn(*shape, generator=generator).double() for shape in ((20, 12), (3, 12)))
    assert embed(Cells(x), v, RowNorm(1.2), max_steps=3).unsolved.all()
    assert not embed(Cells(x), v, RowNorm(1.2)).unsolved.any()


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_the_bound_is_below_every_loss_even_far_from_the_optimum(p):
    plant = planted_cells(n=40, m=25, rank=3, noise=0.1)
    cells = Cells.of(plant.x)
    rough = embed(cells, plant.right, RowNorm(p), max_steps=2)
    exact = embed(cells, plant.right, RowNorm(p))
    assert bool((rough.losses - rough.gaps <= exact.losses * (1 + 1e-9)).all())


def test_the_dual_point_is_feasible_and_zeros_are_exact():
    plant = planted_cells(n=60, m=30, rank=5, non_negative=True, noise=0.1)
    cells = Cells.of(plant.x)
    observed = cells.observed.double()
    u, y = least_absolute(cells.values, observed, plant.right, non_negative=True)
    assert float(y.abs().max()) <= 1
    assert float((y @ plant.right.T).min()) > -1e-8
    assert float((y * (1 - observed)).abs().max()) == 0
    assert int((u == 0).sum()) > 20
    value = ((u @ plant.right - cells.values) * observed).abs().sum(1)
    bound = lower_bound(cells.values, y, u, plant.right, alpha=0.0, non_negative=True)
    assert float(((value - bound) / value).max()) < 1e-8


def test_rows_do_not_see_each_other():
    plant = planted_cells(n=50, m=30, rank=4, noise=0.1)
    whole = embed(Cells.of(plant.x), plant.right, RowNorm(1.0)).u
    small = embed(Cells.of(plant.x, max_bytes=2**16), plant.right, RowNorm(1.0)).u
    assert torch.allclose(whole, small, atol=1e-6)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_missing_cells_count_for_nothing(p):
    plant = planted_cells(n=5, m=30, rank=3, noise=0.1)
    cells = Cells.of(plant.x)
    losses = embed(cells, plant.right, RowNorm(p)).losses
    for x, observed, loss in zip(cells.values, cells.observed, losses, strict=True):
        alone = embed(Cells(x[observed][None]), plant.right[:, observed], RowNorm(p)).losses[0]
        assert float(loss) == pytest.approx(float(alone), rel=1e-7)


@pytest.mark.parametrize(("p", "words"), [(0.5, ">= 1"), (float("inf"), "finite")])
def test_norms_that_cannot_be_used_are_refused(p, words):
    with pytest.raises(InvalidInputError, match=words):
        RowNorm(p)
