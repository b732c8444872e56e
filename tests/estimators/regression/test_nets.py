"""Nets of the regressor: what they make of noise, of wrong features, and of rows lent to judges."""

import numpy as np
import pytest
import torch
from torch import nn

from proxlin import RobustRegressor
from proxlin.estimators.regression.net_fit import regression_problem
from proxlin.estimators.regression.net_learner import _trust_by_line


def waves(noise, rows=300, features=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features))
    return x, np.sin(2 * x).sum(axis=1), noise * rng.normal(size=rows), rng


def net(**settings):
    return RobustRegressor(hidden=(16,), random_state=0, **settings)


def test_weights_of_cells_weigh_single_residuals():
    """(1/n) sum_ij w_ij r_ij^2 / mean w, rows without any weight left out."""
    rng = np.random.default_rng(0)
    x, y, weights = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), rng.random((20, 2))
    weights[:5] = 0.0
    weights[5:9, 1] = 0.0
    module = nn.Linear(3, 2).double()
    problem = regression_problem(module, x, y, weights, p="mse", regularizer=None, constraint=None)
    with torch.no_grad():
        off = module(torch.from_numpy(x)).numpy() - y
    used = weights[5:] / weights[5:].mean()
    assert problem.n_rows == 15
    expected = (used * off[5:] ** 2).sum(axis=1).mean()
    assert problem.objective(problem.theta()) == pytest.approx(expected, rel=1e-9)


def test_a_net_averages_noise_as_large_as_its_target():
    """Least squares by a ridge that held-out rows choose; many rows held out see that it helps."""
    x, truth, off, _ = waves(1.0)
    model = net().fit(x, truth + off)
    assert model.chosen_ == "net"
    assert np.abs(model.predict(x) - truth).mean() < 0.45 * np.abs(truth).mean()


def test_wrong_features_do_not_set_the_scale_of_a_net():
    """Nor does a line, which all rows agree with as well as it can, keep the net away."""
    x, truth, off, rng = waves(0.3, rows=400, features=4, seed=1)
    clean = x.copy()
    x[:120] = 10.0 + 0.5 * rng.normal(size=(120, 4))
    y = truth + off
    y[:120] = np.sin(2 * x[:120]).sum(axis=1) + 3.0 + off[:120]
    model = net().fit(x, y)
    assert model.chosen_ == "net"
    assert np.abs(model.predict(clean) - truth).mean() < 0.6 * np.abs(truth).mean()


def test_a_line_along_a_cluster_does_not_cut_off_the_majority():
    """Three in ten targets are near one value within the others, which a line can follow."""
    rng = np.random.default_rng([1, 3])
    x = rng.normal(size=(1300, 3))
    truth = np.sin(2 * x).sum(axis=1)
    y = truth[:300] + 0.1 * rng.normal(size=1300)[:300]
    y[:90] = 1.0 + 0.1 * rng.normal(size=90)
    model = net().fit(x[:300], y)
    assert model.chosen_ == "net"
    assert np.abs(model.predict(x[300:]) - truth[300:]).mean() < 0.5 * np.abs(truth).mean()


def test_rows_of_no_weight_do_not_widen_what_a_line_is_judged_by():
    rng = np.random.default_rng(0)
    off = np.abs(rng.normal(size=(100, 2)))
    off[5] = 30.0
    beside = np.concatenate([off, np.full((150, 2), 1e6)])
    counts = np.repeat([1.0, 0.0], [100, 150])
    scale = np.full(2, 0.1)
    trust = _trust_by_line(beside, scale, counts)
    np.testing.assert_array_equal(trust[:100], _trust_by_line(off, scale, None))
    assert trust[5] == 0.0
    assert trust[:100].mean() > 0.8


def test_the_user_s_steps_are_a_limit_for_all_trainings_together():
    x, truth, off, _ = waves(0.3)
    model = net(max_iter=60).fit(x, truth + off)
    assert model.n_iter_ <= 60
    assert model.history_["iteration"].is_monotonic_increasing


def test_a_net_does_not_lose_to_the_line_on_linear_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5))
    truth = x @ rng.normal(size=5)
    y = truth + 0.3 * rng.normal(size=300)
    y[:90] += 3.0 * rng.normal(size=90)
    line = np.abs(RobustRegressor().fit(x, y).predict(x) - truth).mean()
    assert np.abs(net().fit(x, y).predict(x) - truth).mean() <= 1.05 * line
