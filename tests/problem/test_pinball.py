"""The pinball loss as an asymmetric gauge: values, slopes, proximal points, majoriser, runs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxlin import MBO, SADM, Pinball, Problem, minimize
from proxlin.errors import InvalidInputError
from proxlin.problem.loss import RowLoss

LEVELS = st.floats(0.01, 0.99)


def rows(seed, n=40, t=3):
    return torch.randn(n, t, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=20, deadline=None)
@given(LEVELS, st.integers(0, 1000))
def test_it_is_an_asymmetric_gauge(tau, seed):
    r, s, loss = rows(seed), rows(seed + 1), Pinball(tau)
    torch.testing.assert_close(loss(3 * r), 3 * loss(r))
    assert bool((loss(r + s) <= loss(r) + loss(s) + 1e-12).all())
    torch.testing.assert_close(loss(r), Pinball(1 - tau)(-r))
    torch.testing.assert_close(loss(r), (r.abs() / 2 + (0.5 - tau) * r).sum(-1))


def test_half_is_half_of_the_absolute_loss():
    r, least = rows(0), torch.tensor(0.1, dtype=torch.float64)
    torch.testing.assert_close(2 * Pinball(0.5)(r), RowLoss(1.0)(r))
    torch.testing.assert_close(
        2 * Pinball(0.5).quadratic(r, least)[1], RowLoss(1.0).quadratic(r, least)[1]
    )


@settings(max_examples=20, deadline=None)
@given(LEVELS, st.floats(0.01, 10.0), st.integers(0, 1000))
def test_the_proximal_point_is_optimal(tau, step, seed):
    """(v - u) / step is a sub-gradient at u: in [-tau, 1 - tau], at an end where u is not 0."""
    v, loss = rows(seed), Pinball(tau)
    u = loss.prox(v, step)
    slope = (v - u) / step
    assert bool(((slope >= -tau - 1e-12) & (slope <= 1 - tau + 1e-12)).all())
    torch.testing.assert_close(slope[u != 0], loss.slope(u)[u != 0])


def test_the_proximal_step_may_differ_from_row_to_row():
    v, loss = rows(3), Pinball((0.1, 0.5, 0.9))
    steps = torch.rand(len(v), dtype=torch.float64)
    each = torch.stack([loss.prox(row, float(step)) for row, step in zip(v, steps, strict=True)])
    torch.testing.assert_close(loss.prox(v, steps), each)


@settings(max_examples=20, deadline=None)
@given(LEVELS, st.integers(0, 1000))
def test_the_quadratic_majorises_the_loss_and_touches_it(tau, seed):
    r, loss = rows(seed), Pinball(tau)
    slope, weights = loss.quadratic(r, torch.tensor(1e-9, dtype=torch.float64))
    torch.testing.assert_close(slope, loss.slope(r))
    for move in (0.1, 1.0, 10.0):
        d = move * rows(seed + 1)
        above = loss(r) + (slope * d + 0.5 * weights * d**2).sum(-1)
        assert bool((loss(r + d) <= above + 1e-9).all())


def test_the_slope_is_the_derivative():
    r = rows(5).requires_grad_()
    (slope,) = torch.autograd.grad(Pinball(0.8)(r).sum(), r)
    torch.testing.assert_close(slope, Pinball(0.8).slope(r.detach()))


@pytest.mark.parametrize("method", ["probed", "mbo-admm", MBO(solver=SADM(max_steps=60))])
def test_every_kind_of_method_finds_the_quantiles(method):
    y = torch.randn(400, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ones = torch.ones(400, 1, dtype=torch.float64)
    net = torch.nn.Linear(1, 2, bias=False).double()
    torch.nn.init.zeros_(net.weight)
    loss = Pinball((0.2, 0.9))
    problem = Problem(net, (ones, y.expand(-1, 2)), loss=loss)
    result = minimize(problem, method, max_seconds=None, max_iter=60)
    best = torch.quantile(y, torch.tensor([0.2, 0.9], dtype=torch.float64))
    exact = float(loss(best - y).mean())
    tolerance = 0.02 if isinstance(method, MBO) else 2e-3
    assert result.objective <= exact * (1 + tolerance)


@pytest.mark.parametrize("tau", [0.0, 1.0, -0.5, 2, float("nan"), "high", (), (0.5, 1.0)])
def test_levels_outside_are_refused(tau):
    with pytest.raises(InvalidInputError, match="Pinball"):
        Pinball(tau)


def test_levels_that_do_not_fit_the_outputs_are_refused():
    with pytest.raises(InvalidInputError, match="one level for each of the 3 outputs; got 2"):
        Pinball((0.1, 0.9))(rows(0))
    with pytest.raises(InvalidInputError, match="loss must be such as Pinball"):
        Problem(torch.nn.Linear(2, 1), torch.ones(3, 2), loss=0.9)
