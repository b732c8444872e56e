import math

import pytest
import torch

from proxlin import ADMM, MBO, Adam, NonNegative, Problem, minimize
from proxlin.errors import InvalidInputError
from proxlin.models import Factorization, known_cells

ROWS, COLUMNS, RANK = 12, 7, 3


def table():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, COLUMNS, generator=generator, dtype=torch.float64)
    known = torch.rand(ROWS, COLUMNS, generator=generator) < 0.7
    return torch.arange(ROWS), x, known


def problem(x, known, p=1.5, **terms):
    net = Factorization(ROWS, COLUMNS, RANK).double()
    return Problem(net, (torch.arange(ROWS), x, known), p, residual=known_cells, **terms)


def test_row_i_is_g_h_i():
    net = Factorization(ROWS, COLUMNS, RANK)
    assert sum(t.numel() for t in net.parameters()) == RANK * (ROWS + COLUMNS)
    index = torch.tensor([3, 0, 3])
    expected = torch.stack([net.basis @ net.rows[i] for i in index])
    torch.testing.assert_close(net(index), expected)
    assert torch.linalg.matrix_rank(net(torch.arange(ROWS)).detach()) == RANK


def test_all_cells_known_is_the_plain_residual():
    index, x, _ = table()
    net = Factorization(ROWS, COLUMNS, RANK).double()
    plain = Problem(net, (index, x), p=1)
    masked = Problem(net, (index, x, torch.ones_like(x)), p=1, residual=known_cells)
    theta = plain.theta()
    assert plain.objective(theta) == masked.objective(theta)


@pytest.mark.parametrize("p", [1, 1.5, 2, math.inf, "mse"])
def test_what_a_missing_cell_holds_changes_nothing(p):
    _, x, known = table()
    other = torch.where(known, x, 1e6 * torch.ones_like(x))
    one, two = problem(x, known, p), problem(other, known, p)
    theta = one.theta()
    batches = [(torch.arange(ROWS), t, known) for t in (x, other)]
    assert one.objective(theta) == two.objective(theta)
    gradients = [problem(x, known, p).value_and_gradient(theta, b)[1] for b in batches]
    assert torch.equal(*gradients)


@pytest.mark.parametrize("method", [Adam(), MBO(solver=ADMM(max_steps=30))], ids=["adam", "mbo"])
def test_a_run_does_not_see_missing_cells(method):
    _, x, known = table()
    tables = [x, torch.where(known, x, -1e6 * torch.ones_like(x))]
    runs = [minimize(problem(t, known), method, max_seconds=None, max_iter=3) for t in tables]
    assert torch.equal(runs[0].theta, runs[1].theta)
    assert bool(torch.isfinite(runs[0].theta).all())


def test_the_loss_is_that_of_the_known_cells():
    _, x, known = table()
    task = problem(x, known, p=1)
    net = task.module
    difference = (net.rows @ net.basis.T - x).detach().abs()
    expected = float(difference[known].sum()) / ROWS
    assert task.objective(task.theta()) == pytest.approx(expected, rel=1e-13)


def test_a_nan_in_a_missing_cell_reaches_neither_value_nor_gradient():
    index, x, known = table()
    holes = torch.where(known, x, torch.full_like(x, math.nan))
    net = Factorization(ROWS, COLUMNS, RANK).double()
    residual = known_cells(net, index, holes, known)
    residual.abs().sum().backward()
    assert bool(torch.isfinite(residual).all())
    assert all(bool(torch.isfinite(t.grad).all()) for t in net.parameters())


def test_a_row_without_known_cells_costs_nothing():
    _, x, known = table()
    known[4] = False
    task = problem(x, known, p=2)
    assert float(task.row_losses(task.theta())[4]) == 0.0
    result = minimize(task, MBO(solver=ADMM(max_steps=30)), max_seconds=None, max_iter=2)
    assert bool(torch.isfinite(result.theta).all())


def test_non_negative_factors_start_and_stay_so():
    _, x, known = table()
    net = Factorization(ROWS, COLUMNS, RANK, non_negative=True).double()
    task = Problem(
        net,
        (torch.arange(ROWS), x.abs(), known),
        p=1,
        residual=known_cells,
        constraint=NonNegative(),
    )
    result = minimize(task, MBO(solver=ADMM(max_steps=30)), max_seconds=None, max_iter=3)
    assert result.remarks == ()  # nothing had to be projected
    assert bool((result.theta >= 0).all())


def test_scale_is_the_size_of_the_entries():
    for scale in (0.1, 7.0):
        net = Factorization(400, 300, 5, scale=scale)
        entries = net(torch.arange(400)).detach()
        assert float(entries.square().mean().sqrt()) == pytest.approx(scale, rel=0.1)


def test_the_seed_decides_the_start():
    first, again, other = (Factorization(5, 4, 2, seed=seed).rows for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Factorization(0, 4, 1), "n_rows must be a whole number >= 1; got 0."),
        (lambda: Factorization(4, 2.0, 1), "n_columns must be a whole number >= 1; got 2.0."),
        (lambda: Factorization(4, 3, 0), "rank must be a whole number >= 1; got 0."),
        (lambda: Factorization(4, 3, 4), "rank must be at most 3, the smaller side; got 4."),
        (lambda: Factorization(4, 3, 2, scale=-1), "scale must be > 0; got -1."),
        (lambda: Factorization(4, 3, 2, seed="a"), "seed must be a whole number >= 0; got 'a'."),
    ],
)
def test_bad_input_is_one_sentence(build, words):
    with pytest.raises(InvalidInputError) as caught:
        build()
    assert str(caught.value) == words
