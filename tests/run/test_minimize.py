import itertools
import logging
import math
import signal
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from proxlin import (
    ADMM,
    MBO,
    SADM,
    SGD,
    Adam,
    EarlyStopping,
    NonNegative,
    Probed,
    Problem,
    Ridge,
    Status,
    minimize,
)  # fmt: skip
from proxlin.errors import InvalidInputError
from proxlin.exact.linear import solve_linear
from proxlin.methods import METHODS, Step
from proxlin.methods.contract import Budget
from proxlin.models import linear_regressor


def planted(n=200, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=generator, dtype=dtype)
    weight = torch.tensor([[1.0, -2.0, 0.5, 3.0]], dtype=dtype)
    noise = 0.1 * torch.randn(n, 1, generator=generator, dtype=dtype)
    return x, x @ weight.T + noise


def problem(p=1.0, dtype=torch.float32, **terms):
    x, y = planted(dtype=dtype)
    return Problem(linear_regressor(4).to(dtype), (x, y), p, **terms)


METHOD_NAMES = sorted(METHODS)
STEPS = {"mbo-admm": 2, "mbo-sadm": 2, "mbo-sgd": 2}


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_every_method_lowers_the_objective_and_leaves_the_best_in_the_module(name):
    task = problem(p=1.5, regularizer=Ridge(1e-3))
    before = task.objective(task.theta())
    result = minimize(task, name, max_seconds=None, max_iter=STEPS.get(name, 30))
    assert result.objective < before
    assert task.objective(task.theta()) == pytest.approx(result.objective, rel=1e-6)
    assert torch.equal(task.theta(), result.theta)
    assert result.objective == pytest.approx(result.history.frame()["best"].min())


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_same_seed_same_bits(name):
    runs = [minimize(problem(), name, max_seconds=None, max_iter=2, seed=3) for _ in range(2)]
    assert torch.equal(runs[0].theta, runs[1].theta)
    assert runs[0].objective == runs[1].objective


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_float64_stays_float64(name):
    result = minimize(problem(dtype=torch.float64), name, max_seconds=None, max_iter=3)
    assert result.theta.dtype == torch.float64


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_returned_point_is_feasible(name):
    task = problem(constraint=NonNegative())
    with torch.no_grad():
        task.module.weight.fill_(-1.0)
    result = minimize(task, name, max_seconds=None, max_iter=STEPS.get(name, 10))
    assert bool((result.theta >= 0).all())
    assert any("projected" in remark for remark in result.remarks)


def test_start_is_kept_only_if_asked_for():
    assert minimize(problem(), "adam", max_iter=2).start is None
    task = problem()
    start = task.theta()
    assert torch.equal(minimize(task, "adam", max_iter=2, keep_start=True).start, start)


def test_global_random_state_is_left_alone():
    task = problem()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    minimize(task, "probed", max_seconds=None, max_iter=5, seed=1)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_time_budget_is_kept(name, ticking_clock):
    result = minimize(problem(), name, max_seconds=2)
    assert result.status in (Status.TIME, Status.NO_DECREASE)
    assert result.seconds < 2.2  # the step that was under way, and the last evaluation


def test_status_says_what_to_do(ticking_clock):
    result = minimize(problem(), "adam", max_seconds=0.1)
    assert "max_seconds" in str(result.status)


def test_iteration_budget():
    result = minimize(problem(), "adam", max_seconds=None, max_iter=7)
    assert result.status is Status.ITERATIONS
    assert result.iterations == 7


def test_without_a_budget_a_run_ends_when_progress_does():
    result = minimize(problem(), Adam(learning_rate=0.05), max_seconds=None)
    assert result.status is Status.NO_DECREASE


@pytest.mark.parametrize("callbacks", [[3], print, None, ["print"]])
def test_callbacks_that_cannot_be_called_are_refused(callbacks):
    with pytest.raises(InvalidInputError, match=r"callbacks must be functions"):
        minimize(problem(), "adam", callbacks=callbacks)


def test_callbacks_see_progress_and_can_stop():
    seen = []

    def watch(told):
        seen.append(told)
        return told.iteration >= 5

    result = minimize(problem(), "adam", max_seconds=None, max_iter=100, callbacks=[watch])
    assert result.status is Status.STOPPED
    assert seen[0].iteration == 0
    assert all(b.best <= a.best for a, b in itertools.pairwise(seen))
    assert len(seen) == len(result.history.records)


def test_interrupt_returns_the_best_so_far():
    task = problem()

    def press(progress):
        if progress.iteration >= 5:
            signal.raise_signal(signal.SIGINT)

    result = minimize(task, "adam", max_iter=1000, callbacks=[press])
    assert result.status is Status.INTERRUPTED
    assert 5 <= result.iterations < 1000
    assert torch.equal(task.theta(), result.theta)


class Explodes(SGD):
    """Two good steps, then NaN."""

    def step(self, problem, state, budget):
        if budget.iteration >= 2:
            state.theta = state.theta * math.nan
            return Step()
        return super().step(problem, state, budget)


def test_non_finite_keeps_the_best_point():
    task = problem()
    result = minimize(task, Explodes(learning_rate=1e-3), max_seconds=None, max_iter=20)
    assert result.status is Status.NON_FINITE
    assert bool(torch.isfinite(result.theta).all())
    assert math.isfinite(result.objective)


def test_non_finite_start_is_refused():
    task = problem()
    with torch.no_grad():
        task.module.weight.fill_(math.nan)
    with pytest.raises(InvalidInputError, match="finite at the start"):
        minimize(task, "adam", max_iter=1)


def test_unfinished_models_are_no_convergence():
    result = minimize(problem(), MBO(solver=ADMM(max_steps=1)), max_iter=3, tol=1e3)
    assert result.status is not Status.CONVERGED
    assert result.certificate is None


def test_converged_is_claimed_only_when_measured():
    result = minimize(problem(dtype=torch.float64), "mbo-admm", max_iter=100, tol=1e-4)
    assert result.status is Status.CONVERGED
    assert result.certificate.value <= 1e-4


def test_flush_denormal_state_is_restored():
    minimize(problem(), "adam", max_iter=1)
    assert float(torch.full((1,), 1e-40) * 1.0) != 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: minimize(problem(), "adm"), "'adam'"),
        (lambda: minimize(problem(), "adam", tol=1e-3), "measures stationarity"),
        (lambda: minimize(problem(), "adam", max_seconds=0), "max_seconds must be > 0"),
        (lambda: minimize(problem(), "adam", max_iter=1.5), "max_iter"),
        (lambda: minimize(problem("mse"), MBO()), '"mse"'),
        (lambda: Adam(learning_rate=-1), "Adam(learning_rate=...) must be > 0; got -1"),
        (lambda: SGD(schedule="cos"), "'cosine'"),
        (lambda: SGD(momentum=1), ">= 0 and < 1"),
        (lambda: Adam(betas=0.9), "two numbers"),
        (lambda: Probed(length=1e308), "Probed(length=...) must lie in [1e-06, 100]"),
        (lambda: minimize(problem(), SADM()), "MBO(solver=...)"),
        (lambda: minimize(problem(), Adam), "must be a name or settings"),
        (lambda: minimize(problem(), "adam", seed=1.5), "seed"),
        (lambda: minimize(nn.Linear(2, 2), "adam"), "Problem(module, (x, y))"),
        (lambda: minimize(problem(), max_seconds="10"), "or None for no limit; got '10'"),
        (lambda: minimize(problem(), max_seconds=math.inf), "or None for no limit; got inf"),
        (lambda: minimize(problem(), callbacks=[EarlyStopping]), "such as [EarlyStopping()]"),
        (lambda: minimize(problem(), Probed), "Call it: Probed()"),
        (lambda: minimize(problem(), "mbo-sgd", tol=1e-2), "measures stationarity"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_remarks_are_logged(caplog):
    task = problem(constraint=NonNegative())
    with torch.no_grad():
        task.module.weight.fill_(-1.0)
    with caplog.at_level(logging.WARNING, logger="proxlin"):
        minimize(task, "adam", max_iter=1)
    assert "projected" in caplog.text


@pytest.mark.parametrize("p", [1, 1.5, 2, "mse"])
def test_degenerate_data_give_no_nan(p):
    for x in (torch.ones(1, 3), torch.zeros(10, 3), torch.ones(10, 3)):
        net = nn.Sequential(nn.Linear(3, 3), nn.Softplus(), nn.Linear(3, 3))
        result = minimize(Problem(net, x, p), "probed", max_seconds=None, max_iter=120)
        assert math.isfinite(result.objective)
        assert bool(torch.isfinite(result.theta).all())


def test_polishing_reaches_the_optimum_and_measures_it():
    rough = minimize(problem(dtype=torch.float64), max_seconds=None, max_iter=5)
    fine = minimize(problem(dtype=torch.float64), max_seconds=None, max_iter=5, polish=20)
    x, y = planted(dtype=torch.float64)
    best = solve_linear(x, y, p=1.0).objective
    assert rough.certificate is None
    assert rough.objective > best * (1 + 1e-3)
    assert fine.objective == pytest.approx(best, rel=1e-5)
    assert fine.certificate is not None
    assert fine.certificate.rows == len(x)
    assert fine.iterations > 5
    assert fine.history.frame()["iteration"].is_monotonic_increasing


def test_stationarity_is_measured_on_the_rows_asked_for():
    start = minimize(problem(), max_seconds=None, max_iter=0, stationarity_rows=50)
    end = minimize(problem(), max_seconds=None, max_iter=200, stationarity_rows=50)
    assert start.certificate.rows == end.certificate.rows == 50
    assert end.certificate.value < 0.2 * start.certificate.value
    assert minimize(problem(), max_iter=1, stationarity_rows=10**6).certificate.rows == 200
    assert "on 50 rows" in str(end)


@pytest.mark.parametrize("asked", [{"polish": 1}, {"stationarity_rows": 5}])
def test_what_squared_errors_cannot_give_is_refused_before_the_run(asked):
    squared = problem(p="mse")
    before = squared.theta()
    with pytest.raises(InvalidInputError, match="keeps a norm"):
        minimize(squared, max_iter=5, **asked)
    assert torch.equal(squared.theta(), before)


def test_only_max_iter_is_a_budget_without_a_clock() -> None:
    x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))

    def run() -> Tensor:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 8))
        return minimize(Problem(net, x, p=1), max_iter=3).theta

    assert torch.equal(run(), run())


def test_sixty_seconds_are_the_budget_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(max_seconds: float | None, max_iter: int | None, *rest: Any) -> Budget:
        asked.append((max_seconds, max_iter))
        return Budget(0.01, max_iter, *rest)

    monkeypatch.setattr(sys.modules["proxlin.run.minimize"], "Budget", note)
    problem = Problem(nn.Linear(2, 1), (torch.zeros(3, 2), torch.ones(3, 1)), p=1)
    minimize(problem)
    minimize(problem, max_iter=1)
    minimize(problem, max_iter=1, max_seconds=5)
    assert asked == [(60.0, None), (None, 1), (5, 1)]
    with pytest.raises(InvalidInputError, match="max_seconds"):
        minimize(problem, max_seconds="soon")  # type: ignore[arg-type]


_SPENT = [0.0]  # seconds, by a clock that counts the rows of `_SlowNet` alone


class _SlowNet(nn.Module):
    """A linear net that takes a hundredth of a second for 2,000 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        _SPENT[0] += 5e-6 * len(x)
        output: Tensor = self.line(x)
        return output


@pytest.fixture
def counted_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_of = lambda _: lambda: _SPENT[0]  # noqa: E731
    monkeypatch.setattr(sys.modules["proxlin.run.minimize"], "clock_of", clock_of)


def slow_problem(rows: int) -> Problem:
    torch.manual_seed(0)
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0))
    return Problem(_SlowNet(), (x, x[:, :1]), p=1)


@pytest.mark.usefixtures("counted_rows")
@pytest.mark.parametrize(("rows", "sampled"), [(20_000, True), (2_000, False)])
def test_where_a_pass_takes_too_much_of_the_time_the_objective_is_that_of_a_sample(rows, sampled):
    slow = slow_problem(rows)
    result = minimize(slow, "adam", max_seconds=0.6)
    index = torch.linspace(0, rows - 1, 2048).long() if sampled else None
    assert result.objective == pytest.approx(slow.objective(result.theta, index), rel=1e-6)
    assert any("2,048 rows" in remark for remark in result.remarks) is sampled
    assert result.iterations > 3


@pytest.mark.usefixtures("counted_rows")
def test_where_all_rows_polish_the_end_none_stand_for_them():
    slow = slow_problem(20_000)
    result = minimize(slow, "adam", max_seconds=0.6, polish=1)
    assert not any("evenly spread" in remark for remark in result.remarks)
    assert result.objective == pytest.approx(slow.objective(result.theta), rel=1e-6)


class _Measuring(Adam):
    """Adam that measures the full objective after each step."""

    def step(self, problem: Problem, state: Any, budget: Any) -> Step:
        step = super().step(problem, state, budget)
        return replace(step, objective=problem.objective(state.theta))


@pytest.mark.usefixtures("counted_rows")
@pytest.mark.parametrize("method", ["mbo-sgd", "mbo-admm", _Measuring(learning_rate=0.1)])
def test_objectives_of_all_rows_and_of_a_sample_are_never_compared(method):
    slow = slow_problem(20_000)
    start = slow.objective(slow.theta())
    result = minimize(slow, method, max_seconds=0.9)
    sampled = any("2,048 rows" in remark for remark in result.remarks)
    assert sampled is (method != "mbo-admm")  # whose certificate is of all rows
    index = torch.linspace(0, 19_999, 2048).long() if sampled else None
    assert result.objective == pytest.approx(slow.objective(result.theta, index), rel=1e-6)
    assert slow.objective(result.theta) < 0.9 * start


def test_an_error_in_a_run_leaves_the_best_point_in_the_module():
    task, objectives = problem(), []

    def fails(progress):
        objectives.append(progress.objective)
        if progress.iteration >= 20:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk is gone") as caught:
        minimize(task, max_iter=60, callbacks=[fails])
    assert task.objective(task.theta()) == pytest.approx(min(objectives))
    assert "best parameters of" in caught.value.__notes__[0]


def test_a_callback_may_do_what_it_likes_with_the_point():
    expected = minimize(problem(), max_iter=20).theta
    found = minimize(problem(), max_iter=20, callbacks=[lambda progress: progress.theta.zero_()])
    assert torch.equal(found.theta, expected)


def test_autocast_around_a_run_is_no_part_of_it():
    expected, task = minimize(problem(), max_iter=5), problem()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = minimize(task, max_iter=5)
    assert torch.equal(found.theta, expected.theta)
    assert found.objective == expected.objective
