import pytest
import torch

from proxlin.exact.factorize.quadratics import minimize_quadratics, weighted_grams


def systems(batch=50, rank=6, rows=9, seed=0):
    g = torch.Generator().manual_seed(seed)
    factors = torch.randn(batch, rows, rank, generator=g, dtype=torch.float64)
    grams = factors.transpose(1, 2) @ factors
    linear = torch.randn(batch, rank, generator=g, dtype=torch.float64)
    return grams, linear


def test_weighted_grams_are_sums_of_weighted_outer_products():
    g = torch.Generator().manual_seed(0)
    weights, basis = torch.rand(7, 11, generator=g), torch.randn(4, 11, generator=g)
    expected = torch.einsum("ij,kj,lj->ikl", weights, basis, basis)
    assert torch.allclose(weighted_grams(weights, basis), expected, atol=1e-5)


def test_free_minimisers_solve_the_normal_equations():
    grams, linear = systems()
    u = minimize_quadratics(grams, linear, torch.zeros_like(linear), non_negative=False)
    assert torch.allclose((grams @ u.unsqueeze(-1)).squeeze(-1), linear, atol=1e-8)


@pytest.mark.parametrize("rows", [9, 4], ids=["definite", "singular"])
def test_non_negative_minimisers_meet_the_optimality_conditions(rows):
    grams, linear = systems(rows=rows)
    if rows < 6:  # bounded below only if b lies in the range of A
        g = torch.Generator().manual_seed(1)
        inside = torch.randn(*linear.shape, 1, generator=g, dtype=torch.float64)
        linear = (grams @ inside).squeeze(-1)
    u = minimize_quadratics(grams, linear, torch.zeros_like(linear), non_negative=True)
    slope = (grams @ u.unsqueeze(-1)).squeeze(-1) - linear
    assert bool((u >= 0).all())
    assert 0 < int((u == 0).sum()) < u.numel()
    assert float(slope.min()) > -1e-8
    assert float((slope * u).abs().max()) < 1e-8


def test_directions_that_no_row_sees_stay_where_they_were():
    grams = torch.diag_embed(torch.tensor([[2.0, 0.0], [0.0, 0.0]], dtype=torch.float64))
    linear = torch.tensor([[4.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    start = torch.tensor([[1.0, 7.0], [3.0, 5.0]], dtype=torch.float64)
    for non_negative in (False, True):
        u = minimize_quadratics(grams, linear, start, non_negative=non_negative)
        expected = torch.tensor([[2.0, 7.0], [3.0, 5.0]], dtype=torch.float64)
        assert torch.allclose(u, expected, atol=1e-9)
