import math

import numpy
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proxlin.errors import InvalidInputError
from proxlin.problem.loss import Redescending, RowLoss
from proxlin.prox import norm_subgradient

TINY = torch.tensor(0.0, dtype=torch.float64)
VECTORS = st.lists(st.floats(-10, 10), min_size=1, max_size=6)


@pytest.mark.parametrize("p", [1, 1.3, 2, 5, math.inf])
def test_loss_is_the_norm_of_each_row(p):
    residual = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(0)).double()
    expected = numpy.linalg.norm(residual.numpy(), ord=p, axis=-1) if p in (1, 2, math.inf) else (
        (residual.abs() ** p).sum(-1) ** (1 / p)
    )  # fmt: skip
    torch.testing.assert_close(RowLoss(p)(residual), torch.as_tensor(expected))


def test_mse_is_the_squared_length_of_each_row():
    residual = torch.tensor([[3.0, 4.0], [0.0, -2.0]])
    assert RowLoss("mse")(residual).tolist() == [25.0, 4.0]


@settings(max_examples=300, deadline=None)
@given(pairs=st.data(), p=st.floats(1, 2))
def test_weights_up_to_p_2_give_a_quadratic_above_the_norm(pairs, p):
    # ||r + s||_p <= ||r||_p + u . s + 1/2 sum_j w_j s_j^2 for every s, with u the gradient at r.
    r = torch.tensor(pairs.draw(VECTORS), dtype=torch.float64)
    s = torch.tensor(
        pairs.draw(st.lists(st.floats(-20, 20), min_size=len(r), max_size=len(r))),
        dtype=torch.float64,
    )
    assume(float(r.abs().max()) > 1e-3)
    assume(float(r.abs().min()) > 1e-6 * float(r.abs().max()))  # at a zero no quadratic is above
    loss = RowLoss(p)
    weights = loss.curvature_weights(r[None], least=TINY)[0]
    above = loss(r) + norm_subgradient(r, p=p) @ s + 0.5 * (weights * s * s).sum()
    assert float(loss(r + s)) <= float(above) * (1 + 1e-10)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_the_quadratic_touches_where_the_entries_change_sign(p):
    # s = -2 r mirrors the residual: the norm is the same, and the quadratic says so exactly.
    loss, r = RowLoss(p), torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64)
    weights = loss.curvature_weights(r[None], least=TINY)[0]
    change = norm_subgradient(r, p=p) @ (-2 * r) + 0.5 * (weights * (2 * r) ** 2).sum()
    assert float(change) == pytest.approx(0, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(values=VECTORS, p=st.floats(2, 8))
def test_weights_beyond_p_2_dominate_the_hessian(values, p):
    r = torch.tensor(values, dtype=torch.float64)
    assume(float(r.abs().max()) > 1e-2)
    assume(float(r.abs().min()) > 1e-3 * float(r.abs().max()))
    loss = RowLoss(p)
    hessian = torch.autograd.functional.hessian(lambda v: loss(v[None]).sum(), r)
    weights = loss.curvature_weights(r[None], least=TINY)[0]
    lowest = float(torch.linalg.eigvalsh(torch.diag(weights) - hessian)[0])
    assert lowest >= -1e-9 * float(weights.max())
    # Equality on the diagonal but for the rank-one part (p-1) u u^T / ||r||_p.
    u = norm_subgradient(r, p=p)
    expected = torch.diag(weights) - (p - 1) * torch.outer(u, u) / loss(r)
    torch.testing.assert_close(hessian, expected, rtol=1e-7, atol=1e-9 * float(weights.max()))


@pytest.mark.parametrize("p", [9, 1000.0, math.inf])
def test_the_weights_of_large_exponents_are_those_of_eight(p):
    r = torch.tensor([[3.0, -1.0, 0.5]])
    weights = [RowLoss(each).curvature_weights(r, torch.tensor(1e-2)) for each in (p, 8)]
    assert torch.equal(*weights)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, math.inf, "mse"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_finite_and_positive_where_residuals_vanish(p, dtype):
    for residual in (torch.zeros(3, 4), torch.eye(3, 4), torch.tensor([[1e-30, 1e30]])):
        weights = RowLoss(p).curvature_weights(residual.to(dtype), torch.tensor(0.0))
        assert weights.dtype == dtype
        assert weights.shape == residual.shape
        assert bool(torch.isfinite(weights).all())
        assert bool((weights >= 0).all())
        assert float(weights.max()) > 0


def test_the_floor_bounds_the_weights_of_small_entries():
    residual = torch.tensor([[1.0, 1e-9], [1.0, 1.0]], dtype=torch.float64)
    weights = RowLoss(1).curvature_weights(residual, least=torch.tensor(0.0075))
    # At p = 1, w = 1 / |r| with |r| >= 0.0075.
    expected = torch.tensor([[1, 1 / 0.0075], [1, 1]], dtype=torch.float64)
    torch.testing.assert_close(weights, expected, rtol=1e-6, atol=0)


def test_mse_has_the_hessian_2():
    residual = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    weights = RowLoss("mse").curvature_weights(residual, torch.tensor(0.1))
    assert torch.equal(weights, torch.full((3, 4), 2.0))


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (0.5, "p must be a number >= 1 or inf; got 0.5."),
        (math.nan, "p must be a number >= 1 or inf; got nan."),
        (None, "p must be a number >= 1 or inf; got None."),
        (True, "p must be a number >= 1 or inf; got True."),
        ("MSE", "p must be a number >= 1, inf or \"mse\"; got 'MSE'."),
    ],
)
def test_other_exponents_are_refused(p, words):
    with pytest.raises(InvalidInputError) as caught:
        RowLoss(p)
    assert str(caught.value) == words


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
def test_a_redescending_row_has_the_slope_of_its_loss_and_none_far_out(p):
    residual = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).double()
    residual = residual * torch.linspace(0.1, 4.0, 40).double()[:, None]
    loss, norm = Redescending(p, 5.0), RowLoss(p)
    inputs = residual.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(loss(inputs).sum(), inputs)
    value, slope = loss.value_and_slope(residual)
    torch.testing.assert_close(slope, expected)
    torch.testing.assert_close(value, loss(residual))
    near = residual / 1e4
    torch.testing.assert_close(loss(near), norm(near), rtol=1e-5, atol=0)
    far = 1e12 * residual
    assert float(loss.value_and_slope(far)[1].abs().max()) < 1e-18
    torch.testing.assert_close(loss(far), torch.full_like(value, 2.5 * math.pi))


@settings(max_examples=300, deadline=None)
@given(pairs=st.data(), p=st.floats(1, 2), limit=st.floats(0.1, 50))
def test_the_quadratic_of_a_redescending_row_is_above_its_loss(pairs, p, limit):
    r = torch.tensor(pairs.draw(VECTORS), dtype=torch.float64)
    shift = st.lists(st.floats(-20, 20), min_size=len(r), max_size=len(r))
    s = torch.tensor(pairs.draw(shift), dtype=torch.float64)
    assume(float(r.abs().min()) > 1e-3)
    loss = Redescending(p, limit)
    slope, weights = loss.quadratic(r, TINY)
    bound = loss(r) + slope @ s + 0.5 * (weights * s.square()).sum()
    assert float(loss(r + s)) <= float(bound) * (1 + 1e-9) + 1e-9
