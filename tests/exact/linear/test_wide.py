"""More features than rows."""

import pytest
import torch

from proxlin import Ridge, Status
from proxlin.exact.linear import solve_linear
from tests.exact.linear.oracle import planted


@pytest.mark.parametrize("weight", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("p", [1.0, 2.0, "mse"])
def test_ridge_is_solved_to_a_proof(p: float | str, weight: float) -> None:
    x, y = planted(60, 400, 2)
    solution = solve_linear(x, y, p=p, regularizer=Ridge(weight), max_iter=100)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.value <= 1e-8


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_ridge_is_the_same_in_the_span_of_the_rows(p: float) -> None:
    # A ridge has no use for what is orthogonal to all rows, and does not see rotations.
    x, y = planted(20, 100, 2)
    basis = torch.linalg.qr(x.T).Q
    whole = solve_linear(x, y, p=p, regularizer=Ridge(0.1))
    spanned = solve_linear(x @ basis, y, p=p, regularizer=Ridge(0.1))
    assert whole.objective == pytest.approx(spanned.objective, rel=2e-8)
    assert torch.allclose(whole.coef, basis @ spanned.coef, atol=1e-4)


def test_ridge_of_squares_has_its_closed_form() -> None:
    # sum_i r_i^2 / n + a/2 ||B||^2: B = Xc^T (Xc Xc^T + n a/2 I)^-1 Yc on centred data.
    x, y = planted(30, 120, 2)
    moved, left = x - x.mean(0), y - y.mean(0)
    gram = moved @ moved.T + 30 * 0.05 * torch.eye(30, dtype=torch.float64)
    expected = moved.T @ torch.linalg.solve(gram, left)
    solution = solve_linear(x, y, p="mse", regularizer=Ridge(0.1), tol=1e-12)
    assert torch.allclose(solution.coef, expected, atol=1e-6)
