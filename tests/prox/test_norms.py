import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, hessian, jvp, vjp, vmap

from proxlin.errors import InvalidInputError
from proxlin.prox import dual_exponent, norm, norm_subgradient

from .oracles import EXPONENTS, exact_norm

# torch's own forward-mode rules are scripts, and say so once.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def sample(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_definition_at_every_scale(p: float, scale: float, dtype: torch.dtype) -> None:
    v = (sample(6, 40) * scale).to(dtype)
    v[0] = 0
    v[1, 5:] = 0
    value = norm(v, p=p)
    assert value.dtype == dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(value.double(), exact_norm(v, p), rtol=8 * eps, atol=0)


@settings(max_examples=60, deadline=None)
@given(p=st.floats(1, 60) | st.just(math.inf), size=st.integers(1, 12), seed=st.integers(0, 999))
def test_is_a_norm(p: float, size: int, seed: int) -> None:
    a, b = sample(2, 5, size, seed=seed)
    assert (norm(a + b, p=p) <= norm(a, p=p) + norm(b, p=p) + 1e-14).all()
    torch.testing.assert_close(norm(-3 * a, p=p), 3 * norm(a, p=p))
    q = dual_exponent(p)
    assert ((a * b).sum(-1).abs() <= norm(a, p=p) * norm(b, p=q) + 1e-12).all()


@pytest.mark.parametrize("p", EXPONENTS)
def test_subgradient_attains_holders_inequality(p: float) -> None:
    v = sample(5, 30)
    v[:, 3] = 0
    u = norm_subgradient(v, p=p)
    torch.testing.assert_close(norm(u, p=dual_exponent(p)), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close((u * v).sum(-1), norm(v, p=p))


@pytest.mark.parametrize("p", EXPONENTS)
def test_gradient_is_the_subgradient_also_at_zeros(p: float) -> None:
    v = sample(4, 7)
    v[0] = 0
    v[1, 2:5] = 0
    v[2, :2] = 5.0  # a tie for the maximum
    v.requires_grad_()
    (g,) = torch.autograd.grad(norm(v, p=p).sum(), v)
    torch.testing.assert_close(g, norm_subgradient(v.detach(), p=p))
    assert (g[0] == 0).all()
    assert (g[1, 2:5] == 0).all()


def test_subgradient_at_infinity_is_spread_over_the_largest_entries() -> None:
    u = norm_subgradient(torch.tensor([2.0, -2.0, 1.0, 0.0]), p=math.inf)
    assert u.tolist() == [0.5, -0.5, 0.0, 0.0]


@pytest.mark.parametrize("p", EXPONENTS)
def test_second_derivatives_are_finite_at_zeros(p: float) -> None:
    v = sample(3, 4)
    v[0] = 0
    v[1, 1:] = 0
    v.requires_grad_()
    (g,) = torch.autograd.grad(norm(v, p=p).sum(), v, create_graph=True)
    if g.requires_grad:
        (second,) = torch.autograd.grad((g * sample(3, 4, seed=1)).sum(), v)
        assert second.isfinite().all()


@pytest.mark.parametrize("p", [1.3, 1.5, 2.0, 3.0, 7.0])
def test_first_and_second_derivatives_by_differences(p: float) -> None:
    v = sample(3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: norm(x, p=p), v)
    assert torch.autograd.gradgradcheck(lambda x: norm(x, p=p), v)


@pytest.mark.parametrize("p", EXPONENTS)
def test_works_under_torch_func(p: float) -> None:
    v, tangent = sample(2, 6, 5)
    v[0] = 0
    u = norm_subgradient(v, p=p)
    torch.testing.assert_close(vmap(grad(lambda x: norm(x, p=p)))(v), u)
    _, slope = jvp(lambda x: norm(x, p=p), (v,), (tangent,))
    torch.testing.assert_close(slope, (u * tangent).sum(-1))
    _, pull = vjp(lambda x: norm(x, p=p), v)
    torch.testing.assert_close(pull(torch.ones(6, dtype=torch.float64))[0], u)


def test_hessian_of_the_euclidean_norm() -> None:
    v = sample(4)
    length = norm(v, p=2)
    unit = v / length
    expected = (torch.eye(4, dtype=torch.float64) - torch.outer(unit, unit)) / length
    torch.testing.assert_close(hessian(lambda x: norm(x, p=2))(v), expected)


@pytest.mark.parametrize("p", EXPONENTS)
def test_empty_and_single(p: float) -> None:
    assert norm(torch.zeros(3, 0), p=p).tolist() == [0.0, 0.0, 0.0]
    assert norm(torch.zeros(0, 3), p=p).shape == (0,)
    assert norm(torch.tensor([[-2.5]]), p=p).tolist() == [2.5]
    assert norm_subgradient(torch.zeros(3, 0), p=p).shape == (3, 0)


@pytest.mark.parametrize("p", EXPONENTS)
def test_bad_numbers_stay_in_their_vector(p: float) -> None:
    v = torch.ones(3, 4)
    v[0, 1] = math.nan
    v[1, 1] = math.inf
    value = norm(v, p=p)
    assert value[0].isnan()
    assert value[1] == math.inf
    assert value[2].isfinite()


def test_dual_exponents() -> None:
    assert dual_exponent(1) == math.inf
    assert dual_exponent(math.inf) == 1
    for p in (1.01, 1.5, 2.0, 7.0):
        assert 1 / p + 1 / dual_exponent(p) == pytest.approx(1)


@pytest.mark.parametrize("p", [0.5, math.nan, "2", True, None])
def test_refuses_what_is_no_exponent(p: object) -> None:
    with pytest.raises(InvalidInputError, match=r"p must be a number >= 1 or inf; got"):
        norm(torch.ones(2), p=p)  # type: ignore[arg-type]


def test_refuses_what_are_no_vectors() -> None:
    with pytest.raises(InvalidInputError, match="float32 or float64"):
        norm(torch.ones(2, dtype=torch.int64), p=1)
    with pytest.raises(InvalidInputError, match="at least one dimension"):
        norm(torch.tensor(1.0), p=1)
