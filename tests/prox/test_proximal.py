import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from proxlin.errors import InvalidInputError
from proxlin.prox import dual_exponent, norm, project_ball, prox_norm

from .oracles import EXPONENTS, exact_norm, optimality, prox_by_bisection, prox_by_cvxpy

FRACTIONS = (1e-30, 1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6)  # of the step that leads to zero
SHAPES = ("gauss", "sparse", "geometric", "equal", "heavy", "integer")


def sample(kind: str, rows: int, size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    v = torch.randn(rows, size, dtype=torch.float64, generator=generator)
    if kind == "sparse":
        v *= torch.rand(rows, size, generator=generator) < 0.2
    if kind == "geometric":
        v = v.sign() * 10 ** (-8 * torch.rand(rows, size, dtype=torch.float64, generator=generator))
    if kind == "equal":
        v = torch.ones_like(v)
    if kind == "heavy":
        v /= torch.randn(rows, size, dtype=torch.float64, generator=generator)
    if kind == "integer":
        v = torch.randint(-3, 4, (rows, size), generator=generator).double()
    v[:, 0] += v.abs().sum(-1) == 0
    return v


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_meets_the_optimality_condition(p: float, scale: float, dtype: torch.dtype) -> None:
    for kind in SHAPES:
        v = (sample(kind, len(FRACTIONS), 50) * scale).to(dtype)
        step = (torch.tensor(FRACTIONS).double() * exact_norm(v, dual_exponent(p))).to(dtype)
        u = prox_norm(v, p=p, step=step)
        assert u.dtype == dtype
        assert optimality(v, u, p=p, step=step) < 32 * torch.finfo(dtype).eps, kind


@settings(max_examples=150, deadline=None)
@given(
    p=st.floats(1, 4) | st.floats(4, 1e3) | st.sampled_from(EXPONENTS),
    size=st.integers(1, 30),
    fraction=st.floats(0, 1.2),
    exponent=st.integers(-28, 28),
    kind=st.sampled_from(SHAPES),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_meets_the_optimality_condition_anywhere(
    *,
    p: float,
    size: int,
    fraction: float,
    exponent: int,
    kind: str,
    dtype: torch.dtype,
    seed: int,
) -> None:
    v = (sample(kind, 3, size, seed) * 10.0**exponent).to(dtype)
    step = (fraction * exact_norm(v, dual_exponent(p))).to(dtype)
    u = prox_norm(v, p=p, step=step)
    assert optimality(v, u, p=p, step=step) < 32 * torch.finfo(dtype).eps


@pytest.mark.parametrize("p", [1.05, 1.3, 1.5, 1.8, 2.0, 2.4, 3.0, 8.0, 20.0])
@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.8])
def test_equals_alg_3_by_bisection(p: float, fraction: float) -> None:
    v = sample("gauss", 1, 12)[0]
    v[3] = 0
    step = fraction * float(norm(v, p=dual_exponent(p)))
    expected = prox_by_bisection(v, p=p, step=step)
    torch.testing.assert_close(prox_norm(v, p=p, step=step), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("p", [1, 1.25, 1.5, 2, 3, 5, math.inf])
def test_equals_a_convex_solver(p: float) -> None:
    v = sample("gauss", 1, 8)[0]
    step = 0.4 * float(norm(v, p=dual_exponent(p)))
    expected = prox_by_cvxpy(v, p=p, step=step)
    u = prox_norm(v, p=p, step=step)

    def objective(x: Tensor) -> float:
        return float(step * norm(x, p=p) + 0.5 * ((x - v) ** 2).sum())

    # The objective is 1-strongly convex and the solver leaves a gap of about 1e-8.
    torch.testing.assert_close(u, expected, rtol=0, atol=5e-5)
    assert objective(u) <= objective(expected) + 1e-12


def test_closed_forms() -> None:
    v = torch.tensor([3.0, -1.0, 0.25], dtype=torch.float64)
    assert prox_norm(v, p=1, step=0.5).tolist() == [2.5, -0.5, 0.0]
    torch.testing.assert_close(prox_norm(v, p=2, step=1.0), v * (1 - 1 / v.norm()))
    assert prox_norm(v, p=math.inf, step=1.0).tolist() == [2.0, -1.0, 0.25]
    assert prox_norm(v, p=math.inf, step=2.5).tolist() == [0.75, -0.75, 0.25]


@pytest.mark.parametrize("p", EXPONENTS)
def test_one_entry_is_shrunk_by_the_step(p: float) -> None:
    v = torch.tensor([[2.0], [-2.0], [0.5], [0.0]], dtype=torch.float64)
    expected = torch.tensor([[1.0], [-1.0], [0.0], [0.0]], dtype=torch.float64)
    torch.testing.assert_close(prox_norm(v, p=p, step=1.0), expected)


@pytest.mark.parametrize("p", EXPONENTS)
def test_equal_entries_are_shrunk_equally(p: float) -> None:
    # By symmetry u = c (1, ..., 1) with c = 1 - step * n^(1/p - 1).
    v = torch.ones(2, 9, dtype=torch.float64)
    c = 1 - 0.3 * 9 ** (1 / p - 1)
    torch.testing.assert_close(prox_norm(v, p=p, step=0.3), c * v)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exactly_zero_from_the_dual_norm_on_and_not_before(p: float, dtype: torch.dtype) -> None:
    v = sample("gauss", 5, 20).to(dtype)
    v[4] = 0
    threshold = norm(v, p=dual_exponent(p))
    assert (prox_norm(v, p=p, step=1.00001 * threshold) == 0).all()
    assert (prox_norm(v, p=p, step=1e30) == 0).all()
    assert (norm(prox_norm(v[:4], p=p, step=0.9999 * threshold[:4]), p=p) > 0).all()


@pytest.mark.parametrize("p", EXPONENTS)
def test_no_step_changes_nothing(p: float) -> None:
    v = sample("sparse", 4, 9).float()
    before = v.clone()
    assert torch.equal(prox_norm(v, p=p, step=0), v)
    prox_norm(v, p=p, step=0.5)
    assert torch.equal(v, before)


@pytest.mark.parametrize("p", [*EXPONENTS, 1.9, 2.1])
@pytest.mark.parametrize("step", [2e-38, 1e-40])
def test_the_smallest_steps_of_float32_change_nothing(p: float, step: float) -> None:
    v = torch.ones(2, 2000)
    assert torch.equal(prox_norm(v, p=p, step=step), v)


@pytest.mark.parametrize("p", EXPONENTS)
def test_moreaus_identity(p: float) -> None:
    v = sample("heavy", 40, 17)
    step = torch.linspace(0.01, 1.2, 40, dtype=torch.float64) * norm(v, p=dual_exponent(p))
    u = prox_norm(v, p=p, step=step)
    y = project_ball(v, p=dual_exponent(p), radius=step)
    torch.testing.assert_close(u + y, v, rtol=1e-13, atol=1e-13)


@settings(max_examples=80, deadline=None)
@given(p=st.floats(1, 60) | st.just(math.inf), step=st.floats(0, 5), seed=st.integers(0, 10**6))
def test_is_firmly_non_expansive(p: float, step: float, seed: int) -> None:
    a, b = sample("gauss", 4, 6, seed), sample("heavy", 4, 6, seed + 1)
    change = prox_norm(a, p=p, step=step) - prox_norm(b, p=p, step=step)
    assert ((change**2).sum(-1) <= (change * (a - b)).sum(-1) + 1e-10).all()


@settings(max_examples=80, deadline=None)
@given(p=st.floats(1, 60) | st.just(math.inf), factor=st.floats(1e-6, 1e6), seed=st.integers(0, 99))
def test_follows_signs_order_and_scale(p: float, factor: float, seed: int) -> None:
    v = sample("heavy", 3, 11, seed)
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (11,), generator=generator).double() * 2 - 1
    order = torch.randperm(11, generator=generator)
    u = prox_norm(v, p=p, step=0.7)
    flipped = prox_norm(v * signs, p=p, step=0.7) * signs
    torch.testing.assert_close(flipped, u, rtol=1e-10, atol=1e-12)
    permuted = prox_norm(v[:, order], p=p, step=0.7)
    torch.testing.assert_close(permuted, u[:, order], rtol=1e-10, atol=1e-12)
    scaled = prox_norm(factor * v, p=p, step=factor * 0.7) / factor
    torch.testing.assert_close(scaled, u, rtol=1e-10, atol=1e-12)


def test_is_continuous_in_p_at_the_closed_forms() -> None:
    v = sample("gauss", 6, 15)
    for p, near in ((1.0, 1 + 1e-9), (2.0, 2 + 1e-9), (2.0, 2 - 1e-9), (math.inf, 1e10)):
        torch.testing.assert_close(
            prox_norm(v, p=near, step=0.8), prox_norm(v, p=p, step=0.8), rtol=0, atol=1e-7
        )
    for p in (1.5, 3.0):  # solved by a formula at p, by iteration beside it
        for near in (p - 1e-9, p + 1e-9):
            torch.testing.assert_close(
                prox_norm(v, p=near, step=0.8), prox_norm(v, p=p, step=0.8), rtol=1e-7, atol=1e-8
            )


@pytest.mark.parametrize("p", [1, 1.3, 1.5, 2, 3, math.inf])
def test_leading_dimensions_are_a_batch(p: float) -> None:
    v = sample("gauss", 24, 7).reshape(2, 3, 4, 7)
    step = torch.rand(3, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    u = prox_norm(v, p=p, step=step)
    for i in range(2):
        for j in range(3):
            for k in range(4):
                one = prox_norm(v[i, j, k], p=p, step=float(step[j, 0]))
                torch.testing.assert_close(u[i, j, k], one, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("p", [1, 1.3, 1.5, 2, 3, math.inf])
def test_any_layout_in_memory(p: float) -> None:
    v = sample("gauss", 24, 8).reshape(4, 6, 8)
    for view in (v.mT, v[:, ::2], v[..., ::2], v.permute(2, 1, 0), v[:1].expand(3, 6, 8), v[0].T):
        for function in (
            lambda x: prox_norm(x, p=p, step=0.4),
            lambda x: project_ball(x, p=p, radius=0.4),
        ):
            result = function(view)
            assert result.shape == view.shape
            torch.testing.assert_close(result, function(view.clone().contiguous()))


@pytest.mark.parametrize("p", [1.3, 1.5, 3.0])
def test_many_blocks_are_one_batch(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    v = sample("heavy", 50, 20)
    step = torch.linspace(0, 1.1, 50, dtype=torch.float64) * norm(v, p=dual_exponent(p))
    whole = prox_norm(v, p=p, step=step)
    monkeypatch.setattr("proxlin.prox.moreau._BLOCK", 70)  # three vectors and a bit
    torch.testing.assert_close(prox_norm(v, p=p, step=step), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 3)])
def test_nothing_comes_back_as_nothing(p: float, shape: tuple[int, ...]) -> None:
    v = torch.zeros(shape)
    assert prox_norm(v, p=p, step=0.3).shape == shape
    assert project_ball(v, p=p, radius=0.3).shape == shape


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_bad_numbers_stay_in_their_vector(p: float, bad: float) -> None:
    v = sample("gauss", 5, 8).float()
    step = torch.full((5,), 0.5)
    clean = prox_norm(v, p=p, step=step)
    dirty = v.clone()
    dirty[1, 2] = bad
    u = prox_norm(dirty, p=p, step=step)
    others = [0, 2, 3, 4]
    torch.testing.assert_close(u[others], clean[others])
    assert not u[1].isfinite().all()


@pytest.mark.parametrize("p", EXPONENTS)
def test_a_bad_step_stays_with_its_vector(p: float) -> None:
    v = sample("gauss", 3, 8)
    u = prox_norm(v, p=p, step=torch.tensor([0.5, math.nan, 0.5]))
    assert u[1].isnan().all()
    assert u[[0, 2]].isfinite().all()


def test_vectors_that_need_longer_do_not_disturb_the_others() -> None:
    # Rows that differ by many orders, and rows at the edge of being zero, in one block.
    for p in (1.1, 1.5, 3.0, 40.0):
        v = torch.cat([sample(kind, 8, 30) for kind in SHAPES])
        threshold = norm(v, p=dual_exponent(p))
        fraction = torch.tensor([1e-12, 0.2, 0.9, 1 - 1e-8, 1 - 1e-15, 1.0, 1.5, 0.0]).repeat(6)
        step = fraction.double() * threshold
        together = prox_norm(v, p=p, step=step)
        alone = torch.stack(
            [prox_norm(row, p=p, step=float(t)) for row, t in zip(v, step, strict=True)]
        )
        size = v.abs().amax(-1, keepdim=True)
        torch.testing.assert_close(together / size, alone / size, rtol=0, atol=1e-14)


@pytest.mark.parametrize("step", [-1.0, math.nan, math.inf, "1", None, torch.tensor([0.1, -0.1])])
def test_refuses_bad_steps(step: object) -> None:
    with pytest.raises(InvalidInputError, match="step must be"):
        prox_norm(torch.ones(2, 3), p=2, step=step)  # type: ignore[arg-type]


def test_refuses_steps_of_another_shape() -> None:
    with pytest.raises(InvalidInputError, match=r"broadcasts to \(2,\), one value per vector"):
        prox_norm(torch.ones(2, 3), p=2, step=torch.ones(3))


def test_refuses_bad_vectors_and_exponents() -> None:
    with pytest.raises(InvalidInputError, match="float32 or float64"):
        prox_norm(torch.ones(2, dtype=torch.int32), p=2, step=1.0)
    with pytest.raises(InvalidInputError, match="must be a torch tensor"):
        prox_norm([1.0, 2.0], p=2, step=1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"p must be a number >= 1 or inf; got 0.9"):
        prox_norm(torch.ones(2), p=0.9, step=1.0)
