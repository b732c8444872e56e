"""Fewer rows than features: how many systems that takes, and that the answers are proven."""

import cvxpy
import numpy as np
import pytest
import torch

from proxlin import GroupLasso, RobustFeatureSelector, Status
from proxlin.estimators.selection.selection_path import GroupPath
from proxlin.exact.linear import solve_linear


def rows_of(n, features, seed=0):
    return np.random.default_rng(seed).normal(size=(n, features))


def test_half_of_the_features_are_chosen_in_few_steps_without_targets():
    selector = RobustFeatureSelector().fit(rows_of(12, 60))
    assert selector.support_.sum() == 30
    solutions = selector.path_.solutions
    assert all(solution.status is Status.CONVERGED for solution in solutions)
    assert sum(solution.iterations for solution in solutions) < 600


def test_one_target_of_very_few_rows_is_solved_in_few_steps():
    x = rows_of(5, 400)
    selector = RobustFeatureSelector().fit(x, x[:, :2] @ [1.0, -2.0])
    assert selector.result_.status is Status.CONVERGED
    assert sum(solution.iterations for solution in selector.path_.solutions) < 600


@pytest.mark.parametrize("share", [0.7, 0.1])
def test_the_objective_is_that_of_another_solver(share):
    x = rows_of(6, 15)
    largest = RobustFeatureSelector(1, scaling=False).fit(x, x).alpha_max_
    selector = RobustFeatureSelector(alpha=share * largest, scaling=False).fit(x, x)
    matrix, offset = cvxpy.Variable((15, 15)), cvxpy.Variable((1, 15))
    loss = cvxpy.sum(cvxpy.norm(x @ matrix + np.ones((6, 1)) @ offset - x, 2, axis=1)) / 6
    norms = cvxpy.sum(cvxpy.norm(matrix, 2, axis=1))
    problem = cvxpy.Problem(cvxpy.Minimize(loss + share * largest * norms))
    problem.solve(solver="CLARABEL")
    assert selector.result_.objective == pytest.approx(problem.value, rel=2e-6)
    assert selector.result_.certificate.value <= 1e-6


def test_targets_of_few_rows_are_solved_in_the_axes_of_those_rows():
    x, target = torch.from_numpy(rows_of(6, 10)), torch.from_numpy(rows_of(6, 20, seed=1))
    target[0] *= 1e9  # a row far out leaves the others their digits
    walk = GroupPath(x, target, None, tol=1e-8, max_iter=None, seconds=None)
    alpha = 0.3 * walk.strongest
    found = walk.solve(alpha)
    plain = solve_linear(x, target, p=2, regularizer=GroupLasso(alpha, groups="rows"))
    assert found.coef.shape == plain.coef.shape == (10, 20)
    assert found.objective == pytest.approx(plain.objective, rel=1e-7)
    loss = float(walk.residual(found).norm(dim=1).mean())
    norms = float(found.coef.norm(dim=1).sum())
    assert found.objective == pytest.approx(loss + alpha * norms, rel=1e-9)


def test_a_fit_of_all_rows_is_the_answer_at_every_weaker_strength():
    x = rows_of(6, 15)
    path = RobustFeatureSelector(scaling=False).path(x, x, alphas=[1e-2, 9e-3, 1e-3])
    strong, *weaker = path.solutions
    for alpha, solution in zip(path.alphas[1:], weaker, strict=True):
        alone = RobustFeatureSelector(alpha=alpha, scaling=False).fit(x, x)
        assert solution.objective == pytest.approx(alone.result_.objective, rel=3e-6)
        assert solution.certificate.value <= 1e-6
        np.testing.assert_allclose(solution.coef, strong.coef, atol=1e-6)
    assert weaker[0].iterations == 0  # the first solution proves itself there


def test_progress_is_shown_where_it_is_asked_for(capsys):
    RobustFeatureSelector(2, verbose=True).fit(rows_of(20, 4))
    lines = capsys.readouterr().err
    assert "solutions along the path" in lines
    assert "duality gap" in lines
