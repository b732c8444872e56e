"""A net that predicts nothing is seen, and the run begins anew; one that learns is left alone."""

import pytest
import torch
from torch import nn

from proxlin import Probed, Problem, minimize
from proxlin.methods.probed.collapse import RESTARTED, CollapseWatch, outputs_and_targets, spread

DEAD = -50.0


def table(n=300, wrong=0.0):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=generator)
    y = torch.relu(x[:, :2])
    y[: int(wrong * n)] += 1e9
    return x, y


def net(*, dead=False):
    """A net whose last units can die."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2), nn.ReLU())
    with torch.no_grad():
        module[2].bias.fill_(DEAD if dead else 0.5)
    return module


def watched(problem, looks=3):
    watch = CollapseWatch()
    return [watch.collapsed(problem, problem.theta(), watch.next_look) for _ in range(looks)]


@pytest.mark.parametrize("wrong", [0.0, 0.4])
def test_a_constant_output_is_seen_at_the_second_look(wrong):
    data = table(wrong=wrong)
    assert watched(Problem(net(dead=True), data)) == [False, True, True]
    assert watched(Problem(net(), data)) == [False, False, False]


def spreads(data):
    problem = Problem(net(), data)
    return [spread(rows) for rows in outputs_and_targets(problem, problem.theta())]


def test_spreads_do_not_depend_on_where_the_data_lie_or_how_far_some_rows_are():
    x, y = table()
    here, there = spreads((x, y)), spreads((x, y + 8))
    assert here == pytest.approx(there, rel=1e-4)
    assert spreads(table(wrong=0.3))[1] < 10 * here[1]


@pytest.mark.parametrize(("learnt", "begins_anew"), [(0.4, False), (0.0, True)])
def test_a_net_that_tells_less_than_half_of_the_rows_apart_is_left_alone(learnt, begins_anew):
    labels = torch.eye(10)[torch.arange(400) % 10]
    known = labels * (torch.arange(400) % 10 < 10 * learnt)[:, None]
    problem = Problem(nn.Linear(10, 10), (known, labels))
    theta = torch.cat([torch.eye(10).flatten(), torch.zeros(10)])
    watch = CollapseWatch()
    looks = [watch.collapsed(problem, theta, watch.next_look) for _ in range(2)]
    assert looks == [False, begins_anew]


def test_an_output_that_grows_is_left_alone():
    x, y = table()
    problem = Problem(nn.Linear(4, 2), (x, y))
    watch = CollapseWatch()
    answers = []
    for share in (1e-5, 2e-5, 4e-5, 4e-5):
        theta = share * torch.ones_like(problem.theta())
        answers.append(watch.collapsed(problem, theta, watch.next_look))
    assert answers == [False, False, False, True]


def test_residuals_without_a_target_and_constant_targets_are_not_judged():
    x, y = table()
    own = Problem(net(dead=True), (x, y), residual=lambda module, x, y: 2 * (module(x) - y))
    assert watched(own) == [False] * 3
    assert watched(Problem(net(dead=True), (x, torch.zeros_like(y)))) == [False] * 3


@pytest.mark.parametrize("batch_size", [None, 64])
def test_a_run_that_cannot_move_begins_anew_and_says_so(batch_size):
    problem = Problem(net(dead=True), table())
    result = minimize(problem, Probed(batch_size=batch_size), max_iter=60)
    assert RESTARTED in result.remarks
    never = minimize(problem, Probed(batch_size=batch_size, restarts=0), max_iter=60)
    assert RESTARTED not in never.remarks


def test_after_a_restart_the_run_goes_on_from_the_start_point():
    problem = Problem(net(), table())
    method = Probed(batch_size=64)
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    state.theta = Problem(net(dead=True), table()).theta()
    state.steps, state.watch.next_look, state.watch.spread = 40, 40, 0.0
    before = state.generator.get_state()
    method._restart(problem, state)
    assert torch.equal(state.theta, problem.theta())
    assert (state.steps, state.restarts) == (0, 1)
    assert torch.equal(before, state.generator.get_state())  # which goes on to other batches
