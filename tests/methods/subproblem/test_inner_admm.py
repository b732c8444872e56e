import math

import cvxpy as cp
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxlin.errors import InvalidInputError, NonFiniteError
from proxlin.methods.subproblem import InnerADMM
from proxlin.prox import norm, project_ball, prox_norm
from tests.methods.subproblem.linear_model import LinearRows
from tests.methods.subproblem.oracle import lp_norm

EXPONENTS = (1.0, 1.3, 2.0, 4.0, math.inf)
TIGHT = InnerADMM(max_steps=20_000, tolerance=1e-9, floor=1e-13)


def instance(seed=0, batch=3, outputs=4, size=6, scale=1.0):
    """Rows, offset, centre and weights of a random problem in float64."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = draw(size).abs() + 0.5
    return draw(batch, outputs, size), scale * draw(batch, outputs), scale * draw(size), weights


def objective(x, problem, p):
    rows, offset, centre, weights = problem
    loss = norm(rows @ x + offset, p=p).mean()
    return float(loss + 0.5 * (weights * (x - centre).square()).sum())


def dual_objective(u, problem):
    """min_x <u, A x + b> + 1/2 ||x - c||_m^2, a lower bound if each ||u_i||_q <= 1/B."""
    rows, offset, centre, weights = problem
    force = torch.einsum("bn,bnd->d", u, rows)
    return float((u * offset).sum() + force @ centre - 0.5 * (force.square() / weights).sum())


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("batch", [1, 4])
def test_objective_equals_that_of_an_independent_solver(p, batch):
    rows, offset, centre, weights = instance(batch=batch)
    found = TIGHT.solve(rows, offset, centre, weights, p)
    x = cp.Variable(len(centre))
    losses = [lp_norm(a @ x + b, p) for a, b in zip(rows.numpy(), offset.numpy(), strict=True)]
    distance = cp.sum(cp.multiply(weights.numpy(), cp.square(x - centre.numpy())))
    problem = cp.Problem(cp.Minimize(sum(losses) / batch + 0.5 * distance))
    problem.solve(solver=cp.CLARABEL)
    value = objective(found.x, (rows, offset, centre, weights), p)
    assert found.converged
    assert value == pytest.approx(problem.value, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(
    p=st.sampled_from([1.0, 1.1, 1.5, 2.0, 3.0, math.inf]),
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 9)),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
@example(p=1.0, seed=454, shape=(1, 1, 9), scale=1e-3)  # a fit without any error, y = 0
def test_duality_gap_closes(p, seed, shape, scale):
    problem = instance(seed, *shape, scale)
    found = TIGHT.solve(*problem, p)
    dual_p = math.inf if p == 1 else 1.0 if math.isinf(p) else p / (p - 1)
    feasible = project_ball(found.multiplier, p=dual_p, radius=1 / shape[0])
    upper = objective(found.x, problem, p)
    assert 0 <= upper - dual_objective(feasible, problem) + 1e-12 * upper <= 1e-6 * upper


@pytest.mark.parametrize("p", EXPONENTS)
def test_identity_rows_give_the_prox_of_the_norm(p):
    # min_x ||x + b||_p + m/2 ||x - c||^2 is a prox in x + b.
    _, offset, centre, _ = instance(batch=1, outputs=6)
    weight = torch.tensor(0.7, dtype=torch.float64)
    found = TIGHT.solve(torch.eye(6).double().unsqueeze(0), offset, centre, weight, p)
    expected = prox_norm(centre + offset[0], p=p, step=1 / 0.7) - offset[0]
    torch.testing.assert_close(found.x, expected, rtol=1e-7, atol=1e-7)


def test_rows_of_zeros_leave_the_centre():
    _, offset, centre, weights = instance()
    found = InnerADMM().solve(torch.zeros(3, 4, 6).double(), offset, centre, weights, 1.0)
    torch.testing.assert_close(found.x, centre)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("size", [5, 20])
def test_cholesky_woodbury_and_conjugate_gradients_agree(p, size):
    # 12 numbers: d = 5 takes the Gram road and d = 20 Woodbury's, unless the memory is too small.
    rows, offset, centre, weights = instance(size=size)
    direct = TIGHT.solve(rows, offset, centre, weights, p)
    free = InnerADMM(max_steps=20_000, tolerance=1e-9, floor=1e-13, max_bytes=1)
    torch.testing.assert_close(
        free.solve(rows, offset, centre, weights, p).x, direct.x, rtol=1e-6, atol=1e-7
    )
    operator = free.solve(LinearRows(offset, rows), offset, centre, weights, p)
    torch.testing.assert_close(operator.x, direct.x, rtol=1e-6, atol=1e-7)
    dense = TIGHT.solve(LinearRows(offset, rows), offset, centre, weights, p)
    assert torch.equal(dense.x, direct.x)


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("relaxation", [1.0, 1.6])
@pytest.mark.parametrize(("penalty", "balance"), [(0.3, False), (0.3, True), (30.0, True)])
def test_penalty_balance_and_relaxation_do_not_change_the_answer(p, relaxation, penalty, balance):
    problem = instance(seed=3)
    solver = InnerADMM(
        max_steps=20_000,
        tolerance=1e-9,
        floor=1e-13,
        penalty=penalty,
        balance=balance,
        relaxation=relaxation,
    )
    found = solver.solve(*problem, p)
    assert found.converged
    torch.testing.assert_close(found.x, TIGHT.solve(*problem, p).x, rtol=1e-5, atol=1e-6)


def test_balancing_rescues_a_bad_penalty():
    problem = instance(seed=4, batch=8)
    steps = {
        balance: InnerADMM(penalty=1e4, balance=balance, max_steps=5000, tolerance=1e-6)
        .solve(*problem, 2.0)
        .steps
        for balance in (True, False)
    }
    assert steps[True] * 5 < steps[False]


def test_start_does_not_change_the_answer_and_the_answer_is_a_fixed_point():
    problem = instance(seed=5)
    expected = TIGHT.solve(*problem, 1.5)
    far = TIGHT.solve(*problem, 1.5, start=torch.full((6,), 10.0).double())
    torch.testing.assert_close(far.x, expected.x, rtol=1e-6, atol=1e-7)
    again = InnerADMM(tolerance=1e-4).solve(*problem, 1.5, start=expected.x)
    assert again.steps < InnerADMM(tolerance=1e-4).solve(*problem, 1.5).steps


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_float32_stays_float32_and_is_accurate(p):
    problem = instance(seed=6, batch=5, outputs=30, size=20)
    exact = objective(TIGHT.solve(*problem, p).x, problem, p)
    found = InnerADMM(tolerance=1e-5).solve(*(part.float() for part in problem), p)
    assert found.x.dtype == found.y.dtype == torch.float32
    assert objective(found.x.double(), problem, p) == pytest.approx(exact, rel=1e-5)


def test_residuals_are_what_they_are_called():
    rows, offset, centre, weights = instance(seed=7)
    found = InnerADMM(max_steps=7, tolerance=1e-12).solve(rows, offset, centre, weights, 1.0)
    assert found.steps == 7
    assert not found.converged
    gap = torch.linalg.vector_norm(rows @ found.x + offset - found.y)
    assert found.primal == pytest.approx(float(gap), rel=1e-9)
    force = torch.einsum("bn,bnd->d", found.multiplier, rows)
    torch.testing.assert_close(weights * (found.x - centre), -force, rtol=1e-8, atol=1e-10)


def test_inputs_are_untouched():
    problem = instance()
    copies = [part.clone() for part in problem]
    InnerADMM().solve(*problem, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(problem, copies, strict=True))


def test_zero_residual_at_the_centre_is_the_answer():
    rows, _, centre, weights = instance()
    found = InnerADMM().solve(rows, -(rows @ centre), centre, weights, 1.3)
    torch.testing.assert_close(found.x, centre)


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_a_start_where_the_residual_all_but_vanishes_is_survived(p):
    rows, offset, centre, weights = instance(seed=8, batch=1, outputs=3)
    start = -torch.linalg.pinv(rows[0]) @ offset[0]  # residual of rounding errors only
    expected = TIGHT.solve(rows, offset, centre, weights, p)
    found = TIGHT.solve(rows, offset, centre, weights, p, start=start)
    torch.testing.assert_close(found.x, expected.x, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "setting",
    [
        {"max_steps": 0},
        {"tolerance": 0.0},
        {"floor": -1.0},
        {"penalty": 0.0},
        {"relaxation": 2.0},
        {"max_bytes": 0},
        {"tolerance": math.nan},
    ],
)
def test_refuses_settings(setting):
    with pytest.raises(InvalidInputError, match=rf"InnerADMM\({next(iter(setting))}"):
        InnerADMM(**setting)


def test_refuses_shapes_weights_and_exponents():
    rows, offset, centre, weights = instance()
    for wrong in (
        (rows[:2], offset, centre, weights, 1.0),
        (rows, offset[0], centre, weights, 1.0),
        (rows, offset, centre, -weights, 1.0),
        (rows, offset, centre, weights[:2], 1.0),
        (rows, offset, centre, weights, 0.5),
    ):
        with pytest.raises(InvalidInputError):
            InnerADMM().solve(*wrong)


@pytest.mark.parametrize("place", ["rows", "offset"])
def test_says_that_the_problem_is_not_finite(place):
    rows, offset, centre, weights = instance()
    (rows if place == "rows" else offset)[0, 0] = math.inf
    with pytest.raises(NonFiniteError):
        InnerADMM().solve(rows, offset, centre, weights, 1.0)
