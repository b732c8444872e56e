"""Quantiles: the optimum is that of other solvers, several of them never cross on the rows."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from sklearn.linear_model import QuantileRegressor

from proxlin import Ball, Box, GroupLasso, Lasso, NonNegative, Pinball, Ridge, Status
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.exact.linear import solve_linear, solve_quantiles


def scattered(seed, rows=80, features=4, targets=1):
    """Noise that grows with the first feature: quantiles of different slopes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=generator, dtype=torch.float64)
    noise = torch.randn(rows, targets, generator=generator, dtype=torch.float64)
    return x, x.sum(1, keepdim=True) + noise * (0.2 + x[:, :1].abs())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 0.03])
def test_the_objective_is_that_of_a_linear_program(seed, alpha):
    x, y = scattered(seed)
    tau = 0.05 + 0.9 * seed / 5
    peer = QuantileRegressor(quantile=tau, alpha=alpha).fit(x.numpy(), y[:, 0].numpy())
    residual = torch.from_numpy(peer.predict(x.numpy()))[:, None] - y
    expected = float(Pinball(tau)(residual).mean()) + alpha * np.abs(peer.coef_).sum()
    ours = solve_linear(x, y, loss=Pinball(tau), regularizer=Lasso(alpha) if alpha else None)
    assert ours.status is Status.CONVERGED
    assert ours.certificate.value <= 1e-8
    assert ours.objective == pytest.approx(expected, rel=1e-7)


TERMS = {
    "ridge": {"regularizer": Ridge(0.1)},
    "group": {"regularizer": GroupLasso(0.05)},
    "box": {"constraint": Box(-0.3, 0.5)},
    "non-negative": {"constraint": NonNegative()},
    "ball": {"constraint": Ball(0.7)},
}


@pytest.mark.parametrize("kind", TERMS)
def test_every_term_goes_with_it_and_is_proven(kind):
    x, y = scattered(1, targets=2)
    weights = torch.rand(len(x), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = solve_linear(x, y, loss=Pinball(0.8), sample_weight=weights, **TERMS[kind])
    assert ours.status is Status.CONVERGED
    half = solve_linear(x, y, loss=Pinball(0.5), **TERMS[kind])
    if "constraint" in TERMS[kind]:  # where g = 0 the median is that of p = 1
        assert 2 * half.objective == pytest.approx(
            solve_linear(x, y, p=1, **TERMS[kind]).objective, rel=2e-8
        )


def test_repeated_rows_are_weights_and_targets_are_problems_of_their_own():
    x, y = scattered(2, targets=2)
    times = torch.arange(len(x)) % 4
    weighted = solve_linear(x, y, loss=Pinball(0.3), sample_weight=times.double())
    repeated = solve_linear(
        x.repeat_interleave(times, 0), y.repeat_interleave(times, 0), loss=Pinball(0.3)
    )
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-7)
    alone = [solve_linear(x, y[:, j], loss=Pinball(0.3)).objective for j in range(2)]
    both = solve_linear(x, y, loss=Pinball(0.3)).objective
    assert both == pytest.approx(sum(alone), rel=1e-7)
    turned = solve_linear(x, -y, loss=Pinball(0.7)).objective
    assert turned == pytest.approx(both, rel=1e-7)


LEVELS = [0.9, 0.05, 0.5, 0.1, 0.2, 0.8, 0.95]


def fitted(x, result):
    return x @ result.coef + result.intercept


@pytest.mark.parametrize("seed", range(4))
def test_several_quantiles_do_not_cross(seed):
    x, y = scattered(seed, rows=30, features=6, targets=2)
    weights = (torch.arange(30) % 3).double()
    free = [solve_linear(x, y, loss=Pinball(tau), sample_weight=weights) for tau in sorted(LEVELS)]
    gaps = [fitted(x, b) - fitted(x, a) for a, b in pairwise(free)]
    assert min(float(gap.min()) for gap in gaps) < 0  # else there is nothing to see
    results = dict(zip(LEVELS, solve_quantiles(x, y, LEVELS, sample_weight=weights), strict=True))
    ordered = [results[tau] for tau in sorted(LEVELS)]
    assert all(result.status is Status.CONVERGED for result in ordered)
    mix = torch.rand(200, 30, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = x[weights > 0]  # the others are not there
    mix = mix[:, : len(x)]
    hull = (mix / mix.sum(1, keepdim=True)) @ x
    for low, high in pairwise(ordered):
        assert bool((fitted(x, high) >= fitted(x, low)).all())
        assert bool((fitted(hull, high) >= fitted(hull, low)).all())


@pytest.mark.parametrize("side", ["at_least", "at_most"])
def test_the_best_fit_beside_a_bound_is_that_of_a_linear_program(side):
    x, y = scattered(7, rows=40, features=3)
    bound = y.median() + x[:, :1] * 1.5
    tau = 0.4 if side == "at_least" else 0.6
    ours = solve_linear(x, y, loss=Pinball(tau), **{side: bound})
    assert ours.status is Status.CONVERGED
    n, m = x.shape
    design = np.hstack([x.numpy(), np.ones((n, 1))])
    cost = np.concatenate([np.zeros(m + 1), np.full(n, 1 - tau), np.full(n, tau)]) / n
    equal = np.hstack([design, -np.eye(n), np.eye(n)])  # f - over + under = y
    sign = -1 if side == "at_least" else 1
    program = linprog(
        cost,
        A_eq=equal,
        b_eq=y[:, 0].numpy(),
        A_ub=sign * np.hstack([design, np.zeros((n, 2 * n))]),
        b_ub=sign * bound[:, 0].numpy(),
        bounds=[(None, None)] * (m + 1) + [(0, None)] * (2 * n),
    )
    assert ours.objective == pytest.approx(program.fun, rel=1e-7)
    assert bool((sign * (fitted(x, ours) - bound) <= 0).all())


def test_huge_rows_do_not_spoil_the_order():
    x, y = scattered(3, rows=40)
    x[:4] *= 1e6
    y[:4] *= 1e6
    low, high = solve_quantiles(x, y, [0.4, 0.6])
    assert bool((fitted(x, high) >= fitted(x, low)).all())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: solve_quantiles(x, y, [0.5, 0.5]), "different numbers"),
        (lambda x, y: solve_quantiles(x, y, []), "at least one"),
        (lambda x, y: solve_quantiles(x, y, [0.0, 0.5]), "strictly between 0 and 1"),
        (lambda x, y: solve_quantiles(x, y, [0.2, 0.5], fit_intercept=False), "intercept"),
        (lambda x, y: solve_linear(x, y, p=1, at_least=y), "needs loss=Pinball"),
        (lambda x, y: solve_linear(x, y, loss=Pinball(0.5), at_least=y, at_most=y), "one of them"),
        (lambda x, y: solve_linear(x, y, loss=Pinball(0.5), at_least=y[1:]), "shape of y"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises((InvalidInputError, CombinationError), match=message):
        call(*scattered(0))
