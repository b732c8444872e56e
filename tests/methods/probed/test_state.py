"""What a probed run remembers: the point to return to when its loss runs away."""

import torch
from torch import nn

from proxlin import Problem
from proxlin.methods import Probed
from proxlin.methods.probed.state import LOSS_RATE

ASTRAY = 10.0


def test_longer_steps_from_where_ever_shorter_ones_ended_are_not_taken_for_a_run_gone_wrong():
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(40, 3, generator=generator), torch.randn(40, 1, generator=generator)
    problem = Problem(nn.Linear(3, 1), data)
    state = Probed().init(problem, problem.theta(), generator)
    state.go_on_from(torch.ones_like(state.theta))
    for step, loss in enumerate([0.01] + [1.0] * 199):
        state.track(loss, LOSS_RATE)
        assert not state.astray(loss, ASTRAY), step
        state.keep_good(step)
    for _ in range(40):
        state.track(100.0, LOSS_RATE)
    assert state.astray(100.0, ASTRAY)
