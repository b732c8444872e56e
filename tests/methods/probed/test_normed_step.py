"""Normed steps hold weights near the start against noise, and only where that is known to help."""

import pytest
import torch
from torch import nn

from proxlin import Probed, Problem, minimize
from proxlin.methods.probed import normed_step
from proxlin.methods.probed.normed_step import _pull_back

N = 4_000


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 4)
    )


def noise():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, 12, generator=generator), torch.randn(N, 4, generator=generator)


def way_gone(problem):
    """Of the matrices, in a run of normed steps."""
    start = problem.theta()
    result = minimize(problem, Probed(batch_size=64), max_iter=600)
    parts = problem.layout.split(result.theta - start).values()
    return float(torch.cat([part.flatten() for part in parts if part.ndim > 1]).norm())


def test_noise_takes_weights_less_far_than_without_the_pull(monkeypatch):
    held = way_gone(Problem(net(), noise()))
    monkeypatch.setattr(normed_step, "_PULL", 0.0)
    assert held < 0.8 * way_gone(Problem(net(), noise()))


def test_residuals_of_the_callers_own_are_not_held(monkeypatch):
    def own(module, x, y):
        return module(x) - y

    free = minimize(Problem(net(), noise(), residual=own), Probed(batch_size=64), max_iter=150)
    monkeypatch.setattr(normed_step, "_PULL", 0.0)
    monkeypatch.setattr(normed_step, "_LONGER", 0.0)
    same = minimize(Problem(net(), noise(), residual=own), Probed(batch_size=64), max_iter=150)
    assert torch.equal(free.theta, same.theta)


def test_the_pull_takes_back_a_share_of_the_way_of_matrices_only():
    layout = Problem(net(), noise()).layout
    generator = torch.Generator().manual_seed(1)
    start, before = torch.randn(2, layout.size, generator=generator)
    theta = before.clone()
    _pull_back(layout, theta, before, start, 0.25)
    for name, part in layout.split(theta).items():
        old, first = layout.split(before)[name], layout.split(start)[name]
        wanted = old if part.ndim == 1 else 0.75 * old + 0.25 * first
        assert part == pytest.approx(wanted, rel=1e-5, abs=1e-6)
