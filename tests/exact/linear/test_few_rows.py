"""Newton systems of fewer rows than columns, and bounds that need no balance of the slopes."""

import pytest
import torch

from proxlin import ElasticNet, GroupLasso, Lasso, Status
from proxlin.exact.linear import solve_linear
from proxlin.exact.linear.coordinates import choose_coordinates
from proxlin.exact.linear.lagrangian import GeneralizedHessian, Lagrangian
from proxlin.exact.linear.losses import Norm
from proxlin.exact.linear.penalties import RowGroups, ScaledPenalty
from tests.exact.linear.oracle import planted


def test_the_system_of_the_rows_inverts_that_of_the_coefficients() -> None:
    x, y = planted(4, 12, 3)
    weights = torch.full((4,), 0.25, dtype=torch.float64)
    where = choose_coordinates(
        x, y, weights, intercept=True, whiten=False, joint=True, homogeneous=True
    )
    generator = torch.Generator().manual_seed(1)
    theta = torch.randn(13, 3, generator=generator, dtype=torch.float64)
    zeros, rho = torch.zeros(12, 3, dtype=torch.float64), 2.0
    groups = RowGroups(torch.full((12,), 1.5, dtype=torch.float64))  # some rows 0, some not
    penalty = ScaledPenalty(zeros, groups)
    phi = Lagrangian(where, Norm(2.0), penalty, rho, torch.zeros_like(y), zeros, 0.0, theta)
    v, rows = phi.rows_gradient(where.design @ theta - where.target)
    hessian = GeneralizedHessian(phi, theta, v, rows)
    added = torch.full_like(theta, 0.1)
    full = hessian.matrix() + 0.1 * torch.eye(39, dtype=torch.float64)
    gradient = torch.randn(13, 3, generator=generator, dtype=torch.float64)
    expected = torch.linalg.solve(full, gradient.T.reshape(-1)).reshape(3, 13).T
    found = hessian._inverse_by_rows(added)(gradient)
    zero = (phi.penalty.rest.split(theta[:12], zeros, rho)[0] == 0).all(1)
    assert 0 < int(zero.sum()) < 12
    assert torch.allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weight", [1.0, 1e-2, 1e-3])
@pytest.mark.parametrize("term", ["group", "lasso", "both"])
def test_weak_norms_are_solved_to_a_proof_on_few_rows(term: str, weight: float) -> None:
    x, y = planted(8, 80, 3)
    terms = {
        "group": GroupLasso(weight, groups="rows"),
        "lasso": Lasso(weight),
        "both": ElasticNet(weight, weight),
    }
    solution = solve_linear(x, y, p=2, regularizer=terms[term], tol=1e-6, max_iter=1000)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.value <= 1e-6
