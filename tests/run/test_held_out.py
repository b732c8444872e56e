"""Rows held out of training choose the point of a run that is returned."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proxlin import Problem, Status, minimize
from proxlin.data import add_outliers, load_dataset
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.methods import Step
from proxlin.run.held_out import HeldOut, lower_for_most, set_aside


def wave(rows: int, seed: int, noise: float = 0.3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.linspace(-1, 1, rows)[:, None]
    return x, torch.sin(3 * x) + noise * torch.randn(rows, 1, generator=generator)


def wide_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 60), nn.Tanh(), nn.Linear(60, 1))


def test_the_point_returned_is_the_best_by_the_held_out_rows() -> None:
    problem = Problem(wide_net(), wave(30, 1), p=2)
    held = wave(50, 2)
    latest: list[Tensor] = []
    result = minimize(
        problem,
        max_iter=100,
        held_out=held,
        callbacks=[lambda progress: latest.append(progress.theta.clone())],
    )
    last = problem.with_data(held).row_losses(latest[-2])  # before the return to the best
    chosen = problem.with_data(held).row_losses(result.theta)
    assert lower_for_most(chosen, last, p=2)
    assert result.objective == pytest.approx(problem.objective(result.theta))
    assert torch.equal(result.theta, problem.theta())
    assert "held_out" in result.history.frame()


def test_outliers_are_not_learned_by_heart() -> None:
    digits = load_dataset("digits")
    upper, lower = digits.x_train[:300, 0, :4].flatten(1), digits.x_train[:300, 0, 4:].flatten(1)
    dirty, _ = add_outliers(lower, 0.2, seed=0)
    kept, held = slice(0, 200), slice(200, 300)

    def error(**settings: Any) -> float:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32))
        problem = Problem(net, (upper[kept], dirty[kept]), p=1)
        minimize(problem, max_seconds=None, max_iter=40, **settings)
        with torch.no_grad():
            return float((net(upper[held]) - lower[held]).abs().mean())

    assert error(held_out=(upper[held], dirty[held])) < 0.6 * error()


def test_a_run_ends_when_the_best_point_lies_far_back() -> None:
    problem = Problem(wide_net(), wave(25, 4), p=2)
    x, y = wave(100, 5)
    result = minimize(problem, max_seconds=None, max_iter=1000, held_out=(x, -y))
    assert result.status is Status.HELD_OUT
    assert result.iterations < 200


def test_looks_become_rarer_and_patience_grows_with_the_steps() -> None:
    problem = Problem(nn.Linear(1, 1), wave(10, 0), p=1)
    judge = HeldOut(problem.with_data(wave(10, 1)))
    looks = []
    for iteration in range(1000):
        if judge.due(iteration):
            judge.look([torch.full((2,), 1.0 + iteration)], iteration)
            looks.append(iteration)
    assert looks[:3] == [0, 1, 2]
    assert len(looks) < 80
    assert judge.best_at == 0
    assert not judge.stalled(59)
    assert judge.stalled(60)
    judge.best_at = 100
    assert not judge.stalled(299)


@dataclass
class Wander:
    theta: Tensor  # (2,) slope and intercept
    steps: int = 0


@dataclass(frozen=True)
class TriesFirst:
    """A hundred steps of a trial that get nowhere, then a hundred towards y = x."""

    measures_stationarity: bool = False

    def init(self, _problem: Problem, theta: Tensor, _generator: torch.Generator) -> Wander:
        return Wander(torch.zeros_like(theta))

    def step(self, _problem: Problem, state: Wander, _budget: Any) -> Step:
        state.steps += 1
        state.theta[0] = max(0, state.steps - 100) / 100
        return Step(tentative=state.steps <= 100)

    def candidates(self, state: Wander) -> list[Tensor]:
        return [state.theta]


def test_a_trial_of_steps_is_not_taken_for_a_run_without_hope() -> None:
    """Its turns begin anew: that the held-out rows see no gain meanwhile is no reason to end."""
    x = torch.linspace(-1, 1, 40)[:, None]
    result = minimize(
        Problem(nn.Linear(1, 1), (x, x), p=1), TriesFirst(), max_iter=200, held_out=0.1
    )
    assert result.iterations == 200
    assert result.objective < 0.05


def test_rows_that_are_far_off_both_times_change_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    better = torch.rand(30, generator=generator)
    worse = better * 1.1
    far = torch.tensor([1e3, 1e6, 1e9] * 6)
    for p in (1.0, 2.0, "mse"):
        assert lower_for_most(torch.cat([better, 2 * far]), torch.cat([worse, far]), p=p)
        assert not lower_for_most(torch.cat([worse, far]), torch.cat([better, 2 * far]), p=p)
    assert not lower_for_most(torch.cat([better, 2 * far]), torch.cat([worse, far]), p="pinball")


def wrong_targets(size: float, rows: int = 600) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 4, generator=generator)
    truth = torch.sin(x) @ torch.randn(4, 2, generator=generator)
    y = truth + 0.05 * torch.randn(rows, 2, generator=generator)
    bad = rows // 3
    y[:bad] += size * torch.randn(bad, 2, generator=generator)
    return x, y, truth


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_wrong_rows_lose_their_weight_before_they_are_learned(p: float) -> None:
    def error(size: float, **settings: Any) -> float:
        x, y, truth = wrong_targets(size)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        minimize(Problem(net, (x, y), p=p), max_iter=60, held_out=0.1, **settings)
        with torch.no_grad():
            return float((net(x) - truth).abs().mean())

    near = error(10.0)
    assert near < 0.1
    far = error(1e3)
    assert max(far, error(1e12)) <= 1.2 * near
    assert far < 0.9 * error(1e3, reweight=False)


def test_a_point_without_a_loss_is_never_the_best() -> None:
    judge = HeldOut(Problem(nn.Linear(1, 1), wave(10, 1), p=1))
    judge.look([torch.full((2,), torch.nan)], 0)
    judge.look([torch.full((2,), torch.nan), torch.ones(2)], 1)
    assert judge.theta is not None
    assert torch.equal(judge.theta, torch.ones(2))


@pytest.mark.parametrize(
    ("held_out", "sentence"),
    [
        (torch.zeros(3, 1), "shape of its target"),
        (
            (torch.zeros(3, 1), torch.zeros(3, 1, dtype=torch.float64)),
            "must have the module's type",
        ),
        (nn.Linear(1, 1), r"held_out must be rows .* data must be a tensor"),
    ],
)
def test_rows_of_another_form_are_refused(held_out: object, sentence: str) -> None:
    problem = Problem(nn.Linear(1, 2), (torch.zeros(5, 1), torch.zeros(5, 2)), p=1)
    with pytest.raises(InvalidInputError, match=sentence):
        minimize(problem, max_iter=1, held_out=held_out)


def test_polishing_towards_another_goal_is_refused() -> None:
    problem = Problem(nn.Linear(1, 1), wave(10, 0), p=1)
    with pytest.raises(CombinationError, match="give one of the two"):
        minimize(problem, max_iter=1, held_out=wave(5, 1), polish=1)


def test_a_share_is_drawn_with_the_seed_and_trained_without() -> None:
    problem = Problem(wide_net(), wave(50, 1), p=2)
    train, judge = set_aside(problem, 0.2, seed=3, reweight=False)
    again, _ = set_aside(problem, 0.2, seed=3, reweight=False)
    other, _ = set_aside(problem, 0.2, seed=4, reweight=False)
    rows = [p.take(slice(0, p.n_rows)).tensors[0].flatten() for p in (train, again, other)]
    kept_out = judge.problem.take(slice(0, 10)).tensors[0].flatten()
    assert (train.n_rows, judge.problem.n_rows) == (40, 10)
    everything = torch.cat([rows[0], kept_out]).sort().values
    assert torch.equal(everything, wave(50, 1)[0].flatten())
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])
    result = minimize(problem, max_iter=5, held_out=np.float64(0.2), seed=3)
    assert result.objective == pytest.approx(train.objective(result.theta))
    assert torch.equal(problem.theta(), result.theta)


@pytest.mark.parametrize(
    ("held_out", "words"),
    [
        (torch.arange(5), "looks like row numbers"),
        (torch.ones(30, dtype=torch.bool), "looks like row numbers"),
        (0.0, "held_out"),
        (1.0, "held_out"),
        (np.arange(5), "looks like row numbers"),
        (np.ones(30, dtype=bool), "looks like row numbers"),
        ([1, 2, 3], "looks like row numbers"),
        (range(5), "looks like row numbers"),
        (slice(5), "looks like row numbers"),
        (3, "share of the rows between 0 and 1"),
        ("0.1", "share of the rows between 0 and 1"),
        (torch.tensor(0.1), "share of the rows between 0 and 1"),
        (True, "share of the rows between 0 and 1"),
    ],
)
def test_what_is_no_share_and_no_rows_is_refused(held_out: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        minimize(Problem(wide_net(), wave(30, 1), p=2), max_iter=1, held_out=held_out)


def test_the_point_returned_is_never_worse_for_them_than_the_start() -> None:
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    y = torch.sin(x[:, :2])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    problem = Problem(net, (1e-6 * x, y))  # inputs that hardly differ lead the steps astray
    start = problem.objective(problem.theta())
    result = minimize(problem, max_iter=5, held_out=0.2)
    assert problem.objective(result.theta) < 1.05 * start
