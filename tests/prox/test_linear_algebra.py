"""Conjugate gradients and Cholesky factors of symmetric, positive matrices."""

import math
from functools import partial

import pytest
import torch

from proxlin.errors import NonFiniteError
from proxlin.prox.linear_algebra import (
    cholesky,
    conjugate_gradients,
    shifted_cholesky,
    solve_cholesky,
)

solved = partial(conjugate_gradients, tolerance=1e-2, max_steps=30)


def spd(size, generator):
    a = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return a @ a.T + torch.eye(size)


def test_conjugate_gradients_end_after_one_step_with_the_inverse_as_preconditioner():
    generator = torch.Generator().manual_seed(0)
    matrix = spd(30, generator)
    right = torch.randn(30, generator=generator, dtype=torch.float64)
    calls = 0

    def times(v):
        nonlocal calls
        calls += 1
        return matrix @ v

    found = solved(times, right, lambda v: torch.linalg.solve(matrix, v))
    torch.testing.assert_close(found, torch.linalg.solve(matrix, right))
    assert calls == 1


def test_conjugate_gradients_solve_a_small_system_in_as_many_steps_as_unknowns():
    generator = torch.Generator().manual_seed(1)
    matrix = spd(6, generator)
    right = torch.randn(6, generator=generator, dtype=torch.float64)
    found = solved(lambda v: matrix @ v, right, lambda v: v)
    error = matrix @ found - right
    assert float(error.norm()) <= 1e-2 * float(right.norm())


def test_no_right_side_no_step():
    zero = torch.zeros(3)
    assert torch.equal(solved(lambda v: v, zero, lambda v: v), zero)


def test_conjugate_gradients_end_where_no_more_is_allowed():
    generator = torch.Generator().manual_seed(2)
    matrix = spd(20, generator)
    right = torch.randn(20, generator=generator, dtype=torch.float64)

    def form(allowed):
        found = solved(lambda v: matrix @ v, right, lambda v: v, largest_form=allowed)
        return float(found @ matrix @ found)

    assert 0 < form(1e-9) < form(0.3 * form(math.inf)) < form(math.inf)


def test_cholesky_solves_and_keeps_the_type():
    matrix = spd(5, torch.Generator().manual_seed(0))
    right = torch.arange(5.0)
    solution = solve_cholesky(cholesky(matrix, "bad"), right)
    assert solution.dtype == torch.float32
    torch.testing.assert_close(matrix @ solution.double(), right.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("matrix", [-torch.eye(2), torch.full((2, 2), math.nan)])
def test_what_has_no_factor_is_refused_with_the_sentence_given(matrix):
    with pytest.raises(NonFiniteError, match="no such factor"):
        cholesky(matrix, "no such factor")


def test_a_shift_that_rounding_swallows_is_raised_until_the_factor_exists():
    vector = torch.tensor([1.0, 1e-3, -1.0], dtype=torch.float64)
    matrix = torch.outer(vector, vector)
    factor = shifted_cholesky(matrix, torch.zeros(3), "bad")
    torch.testing.assert_close(factor @ factor.T, matrix, atol=1e-12, rtol=0)
    with pytest.raises(NonFiniteError, match="bad"):
        shifted_cholesky(-torch.eye(3), torch.zeros(3), "bad")
