"""One loop around three solvers: the same callbacks, budgets, Ctrl-C and certificates."""

import math
from dataclasses import replace

import pytest
import torch

from proxlin import ADMM, MBO, SADM, Problem, Ridge, Status, minimize
from proxlin.errors import NonFiniteError
from proxlin.exact.factorize import Cells, RowNorm, factorize
from proxlin.exact.linear import solve_linear
from proxlin.methods.contract import Budget, Step
from proxlin.run.loop import Loop
from proxlin.run.method_run import MethodRun
from proxlin.run.result import Certificate, Progress, Result


def table(rows=120, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=generator, dtype=torch.float64)
    y = x @ torch.randn(4, 2, generator=generator, dtype=torch.float64)
    return x, y + torch.randn(rows, 2, generator=generator, dtype=torch.float64)


def linear_problem(**terms):
    x, y = table()
    torch.manual_seed(0)
    return Problem(torch.nn.Linear(4, 2).double(), (x, y), p=2.0, **terms)


def run_linear(**options):
    x, y = table()
    return solve_linear(x, y, p=1.5, **options)


def run_factorization(**options):
    x, y = table()
    return factorize(Cells.of(torch.cat([x, y], 1)), 2, RowNorm(1.0), **options).result


def run_minimize(**options):
    return minimize(linear_problem(), "mbo-admm", **{"max_iter": 30, **options})


SOLVERS = pytest.mark.parametrize("solver", [run_linear, run_factorization, run_minimize])


@SOLVERS
def test_every_solver_tells_its_callbacks_of_the_same_things(solver):
    seen = []
    result = solver(callbacks=[seen.append])
    assert isinstance(result, Result)
    assert all(isinstance(progress, Progress) for progress in seen)
    assert len(seen) == len(result.history.records)
    assert {"iteration", "seconds", "objective", "best"} <= set(result.history.records[-1])
    assert [progress.iteration for progress in seen] == sorted(p.iteration for p in seen)
    assert seen[-1].best == min(progress.objective for progress in seen)
    assert seen[-1].best == pytest.approx(result.objective, rel=1e-12)
    assert seen[-1].theta.shape == result.theta.shape


@SOLVERS
def test_every_solver_stops_when_a_callback_asks(solver):
    result = solver(callbacks=[lambda progress: progress.iteration >= 1])
    assert result.status is Status.STOPPED
    assert math.isfinite(result.objective)


@SOLVERS
def test_every_solver_keeps_the_best_point_on_interruption(solver):
    seen = []

    def press(progress):
        seen.append(progress)
        if progress.iteration >= 1:
            raise KeyboardInterrupt

    result = solver(callbacks=[press])
    assert result.status is Status.INTERRUPTED
    assert result.objective <= min(progress.objective for progress in seen) * (1 + 1e-12)


@SOLVERS
def test_every_solver_obeys_a_budget_of_steps(solver):
    result = solver(max_iter=2)
    assert result.status is Status.ITERATIONS
    assert result.iterations == 2


@SOLVERS
def test_converged_is_what_the_certificate_says(solver):
    tol = 1e-3
    result = solver(tol=tol, max_iter=300)
    assert result.status is Status.CONVERGED
    assert result.certificate.value <= tol
    assert result.certificate.steps_since == 0
    assert result.certificate.rows == 120


def test_kinds_of_certificates_are_told_apart():
    assert run_linear().certificate.kind == "duality gap"
    assert run_factorization().certificate.kind == "stationarity"
    assert run_minimize(tol=1e-3).certificate.kind == "stationarity"
    text = str(Certificate("duality gap", 0.001, "the objective", 5000))
    assert text == "duality gap 0.001 on 5,000 rows"


def test_a_sampling_solver_says_how_many_rows_it_saw():
    method = MBO(solver=SADM(max_steps=5, min_steps=5, batch_size=4, tolerance=1e6))
    result = minimize(linear_problem(), method, max_iter=1, max_seconds=None)
    assert result.certificate is not None
    assert 10 < result.certificate.rows <= 20  # five batches of four, some rows drawn twice


class Settled:
    """MBO whose first measurement is already below any tolerance, as near an optimum."""

    measures_stationarity = True

    def __init__(self):
        self.mbo = MBO(solver=ADMM(), metric=MBO().metric)

    def init(self, problem, theta, generator):
        return self.mbo.init(problem, theta, generator)

    def step(self, problem, state, budget) -> Step:
        return replace(self.mbo.step(problem, state, budget), objective=None, stationarity=1e-9)

    def candidates(self, state):
        return self.mbo.candidates(state)


def test_converged_returns_the_point_that_was_measured():
    """Also where the first full pass was skipped, so that no point was evaluated before."""
    problem = linear_problem(regularizer=Ridge(0.1))
    run = MethodRun(problem, Settled(), Budget(100.0, None), 1e-6, ())
    run._begin = lambda theta: run._expect(1.0)  # as for data too large to be read at once
    before = problem.theta().clone()
    result = run.carry_out(torch.Generator().manual_seed(0), keep_start=False)
    assert result.status is Status.CONVERGED
    assert torch.equal(result.theta, before)
    assert result.objective == problem.objective(before)
    assert result.certificate.steps_since == 0


def test_held_out_rows_that_prefer_another_point_take_the_claim_back():
    x, y = table()
    result = minimize(
        linear_problem(), "mbo-admm", tol=1e-3, max_iter=300, held_out=(x[:20], -y[:20])
    )
    assert result.status is not Status.CONVERGED
    assert result.certificate is None


def test_a_certificate_of_an_earlier_point_says_so():
    result = minimize(linear_problem(), "mbo-admm", max_iter=1, max_seconds=None)
    assert result.certificate.steps_since == 1
    assert "1 step before" in str(result)


def test_not_a_number_ends_a_loop_with_a_remark():
    loop = Loop(Budget(None, 3))

    def advance():
        raise NonFiniteError("the residual is NaN.")

    assert loop.guarded(lambda: loop.run(advance)) is Status.NON_FINITE
    assert loop.remarks == ["The residual is NaN."]
