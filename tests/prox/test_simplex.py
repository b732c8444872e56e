import math

import cvxpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxlin.errors import InvalidInputError
from proxlin.prox import project_ball, project_simplex
from proxlin.prox.simplex import _above_by_sorting

from .test_proximal import SHAPES, sample


def check_optimal(v: torch.Tensor, x: torch.Tensor, total: torch.Tensor, tolerance: float) -> None:
    """x >= 0, sum x = total, and v - x is constant where x > 0 and no larger elsewhere."""
    v, x, total = v.double(), x.double(), total.double()
    size = torch.maximum(v.abs().amax(-1), total).clamp(min=1e-300)
    assert (x >= 0).all()
    assert ((x.sum(-1) - total).abs() <= tolerance * size).all()
    gap = v - x
    level = torch.where(x > 0, gap, -math.inf).amax(-1, keepdim=True)
    lowest = torch.where(x > 0, gap, math.inf).amin(-1, keepdim=True)
    assert (level - lowest <= tolerance * size[..., None]).all()
    assert (torch.where(x > 0, level, gap) <= level + tolerance * size[..., None]).all()


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_meets_the_optimality_condition(kind: str, dtype: torch.dtype) -> None:
    v = sample(kind, 8, 60).to(dtype)
    total = torch.logspace(-6, 6, 8, dtype=dtype)
    x = project_simplex(v, total=total)
    assert x.dtype == dtype
    check_optimal(v, x, total, 100 * torch.finfo(dtype).eps)


@settings(max_examples=100, deadline=None)
@given(
    size=st.integers(1, 40),
    total=st.floats(1e-6, 1e6),
    shift=st.floats(-1e3, 1e3),
    kind=st.sampled_from(SHAPES),
    seed=st.integers(0, 10**6),
)
def test_anywhere(size: int, total: float, shift: float, kind: str, seed: int) -> None:
    v = sample(kind, 3, size, seed) + shift
    x = project_simplex(v, total=total)
    check_optimal(v, x, torch.full((3,), total, dtype=torch.float64), 1e-12)
    # Adding a constant to a vector moves it across the simplex's plane only.
    moved = project_simplex(v + 7.5, total=total)
    torch.testing.assert_close(moved, x, rtol=1e-9, atol=1e-9 * (1 + abs(shift)))


def test_equals_a_convex_solver() -> None:
    v = sample("gauss", 1, 9)[0]
    x = cvxpy.Variable(9)
    constraints = [x >= 0, cvxpy.sum(x) == 1.7]
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - v.numpy())), constraints).solve(
        solver=cvxpy.CLARABEL
    )
    expected = torch.from_numpy(x.value)
    torch.testing.assert_close(project_simplex(v, total=1.7), expected, rtol=0, atol=1e-6)


def test_points_of_the_simplex_stay() -> None:
    v = torch.tensor([[0.25, 0.5, 0.25], [1.0, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(project_simplex(v), v)


def test_newton_and_sorting_find_the_same_entries() -> None:
    # Halved again and again: the vectors that Newton's method creeps through most slowly.
    steep = 0.5 ** torch.arange(60, dtype=torch.float64)
    v = torch.stack([steep, steep.flip(0), sample("heavy", 1, 60)[0], torch.ones(60).double()])
    for total in (1e-12, 1e-3, 0.5, 1.9, 30.0):
        x = project_simplex(v, total=total)
        volume = torch.full((4, 1), total, dtype=torch.float64)
        below = v - v.amax(-1, keepdim=True)
        above = _above_by_sorting(below, volume)
        level = ((below * above).sum(-1, keepdim=True) - volume) / above.sum(-1, keepdim=True)
        torch.testing.assert_close(x, (below - level).clamp(min=0), rtol=1e-12, atol=1e-15)


def test_the_rare_slow_vector_is_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    v = sample("heavy", 6, 40)
    expected = project_simplex(v, total=2.0)
    monkeypatch.setattr("proxlin.prox.simplex._MAX_ROUNDS", 1)
    torch.testing.assert_close(project_simplex(v, total=2.0), expected)


def test_l1_ball_is_the_simplex_with_signs() -> None:
    v = sample("heavy", 5, 20)
    radius = 0.4 * v.abs().sum(-1)
    expected = project_simplex(v.abs(), total=radius) * v.sign()
    torch.testing.assert_close(project_ball(v, p=1, radius=radius), expected)


def test_edges() -> None:
    assert project_simplex(torch.tensor([-3.0]), total=2.0).tolist() == [2.0]
    assert project_simplex(torch.tensor([1.0, 5.0, 5.0]), total=0.0).tolist() == [0.0, 0.0, 0.0]
    assert project_simplex(torch.zeros(4)).tolist() == [0.25] * 4
    assert project_simplex(torch.zeros(3, 0)).shape == (3, 0)
    assert project_simplex(torch.zeros(0, 3)).shape == (0, 3)
    huge = project_simplex(torch.tensor([1e30, -1e30, 1e30]), total=2e30)
    torch.testing.assert_close(huge, torch.tensor([1e30, 0.0, 1e30]))


def test_the_input_is_left_alone() -> None:
    v = sample("gauss", 3, 5)
    before = v.clone()
    project_simplex(v)
    assert torch.equal(v, before)


def test_bad_numbers_stay_in_their_vector() -> None:
    v = sample("gauss", 4, 6)
    clean = project_simplex(v)
    v[1, 0] = math.nan
    v[2, 0] = math.inf
    x = project_simplex(v)
    torch.testing.assert_close(x[[0, 3]], clean[[0, 3]])
    assert x[1].isnan().any()
    assert x[2].isnan().any()


def test_refuses_a_negative_total() -> None:
    with pytest.raises(InvalidInputError, match=r"total must be >= 0; got -2.0"):
        project_simplex(torch.ones(2), total=-2.0)
