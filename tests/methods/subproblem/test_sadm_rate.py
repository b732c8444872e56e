"""Theorem 1, measured: SADM's gap and infeasibility over T on a strongly convex g."""

import math

import pytest
import torch

from proxlin.methods.subproblem import ADMM, SADM, InnerADMM
from proxlin.terms import Ball, Penalty, Ridge
from proxlin.terms.layout import Layout
from tests.methods.subproblem.linear_model import random_model

LAYOUT = Layout(("theta",), ((6,),))
CHECKPOINTS = (20, 40, 80, 160, 320)
SEEDS = 4


@pytest.fixture(scope="module", params=["anchor", "zero"])
def curves(request):
    """Means over the seeds of the gap of mean1 and of ||mean1 - mean2||^2, at the checkpoints.

    C is bounded, g is Lipschitz on it and strongly convex: the theorem's assumptions hold.
    """
    penalty = Penalty(LAYOUT, Ridge(1.0), Ball(3.0))
    model = random_model(3, p=2.0, rows=20, layout=LAYOUT, penalty=penalty)
    least = model.value(ADMM(tolerance=1e-9, floor=1e-12).solve(model).theta)
    solver = SADM(
        batch_size=1,
        max_steps=CHECKPOINTS[-1],
        start=request.param,
        inner=InnerADMM(tolerance=1e-3),
    )
    gaps, splits = (torch.zeros(len(CHECKPOINTS), dtype=torch.float64) for _ in range(2))
    for seed in range(SEEDS):
        generator = torch.Generator().manual_seed(seed)
        for state in solver.iterate(model, generator=generator):
            if state.steps in CHECKPOINTS:
                place = CHECKPOINTS.index(state.steps)
                theta = penalty.project(state.mean1)
                gaps[place] += (model.value(theta) - least) / SEEDS
                splits[place] += (state.mean1 - state.mean2).square().sum() / SEEDS
    return gaps, splits


def order(values):
    """The exponent a in values ~ (log T / T)^a, by least squares on logarithms."""
    rates = torch.tensor([math.log(math.log(t) / t) for t in CHECKPOINTS], dtype=torch.float64)
    x, y = rates - rates.mean(), values.log() - values.log().mean()
    return float(x @ y / (x @ x))


def test_gap_falls_like_log_t_over_t(curves):
    gaps, _ = curves
    assert bool((gaps > 0).all())
    # 1 is the rate itself; a method of order 1/sqrt(T) would have 0.65 on these checkpoints.
    assert 0.8 <= order(gaps) <= 1.6


def test_infeasibility_falls_at_least_like_log_t_over_t(curves):
    _, splits = curves
    # The theorem's bound is an upper one; measured is about its square, 1/T^2.
    assert 1.0 <= order(splits) <= 3.0
