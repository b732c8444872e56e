import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxlin.errors import InvalidInputError
from proxlin.prox import dual_exponent, norm, norm_subgradient, project_ball

from .oracles import EXPONENTS, exact_norm, optimality, project_by_cvxpy
from .test_proximal import SHAPES, sample


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("scale", [1e-24, 1.0, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_feasible_and_nearest(p: float, scale: float, dtype: torch.dtype) -> None:
    for kind in SHAPES:
        v = (sample(kind, 5, 50) * scale).to(dtype)
        fraction = torch.tensor([1e-9, 0.01, 0.3, 0.9, 0.9999], dtype=torch.float64)
        radius = (fraction * exact_norm(v, p)).to(dtype)
        y = project_ball(v, p=p, radius=radius)
        eps = torch.finfo(dtype).eps
        assert (exact_norm(y, p) <= radius.double() * (1 + 64 * eps)).all(), kind
        # v - y is the prox of the dual norm: the condition is the same.
        rest = v.double() - y.double()
        assert optimality(v, rest, p=dual_exponent(p), step=radius) < 64 * eps, kind


@pytest.mark.parametrize("p", [1.001, 1.02, 1.3, 1.5, 2.0, 2.5, 3.0, 40.0])
def test_small_balls_keep_their_digits(p: float) -> None:
    # Far outside, y points along the sub-gradient of the dual norm at v: y -> radius * d||v||_q.
    v = sample("gauss", 6, 30)
    direction = norm_subgradient(v, p=dual_exponent(p))
    y = project_ball(v, p=p, radius=1e-13)
    torch.testing.assert_close(y / 1e-13, direction, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("p", [1.02, 1.3, 1.5, 2.0, 2.5, 3.0, 40.0])
@pytest.mark.parametrize("radius", [1e-25, 1e-30, 1e-36])
def test_the_smallest_balls_of_float32(p: float, radius: float) -> None:
    v = sample("gauss", 6, 30).float()
    direction = norm_subgradient(v.double(), p=dual_exponent(p)).float()
    y = project_ball(v, p=p, radius=radius)
    # Each of the 30 entries of y may miss one smallest normal number.
    torch.testing.assert_close(y / radius, direction, rtol=1e-5, atol=1e-6 + 4e-37 / radius)
    if p >= 2.5:
        torch.testing.assert_close(y / radius, direction, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_inside_come_back_bit_by_bit(p: float, dtype: torch.dtype) -> None:
    v = sample("heavy", 6, 10).to(dtype)
    v[0] = 0
    radius = norm(v, p=p) * 1.001 + 1e-3
    radius[3] = radius[3] / 3  # one outside
    y = project_ball(v, p=p, radius=radius)
    inside = [0, 1, 2, 4, 5]
    assert torch.equal(y[inside], v[inside])
    assert not torch.equal(y[3], v[3])


@pytest.mark.parametrize("p", [1, 1.25, 1.5, 2, 3, 5, math.inf])
def test_equals_a_convex_solver(p: float) -> None:
    v = sample("gauss", 1, 8)[0]
    radius = 0.6 * float(norm(v, p=p))
    expected = project_by_cvxpy(v, p=p, radius=radius)
    # The solver leaves a gap of about 1e-8, and distance grows with its root.
    torch.testing.assert_close(project_ball(v, p=p, radius=radius), expected, rtol=0, atol=5e-5)


@settings(max_examples=80, deadline=None)
@given(p=st.floats(1, 60) | st.just(math.inf), seed=st.integers(0, 10**6))
def test_is_a_projection(p: float, seed: int) -> None:
    a, b = sample("gauss", 4, 6, seed), sample("heavy", 4, 6, seed + 1)
    y, z = project_ball(a, p=p, radius=1.3), project_ball(b, p=p, radius=1.3)
    torch.testing.assert_close(project_ball(y, p=p, radius=1.3), y, rtol=1e-12, atol=1e-13)
    assert (((y - z) ** 2).sum(-1) <= ((y - z) * (a - b)).sum(-1) + 1e-10).all()
    # The obtuse angle: no point of the ball is nearer.
    assert (((a - y) * (z - y)).sum(-1) <= 1e-10).all()


def test_closed_forms() -> None:
    v = torch.tensor([3.0, -4.0], dtype=torch.float64)
    assert project_ball(v, p=1, radius=3.0).tolist() == [1.0, -2.0]
    torch.testing.assert_close(project_ball(v, p=2, radius=1.0), v / 5)
    assert project_ball(v, p=math.inf, radius=3.5).tolist() == [3.0, -3.5]


@pytest.mark.parametrize("p", EXPONENTS)
def test_the_ball_of_radius_zero_is_a_point(p: float) -> None:
    assert (project_ball(sample("gauss", 3, 4), p=p, radius=0.0) == 0).all()
    assert (project_ball(torch.zeros(2, 3), p=p, radius=0.0) == 0).all()


@pytest.mark.parametrize("p", EXPONENTS)
def test_bad_numbers_stay_in_their_vector(p: float) -> None:
    v = sample("gauss", 3, 8)
    clean = project_ball(v, p=p, radius=0.5)
    v[1, 2] = math.nan
    y = project_ball(v, p=p, radius=0.5)
    torch.testing.assert_close(y[[0, 2]], clean[[0, 2]])
    assert y[1].isnan().any()


def test_refuses_a_negative_radius() -> None:
    with pytest.raises(InvalidInputError, match=r"radius must be >= 0; got -1.0"):
        project_ball(torch.ones(2), p=2, radius=-1.0)
