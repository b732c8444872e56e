import math

import cvxpy as cp
import pytest
import torch

from proxlin.errors import InvalidInputError, MemoryBudgetError
from proxlin.methods.subproblem import ADMM
from proxlin.methods.subproblem.metric import Diagonal, Euclidean
from proxlin.terms import (
    Ball,
    Box,
    ElasticNet,
    GroupLasso,
    Lasso,
    LpNorm,
    NonNegative,
    Penalty,
    Ridge,
    Simplex,
    Tied,
)
from tests.methods.subproblem.linear_model import LAYOUT, random_model
from tests.methods.subproblem.oracle import lp_norm, optimal_value

TIGHT = ADMM(tolerance=1e-8, floor=1e-11, max_steps=20_000)


def group_norm(theta):
    """The rows of the 2 x 3 matrix `first`."""
    return 0.4 * (cp.norm(theta[:3], 2) + cp.norm(theta[3:6], 2))


# name: (regulariser, its expression); the weights are such that the terms matter.
REGULARIZERS = {
    "none": (None, None),
    "ridge": (Ridge(0.3), lambda t: 0.15 * cp.sum_squares(t)),
    "ridge on one": (Ridge(0.3, on="first"), lambda t: 0.15 * cp.sum_squares(t[:6])),
    "lasso": (Lasso(0.3), lambda t: 0.3 * cp.norm1(t)),
    "elastic net": (
        Lasso(0.2) + Ridge(0.3),
        lambda t: 0.2 * cp.norm1(t) + 0.15 * cp.sum_squares(t),
    ),
    "lp norm": (LpNorm(0.3, p=3.0), lambda t: 0.3 * lp_norm(t, 3.0)),
    "group lasso": (GroupLasso(0.4, on="first"), group_norm),
}
CONSTRAINTS = {
    "l1 ball": (Ball(1.0, p=1.0), lambda t: [cp.norm1(t) <= 1]),
    "l2 ball": (Ball(1.0), lambda t: [cp.norm(t, 2) <= 1]),
    "box ball": (Ball(0.3, p=math.inf), lambda t: [cp.norm(t, "inf") <= 0.3]),
    "non-negative": (NonNegative(), lambda t: [t >= 0]),
    "box": (Box(-0.2, 0.5), lambda t: [t >= -0.2, t <= 0.5]),
    "simplex": (Simplex(1.0), lambda t: [t >= 0, cp.sum(t) == 1]),
    "tied": (Tied("first", "second"), lambda t: [t[:6] == t[6:]]),
}


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 4.0, math.inf])
@pytest.mark.parametrize("name", [*REGULARIZERS, *CONSTRAINTS])
def test_objective_equals_that_of_an_independent_solver(p, name):
    regularizer, expression = REGULARIZERS.get(name, (None, None))
    constraint, conditions = CONSTRAINTS.get(name, (None, None))
    penalty = Penalty(LAYOUT, regularizer, constraint)
    model = random_model(1, p=p, rows=6, penalty=penalty, metric=Euclidean(0.5))
    found = TIGHT.solve(model)
    assert found.converged
    assert penalty.contains(found.theta)
    expected = optimal_value(model, expression, conditions)
    assert model.value(found.theta) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_regulariser_and_constraint_together(p):
    penalty = Penalty(LAYOUT, Ridge(0.3) + Lasso(0.1), NonNegative())
    model = random_model(2, p=p, penalty=penalty, rows=6)
    expected = optimal_value(
        model,
        lambda t: 0.15 * cp.sum_squares(t) + 0.1 * cp.norm1(t),
        lambda t: [t >= 0],
    )
    assert model.value(TIGHT.solve(model).theta) == pytest.approx(expected, rel=1e-6)


def test_elastic_net_is_its_two_parts():
    one = random_model(3, p=1.0, penalty=Penalty(LAYOUT, ElasticNet(l1=0.2, l2=0.3)))
    two = random_model(3, p=1.0, penalty=Penalty(LAYOUT, Lasso(0.2) + Ridge(0.3)))
    torch.testing.assert_close(TIGHT.solve(one).theta, TIGHT.solve(two).theta)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_diagonal_metric_against_an_independent_solver(p):
    metric = Diagonal(torch.linspace(0.1, 3.0, LAYOUT.size))
    model = random_model(4, p=p, rows=6, metric=metric)
    assert model.value(TIGHT.solve(model).theta) == pytest.approx(optimal_value(model), rel=1e-6)


def test_diagonal_metric_with_equal_weights_is_euclidean():
    penalty = Penalty(LAYOUT, Lasso(0.3))
    equal = Diagonal(torch.full((LAYOUT.size,), 0.7, dtype=torch.float64))
    one, two = (random_model(5, penalty=penalty, metric=m) for m in (equal, Euclidean(0.7)))
    torch.testing.assert_close(TIGHT.solve(one).theta, TIGHT.solve(two).theta)


@pytest.mark.parametrize("rows", [2, 12])  # fewer and more numbers than parameters
@pytest.mark.parametrize("constraint", [None, NonNegative()])
def test_all_roads_lead_to_the_same_point(rows, constraint):
    penalty = Penalty(LAYOUT, Ridge(0.1), constraint)
    model = random_model(6, p=1.5, rows=rows, penalty=penalty)
    size = LAYOUT.size
    whole = 8 * rows * 3 * size + 24 * size**2
    # Enough for all rows; for the Gram matrix only; for neither.
    budgets = (2**30, max(whole - 1, 48 * size**2), 24 * size**2)
    points = [
        ADMM(tolerance=1e-9, floor=1e-12, max_steps=20_000, max_bytes=b).solve(model).theta
        for b in budgets
    ]
    for point in points[1:]:
        torch.testing.assert_close(point, points[0], rtol=1e-6, atol=1e-7)


def test_balance_does_not_change_the_answer():
    model = random_model(7, p=1.0, penalty=Penalty(LAYOUT, Lasso(0.3)))
    plain = ADMM(tolerance=1e-9, floor=1e-12, max_steps=200_000, balance=False, penalty=0.05)
    found = plain.solve(model)
    assert found.converged
    torch.testing.assert_close(found.theta, TIGHT.solve(model).theta, rtol=1e-5, atol=1e-6)


def test_a_point_is_its_own_model_minimiser_when_it_is_stationary():
    # F = 0 at the anchor and g is least there: no step lowers the model.
    model = random_model(8, p=1.0, penalty=Penalty(LAYOUT, Lasso(0.3)), scale=0.0)
    still = type(model)(**{**vars(model), "residual": torch.zeros_like(model.residual)})
    torch.testing.assert_close(TIGHT.solve(still).theta, still.anchor, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_type_is_kept_and_the_anchor_untouched(dtype):
    model = random_model(9, dtype=dtype, penalty=Penalty(LAYOUT, Ridge(0.1), Ball(1.0)))
    before = model.anchor.clone()
    found = ADMM().solve(model)
    assert found.theta.dtype == dtype
    assert torch.equal(model.anchor, before)
    assert not torch.equal(found.theta, before)


class Countdown:
    """Expires at the given look."""

    def __init__(self, looks):
        self.looks = looks

    def expired(self):
        self.looks -= 1
        return self.looks < 0


def test_deadline_is_kept_and_the_point_lies_in_the_set():
    penalty = Penalty(LAYOUT, None, Ball(0.5))
    model = random_model(10, p=1.0, penalty=penalty)
    found = TIGHT.solve(model, deadline=Countdown(3))
    assert found.steps == 3
    assert not found.converged
    assert penalty.contains(found.theta)


def test_refuses_more_residuals_than_fit():
    with pytest.raises(MemoryBudgetError, match="use SADM"):
        ADMM(max_bytes=1000).solve(random_model(11))


@pytest.mark.parametrize(
    "setting", [{"max_steps": 0}, {"tolerance": -1.0}, {"max_bytes": 0}, {"relaxation": 0.5}]
)
def test_refuses_settings(setting):
    with pytest.raises(InvalidInputError, match=rf"ADMM\({next(iter(setting))}"):
        ADMM(**setting)
