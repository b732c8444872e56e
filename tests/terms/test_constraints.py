"""Constraints on bare tensors: projections are feasible, idempotent, non-expansive and nearest."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from proxlin.errors import InvalidInputError
from proxlin.terms import Ball, Box, Constraint, Lasso, NonNegative, Simplex, Tied

ALL: list[Constraint] = [
    *(Ball(0.8, p=p) for p in (1.0, 1.4, 2.0, 4.0, inf)),
    NonNegative(),
    Box(-0.3, 0.5),
    Box(0.2, inf),
    Simplex(1.5),
    Simplex(1.5, "rows"),
    Simplex(0.5, "columns"),
    NonNegative() & Ball(0.7, p=1.7),
]


def matrix(seed: int, shape: tuple[int, ...] = (3, 4)) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("c", ALL, ids=repr)
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-6, 0.1, 1.0, 30.0, 1e6]),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
@settings(max_examples=15, deadline=None)
def test_projection_is_contained_idempotent_and_non_expansive(
    c: Constraint, seed: int, scale: float, shape: tuple[int, int]
) -> None:
    v, w = scale * matrix(seed, shape), scale * matrix(seed + 1, shape)
    x, y = c.project(v), c.project(w)
    rounding = 1e-13 * max(1.0, scale)
    assert c.contains(x, tolerance=1e-12 * max(1.0, scale))
    assert torch.allclose(c.project(x), x, rtol=0, atol=rounding)
    assert torch.linalg.vector_norm(x - y) <= torch.linalg.vector_norm(v - w) + rounding


@pytest.mark.parametrize("c", ALL, ids=repr)
def test_projection_is_the_nearest_point(c: Constraint) -> None:
    # (v - x, y - x) <= 0 for all y in C characterises the projection x of v.
    v = 2 * matrix(0)
    x = c.project(v)
    assert not c.contains(v)
    for seed in range(1, 40):
        y = c.project(x + 10.0 ** -(seed % 4) * matrix(seed))
        assert ((v - x) * (y - x)).sum() <= 1e-12


@pytest.mark.parametrize("c", ALL, ids=repr)
def test_points_inside_stay_and_points_outside_are_told(c: Constraint) -> None:
    x = c.project(matrix(3))
    assert c.contains(x, tolerance=1e-12)
    assert not c.contains(x - 3.0 * torch.ones(3, 4, dtype=torch.float64))
    assert not c.contains(torch.full((3, 4), torch.nan))


def test_closed_forms() -> None:
    v = torch.tensor([[3.0, -4.0]])
    assert torch.allclose(Ball(1.0).project(v), torch.tensor([[0.6, -0.8]]))
    assert Ball(1.0, p=inf).project(v).tolist() == [[1.0, -1.0]]
    assert Ball(1.0, p=1.0).project(v).tolist() == [[0.0, -1.0]]
    assert NonNegative().project(v).tolist() == [[3.0, 0.0]]
    assert Box(-1.0, 2.0).project(v).tolist() == [[2.0, -1.0]]
    assert Simplex(2.0).project(v).tolist() == [[2.0, 0.0]]
    assert Simplex(2.0, "rows").project(torch.ones(2, 4)).tolist() == [[0.5] * 4] * 2
    assert Simplex(1.0, "columns").project(torch.ones(2, 4)).tolist() == [[0.5] * 4] * 2


@pytest.mark.parametrize("c", ALL, ids=repr)
def test_shape_and_type_are_kept_and_the_input_untouched(c: Constraint) -> None:
    v = matrix(4).float()
    before = v.clone()
    x = c.project(v)
    assert (x.shape, x.dtype) == (v.shape, torch.float32)
    assert torch.equal(v, before)
    assert c.contains(x)


@pytest.mark.parametrize("c", [Simplex(1.0), *(Ball(1.0, p=p) for p in (1.0, 1.5, 2.0, 3.0))])
def test_a_million_numbers_in_float32_end_up_inside(c: Constraint) -> None:
    v = torch.randn(1_000_000, generator=torch.Generator().manual_seed(0))
    assert c.contains(c.project(v), tolerance=1e-5)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Ball(0.0), r"Ball\(radius=...\) must be > 0; got 0.0"),
        (lambda: Ball(1.0, p=0.3), r"Ball\(p=...\) must be a number >= 1"),
        (lambda: Box(1, 0), r"low <= high; got low=1, high=0"),
        (lambda: Box(inf, inf), "low <= high"),
        (lambda: Box(float("nan"), 1), r"Box\(low=...\) must be a finite number"),
        (lambda: Simplex(-1), r"Simplex\(total=...\) must be > 0"),
        (lambda: Simplex(1.0, "column"), r"Simplex\(along=...\).*Did you mean 'columns'"),
        (lambda: Simplex(1.0, "rows").project(torch.ones(3)), "must act on matrices"),
        (lambda: Tied("a", 3), r"Tied\(second=...\) must be a name or glob pattern"),
        (lambda: Tied([], "a"), r"Tied\(first=...\) must name a parameter"),
        (lambda: Tied("a", "b").project(torch.ones(3)), "cannot be used on a bare tensor"),
        (lambda: NonNegative(on="a").contains(torch.ones(3)), "cannot be used on a bare tensor"),
        (lambda: Ball(1.0).contains(torch.ones(3), -1.0), "tolerance must be >= 0"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        make()


def test_a_bound_that_the_type_cannot_hold_is_none() -> None:
    theta = torch.tensor([-1.0, 3e38])
    assert Box(0.0, 1e39).project(theta).tolist() == [0.0, theta[1].item()]


def test_bounds_beyond_single_precision_are_its_largest_numbers() -> None:
    largest = torch.finfo(torch.float32).max
    assert Box(1e300, 1e308).project(torch.zeros(2)).tolist() == [largest, largest]
    assert Lasso(1e308).prox(torch.ones(2), 1.0).tolist() == [0.0, 0.0]
