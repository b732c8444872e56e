"""Normed steps hold weights near the start against noise, and only where that is known to help."""

import pytest
import torch
from torch import nn

from proxlin import Probed, Problem, minimize
from proxlin.methods.probed import normed_step
from proxlin.methods.probed.normed_step import _held

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


def test_residuals_that_do_not_subtract_a_target_are_not_held(monkeypatch):
    def bent(module, x, y):
        return torch.sinh(module(x) - y)

    free = minimize(Problem(net(), noise(), residual=bent), Probed(batch_size=64), max_iter=150)
    monkeypatch.setattr(normed_step, "_PULL", 0.0)
    monkeypatch.setattr(normed_step, "_LONGER", 0.0)
    same = minimize(Problem(net(), noise(), residual=bent), Probed(batch_size=64), max_iter=150)
    assert torch.equal(free.theta, same.theta)


def test_a_difference_of_the_callers_own_is_held_as_the_default_one():
    def own(module, x, y):
        return module(x) - y

    ours = way_gone(Problem(net(), noise()))
    assert way_gone(Problem(net(), noise(), residual=own)) == pytest.approx(ours, rel=0.02)


class Looked(nn.Module):
    """A table of embeddings before a small net."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(30, 4), nn.Linear(4, 1)

    def forward(self, codes):
        return self.head(self.table(codes))


def test_matrices_are_held_but_for_tables_of_embeddings():
    data = torch.arange(30).repeat(4), torch.randn(120, 1)
    problem = Problem(Looked(), data)
    layout = problem.layout
    assert _held(problem) == [layout.slice("head.weight")]
    plain = Problem(net(), noise())
    assert _held(plain) == [plain.layout.slice(f"{n}.weight") for n in (0, 2, 4)]
