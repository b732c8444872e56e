"""Derivatives of the proximal operator and of the projections, against finite differences."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.functional import jacobian

from proxlin.prox import dual_exponent, norm, project_ball, project_simplex, prox_norm

from .test_proximal import sample

SMOOTH = (1.05, 1.3, 1.5, 1.9, 2.0, 2.3, 3.0, 8.0, 30.0)
ALL = (1.0, *SMOOTH, math.inf)


def outside(p: float) -> tuple[Tensor, Tensor]:
    """Vectors, and steps that shrink them without making them zero."""
    v = sample("gauss", 4, 5, seed=3)
    fraction = torch.tensor([0.05, 0.3, 0.6, 0.9], dtype=torch.float64)
    return v, fraction * norm(v, p=dual_exponent(p))


@pytest.mark.parametrize("p", ALL)
def test_prox_by_differences(p: float) -> None:
    v, step = outside(p)
    assert gradcheck(
        lambda x, t: prox_norm(x, p=p, step=t), (v.requires_grad_(), step.requires_grad_())
    )


@pytest.mark.parametrize("p", ALL)
def test_ball_by_differences(p: float) -> None:
    v, radius = outside(dual_exponent(p))
    radius[0] = 3 * norm(v[0], p=p)  # one inside
    assert gradcheck(
        lambda x, t: project_ball(x, p=p, radius=t), (v.requires_grad_(), radius.requires_grad_())
    )


def test_simplex_by_differences() -> None:
    v = sample("gauss", 3, 6).requires_grad_()
    total = torch.tensor([0.3, 1.0, 9.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x, t: project_simplex(x, total=t), (v, total))


@pytest.mark.parametrize("p", [1.3, 1.5, 3.0])
def test_second_derivatives_by_differences(p: float) -> None:
    v, step = outside(p)
    assert gradgradcheck(
        lambda x, t: prox_norm(x, p=p, step=t), (v.requires_grad_(), step.requires_grad_())
    )


@pytest.mark.parametrize("p", [1.3, 1.5, 3.0, 30.0])
@pytest.mark.parametrize("function", ["prox", "ball"])
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_forward_mode_agrees_with_reverse_mode(p: float, function: str) -> None:
    def apply(x: Tensor, t: Tensor) -> Tensor:
        if function == "prox":
            return prox_norm(x, p=p, step=t)
        return project_ball(x, p=dual_exponent(p), radius=t)

    inputs = outside(p)
    tangents = (sample("gauss", 4, 5, seed=8), sample("gauss", 1, 4, seed=9)[0])
    _, forward = torch.func.jvp(lambda x: apply(x, inputs[1]), inputs[:1], tangents[:1])
    _, reverse = torch.autograd.functional.jvp(
        lambda x: apply(x, inputs[1]), *inputs[:1], *tangents[:1]
    )
    torch.testing.assert_close(forward, reverse)


@pytest.mark.parametrize("p", ALL)
def test_works_under_torch_func_grad(p: float) -> None:
    v, step = outside(p)

    def value(x: Tensor, t: Tensor) -> Tensor:
        return (prox_norm(x, p=p, step=t) ** 2).sum()

    x, t = v.clone().requires_grad_(), step.clone().requires_grad_()
    expected = torch.autograd.grad(value(x, t), (x, t))
    for ours, theirs in zip(torch.func.grad(value, (0, 1))(v, step), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("p", SMOOTH)
def test_jacobian_of_a_prox_is_symmetric_and_between_zero_and_one(p: float) -> None:
    v, step = outside(p)
    matrix = jacobian(lambda x: prox_norm(x, p=p, step=step[1]), v[1])
    torch.testing.assert_close(matrix, matrix.T)
    eigenvalues = torch.linalg.eigvalsh(matrix)
    assert eigenvalues.min() > -1e-12
    assert eigenvalues.max() < 1 + 1e-12


@pytest.mark.parametrize("p", ALL)
def test_jacobians_of_both_parts_add_up_to_the_identity(p: float) -> None:
    v, step = outside(p)
    u = jacobian(lambda x: prox_norm(x, p=p, step=step[2]), v[2])
    y = jacobian(lambda x: project_ball(x, p=dual_exponent(p), radius=step[2]), v[2])
    torch.testing.assert_close(u + y, torch.eye(5, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_at_every_special_place(p: float, dtype: torch.dtype) -> None:
    v = sample("sparse", 6, 5).to(dtype)
    v[0] = 0
    v[1, 1:] = 0
    step = torch.tensor([1.0, 0.1, 0.0, 1e3, 1e-30, 0.2], dtype=dtype)
    for function in (
        lambda x, t: prox_norm(x, p=p, step=t),
        lambda x, t: project_ball(x, p=p, radius=t),
        lambda x, t: project_simplex(x, total=t),
    ):
        x, t = v.clone().requires_grad_(), step.clone().requires_grad_()
        weights = sample("gauss", 6, 5, seed=1).to(dtype)
        grads = torch.autograd.grad((function(x, t) * weights).sum(), (x, t))
        assert all(g.isfinite().all() for g in grads)
        assert grads[0].dtype == dtype


@pytest.mark.parametrize("p", [1 + 1e-6, 1.0005, 1.3, 1.5, 3.0, 2000.0, 1e6])
def test_single_precision_gradients_keep_their_digits(p: float) -> None:
    v, step = outside(p)
    weights = sample("gauss", 4, 5, seed=2)
    for function in (
        lambda x, t: prox_norm(x, p=p, step=t),
        lambda x, t: project_ball(x, p=dual_exponent(p), radius=t),
    ):
        grads = []
        for dtype in (torch.float32, torch.float64):
            x, t = (z.float().to(dtype).requires_grad_() for z in (v, step))
            value = (function(x, t) * weights.to(dtype)).sum()
            grads.append(torch.autograd.grad(value, (x, t)))
        for single, double in zip(*grads, strict=True):
            torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("p", ALL)
def test_a_swallowed_vector_has_no_gradient_and_an_inner_one_all_of_it(p: float) -> None:
    v = sample("gauss", 2, 5).requires_grad_()
    (g,) = torch.autograd.grad(prox_norm(v, p=p, step=100.0).sum(), v)
    assert (g == 0).all()
    (g,) = torch.autograd.grad(project_ball(v, p=p, radius=100.0).sum(), v)
    assert (g == 1).all()


def test_a_step_shared_by_all_vectors_collects_their_gradients() -> None:
    v = sample("gauss", 3, 5)
    shared = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    own = torch.full((3,), 0.4, dtype=torch.float64, requires_grad=True)
    (a,) = torch.autograd.grad(prox_norm(v, p=1.3, step=shared).sum(), shared)
    (b,) = torch.autograd.grad(prox_norm(v, p=1.3, step=own).sum(), own)
    torch.testing.assert_close(a, b.sum())
