"""The solvers on the convex model of a torch module."""

import pytest
import torch
from torch import nn

from proxlin.methods.subproblem import ADMM, SADM, InnerADMM, Subgradient
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.metric import Diagonal
from proxlin.problem import Problem
from proxlin.terms import NonNegative, Ridge
from tests.methods.subproblem.linear_model import LinearModel

SOLVERS = {
    "sadm": SADM(max_steps=30),
    "admm": ADMM(),
    "subgradient": Subgradient(learning_rate=1e-3, max_steps=100),
}


def model_of(dtype=torch.float32, p=1.0, constraint=None, **options):
    """The convex model of a small tanh network at its initial parameters."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)
    x = torch.randn(40, 4, dtype=dtype)
    y = torch.randn(40, 3, dtype=dtype)
    problem = Problem(network, (x, y), p=p, regularizer=Ridge(1e-2), constraint=constraint)
    anchor = problem.penalty.project(problem.theta())
    return ConvexModel(problem, anchor, **options)


def generator():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("constraint", [None, NonNegative()], ids=["free", ">= 0"])
def test_lowers_the_model(name, p, constraint):
    model = model_of(p=p, constraint=constraint)
    theta = SOLVERS[name].solve(model, generator=generator()).theta
    assert model.decrease(theta) < 0
    assert model.penalty.contains(theta)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_type_is_kept_and_the_module_untouched(name, dtype):
    model = model_of(dtype)
    before = model.problem.theta()
    assert SOLVERS[name].solve(model, generator=generator()).theta.dtype == dtype
    assert torch.equal(model.problem.theta(), before)


def test_module_and_jacobian_give_the_same_answer():
    model = model_of(torch.float64)
    whole = model.linearization()
    plain = LinearModel(
        whole.rows(), whole.residual, model.anchor, model.p, model.penalty, model.metric
    )
    for solver in (ADMM(), SADM(max_steps=5)):
        one, two = (solver.solve(m, generator=generator()).theta for m in (model, plain))
        torch.testing.assert_close(one, two)


def test_no_solver_beats_the_exact_road():
    model = model_of(torch.float64)
    least = model.value(ADMM(tolerance=1e-8).solve(model).theta)
    for solver in SOLVERS.values():
        value = model.value(solver.solve(model, generator=generator()).theta)
        assert value >= least * (1 - 1e-8)


def test_small_memory_takes_the_matrix_free_road_to_the_same_point():
    size = model_of().anchor.numel()
    inner = InnerADMM(tolerance=1e-5)
    free = InnerADMM(tolerance=1e-5, max_bytes=1)
    one, two = (
        SADM(max_steps=2, inner=solver).solve(model_of(torch.float64), generator=generator()).theta
        for solver in (inner, free)
    )
    torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
    # The Gram matrix in blocks of rows, then products only.
    exact = ADMM().solve(model_of(torch.float64)).theta
    for budget in (48 * size**2, 20 * size**2):
        found = ADMM(max_bytes=budget).solve(model_of(torch.float64)).theta
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


def test_a_linearisation_too_large_for_its_rows_is_solved_without_them():
    # The model itself refuses to make rows in so little memory; products still work.
    tight = model_of(torch.float64, max_bytes=2_000)
    found = SADM(max_steps=2).solve(tight, generator=generator()).theta
    expected = SADM(max_steps=2).solve(model_of(torch.float64), generator=generator()).theta
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)
    exact = ADMM().solve(model_of(torch.float64)).theta
    torch.testing.assert_close(ADMM().solve(tight).theta, exact, rtol=1e-4, atol=1e-5)


def test_heavier_weights_hold_their_parameters_back():
    size = model_of().anchor.numel()
    weights = torch.ones(size)
    weights[:10] = 1e4
    model = model_of(metric=Diagonal(weights))
    move = (ADMM().solve(model).theta - model.anchor).abs()
    assert float(move[:10].max()) < 1e-2 * float(move[10:].max())
