"""Rows many orders of magnitude beyond the others neither hide them nor spoil the proof."""

import pytest
import torch

from proxlin import GroupLasso, Lasso, Ridge, Status
from proxlin.exact.linear import solve_linear
from tests.exact.linear.oracle import mean_loss, planted


@pytest.mark.parametrize("regularizer", [Ridge(0.1), Lasso(0.1), GroupLasso(0.1), None])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_far_rows_of_two_sizes_leave_a_proof(
    p: float, regularizer: Ridge | Lasso | GroupLasso | None
) -> None:
    x, y = planted(200, 10, 3)
    x[0] = 1e6
    x[1] *= 1e4
    solution = solve_linear(x, y, p=p, regularizer=regularizer, max_iter=200)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.value <= 1e-8


@pytest.mark.parametrize("size", [1e9, 1e12])
@pytest.mark.parametrize(("p", "targets"), [(1.0, 1), (1.0, 2), (2.0, 2)])
def test_a_row_at_an_extreme_distance_only_pins_its_own_direction(
    p: float, targets: int, size: float
) -> None:
    # Such a row forces x_0 B + b = y_0, which in the limit is d B = 0 for its direction d.
    x, y = planted(40, 3, targets)
    direction = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    across = torch.tensor([[0.8, 0.0], [0.0, 1.0], [-0.6, 0.0]], dtype=torch.float64)
    x[0] = size * direction
    solution = solve_linear(x, y, p=p, max_iter=200)
    limit = solve_linear(x[1:] @ across, y[1:], p=p)
    assert solution.status is Status.CONVERGED
    assert solution.objective == pytest.approx(limit.objective * 39 / 40, rel=1e-5)
    assert solution.objective == pytest.approx(mean_loss(x, y, solution, p), rel=1e-14)


def test_dividing_rows_by_their_size_changes_no_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = planted(60, 4, 2)
    x[0] *= 100.0
    shrunk = solve_linear(x, y, p=2, regularizer=Lasso(0.1))
    monkeypatch.setattr("proxlin.exact.linear.coordinates._LARGE", 1e300)
    plain = solve_linear(x, y, p=2, regularizer=Lasso(0.1))
    assert shrunk.objective == pytest.approx(plain.objective, rel=2e-8)
