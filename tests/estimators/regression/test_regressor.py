"""RobustRegressor: what it minimises, and that it gets there."""

import cvxpy as cp
import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, QuantileRegressor
from torch import nn

from proxlin import Lasso, NonNegative, RobustRegressor, Status
from proxlin.errors import InvalidInputError
from proxlin.estimators.regression import reservoir

PLAIN = {"reweight": False, "leverage": False, "regularizer": None}  # the norm and nothing else


def dirty(n=200, features=4, targets=2, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(3.0, 2.0, (n, features))
    coef = rng.normal(size=(targets, features))
    y = x @ coef.T + 5.0 + 0.1 * rng.normal(size=(n, targets))
    bad = np.arange(n) < share * n
    y[bad] += rng.normal(0.0, 100.0, (int(bad.sum()), targets))
    return x, y, coef, bad


def test_one_target_is_median_regression():
    x, y, _, _ = dirty(targets=1)
    ours = RobustRegressor(p=1, **PLAIN).fit(x, y[:, 0])
    median = QuantileRegressor(quantile=0.5, alpha=0.0).fit(x, y[:, 0])
    loss, best = (np.abs(m.predict(x) - y[:, 0]).mean() for m in (ours, median))
    assert loss <= best * (1 + 1e-6)
    assert ours.result_.status is Status.CONVERGED


@pytest.mark.parametrize("p", [2.0, 1.5, np.inf])
def test_norms_couple_the_targets_as_in_cvxpy(p):
    x, y, _, _ = dirty(n=60)
    weight, bias = cp.Variable((4, 2)), cp.Variable((1, 2))
    rows = x @ weight + np.ones((60, 1)) @ bias - y
    loss = sum(cp.norm(rows[i], p) for i in range(60)) / 60
    best = cp.Problem(cp.Minimize(loss)).solve(solver="CLARABEL")
    model = RobustRegressor(p=p, scaling=False, **PLAIN).fit(x, y)
    assert model.result_.objective == pytest.approx(best, rel=1e-6)
    residual = np.abs(model.predict(x) - y)
    norms = residual.max(1) if p == np.inf else (residual**p).sum(1) ** (1 / p)
    assert norms.mean() == pytest.approx(best, rel=1e-6)


def test_least_squares_are_least_squares():
    x, y, _, _ = dirty()
    ours, theirs = RobustRegressor(p="mse").fit(x, y), LinearRegression().fit(x, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-4)


def test_coefficients_are_recovered_and_outliers_named():
    x, y, coef, bad = dirty()
    model = RobustRegressor(p=2).fit(x, y)
    assert np.abs(model.coef_ - coef).max() < 0.05
    assert np.abs(model.intercept_ - 5.0).max() < 0.2
    assert model.outliers_[bad].mean() > 0.95
    assert model.outliers_[~bad].mean() < 0.02
    # As new rows they have no part in the fit, which had leverage in it.
    np.testing.assert_allclose(model.outlier_scores(x, y), model.outlier_scores_, rtol=0.1)
    assert model.outlier_scores(x[:1], y[:1] + 1e6)[0] > 1e3


def test_scaling_changes_nothing_without_a_regularizer():
    """Median regression follows every affine change of the features and of its one target."""
    x, y, _, _ = dirty(targets=1)
    plain = RobustRegressor(p=1, scaling=False, **PLAIN).fit(x, y[:, 0])
    scaled = RobustRegressor(p=1, **PLAIN).fit(1e3 * x + 7, 1e-3 * y[:, 0] - 2)
    np.testing.assert_allclose(scaled.coef_, 1e-6 * plain.coef_, rtol=1e-4)


def test_shapes_follow_those_of_the_targets():
    x, y, _, _ = dirty()
    vector = RobustRegressor().fit(x, y[:, 0])
    assert vector.coef_.shape == (4,)
    assert isinstance(vector.intercept_, float)
    assert vector.predict(x).shape == (200,)
    matrix = RobustRegressor().fit(x, y[:, :1])
    assert matrix.coef_.shape == (1, 4)
    assert matrix.predict(x).shape == (200, 1)
    np.testing.assert_allclose(matrix.coef_[0], vector.coef_, rtol=1e-5, atol=1e-8)


def test_named_regularizers_are_those_objects():
    x, y, _, _ = dirty()
    named = RobustRegressor(regularizer="lasso", alpha=0.3).fit(x, y)
    thing = RobustRegressor(regularizer=Lasso(0.3)).fit(x, y)
    np.testing.assert_allclose(named.coef_, thing.coef_, rtol=1e-5, atol=1e-8)
    group = RobustRegressor(regularizer="group", alpha=0.8).fit(x, y)
    whole = (group.coef_ == 0).sum(axis=0)
    assert set(whole.tolist()) <= {0, 2}  # a feature is out for all targets or for none
    assert 2 in whole


def test_strength_is_chosen_among_held_out_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 100))
    y = x[:, :2] @ np.array([3.0, -2.0]) + 0.1 * rng.normal(size=60)
    chosen = RobustRegressor(regularizer="ridge", alpha="auto", random_state=0).fit(x, y)
    again = RobustRegressor(regularizer="ridge", alpha=chosen.alpha_).fit(x, y)
    np.testing.assert_allclose(chosen.coef_, again.coef_, rtol=1e-5, atol=1e-7)


def test_constraint_holds_in_the_units_of_the_data():
    x, y, _, _ = dirty()
    model = RobustRegressor(constraint=NonNegative()).fit(x, y)
    assert (model.coef_ >= 0).all()
    assert (model.coef_ == 0).any()


def test_no_intercept_means_none():
    x, y, _, _ = dirty(targets=1)
    model = RobustRegressor(p=1, fit_intercept=False, **PLAIN).fit(x, y[:, 0])
    assert model.intercept_ == 0.0
    median = QuantileRegressor(quantile=0.5, alpha=0.0, fit_intercept=False).fit(x, y[:, 0])
    loss, best = (np.abs(m.predict(x) - y[:, 0]).mean() for m in (model, median))
    assert loss <= best * (1 + 1e-6)


def test_other_methods_reach_the_same_optimum():
    x, y, _, _ = dirty(n=80)
    exact = RobustRegressor(p=2, **PLAIN).fit(x, y)
    other = RobustRegressor(p=2, method="mbo-admm", max_iter=5, **PLAIN).fit(x, y)
    assert other.result_.objective == pytest.approx(exact.result_.objective, rel=1e-3)


@pytest.mark.parametrize("settings", [{}, {"p": 2}, {"p": 2, **PLAIN}])
def test_weights_are_repetitions(settings):
    x, y, _, _ = dirty(n=60)
    weights = np.random.default_rng(1).integers(0, 3, 60)
    weighted = RobustRegressor(**settings).fit(x, y, sample_weight=weights)
    repeated = RobustRegressor(**settings).fit(x.repeat(weights, axis=0), y.repeat(weights, axis=0))
    np.testing.assert_allclose(weighted.predict(x), repeated.predict(x), rtol=1e-5, atol=1e-6)


def test_parts_make_the_same_model_as_the_whole():
    x, y, _, _ = dirty()
    parts = RobustRegressor()
    for rows in np.array_split(np.random.default_rng(0).permutation(200), 4):
        parts.partial_fit(x[rows], y[rows])
    whole = RobustRegressor().fit(x, y)
    np.testing.assert_allclose(parts.predict(x), whole.predict(x), rtol=1e-5, atol=1e-5)
    assert len(parts.outlier_scores_) == 50


def test_reservoir_gives_every_row_the_same_chance(monkeypatch):
    monkeypatch.setattr(reservoir, "CAPACITY", 100)
    counts = np.zeros(400)
    for seed in range(300):
        kept = reservoir.Reservoir.empty(1, 1)
        for part in np.array_split(np.arange(400.0), 8):
            kept = kept.with_rows(part[:, None], part[:, None], None, seed)
        assert len(kept.keys) == 100
        counts[kept.x[:, 0].astype(int)] += 1
    early, late = counts[:200].mean(), counts[200:].mean()
    assert early == pytest.approx(75, abs=3)  # 300 draws of a quarter; four standard errors
    assert late == pytest.approx(75, abs=3)


def test_warm_start_begins_where_the_last_fit_ended():
    x, y, _, _ = dirty()
    model = RobustRegressor(warm_start=True).fit(x, y)
    first = model.predict(x)
    again = model.fit(x, y)
    np.testing.assert_allclose(again.predict(x), first, rtol=1e-6, atol=1e-6)
    with pytest.raises(InvalidInputError, match="warm_start=True goes on with 4 features"):
        model.fit(x[:, :3], y)
    assert model.coef_.shape == (2, 4)


def test_net_learns_a_curve_among_outliers():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (300, 1))
    truth = np.sin(2 * x[:, 0])
    y = truth.copy()
    y[:90] = 8.0
    model = RobustRegressor(hidden=(16,), random_state=0, max_iter=150).fit(x, y)
    assert np.median(np.abs(model.predict(x) - truth)) < 0.1
    assert model.outliers_[:90].mean() > 0.9


def curve(seed, rows=300):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return x, np.sin(2 * x[:, 0]) + x[:, 1], rng


def test_a_net_of_a_target_that_is_mostly_zero_learns_the_rest_too():
    x, truth, _ = curve(0)
    y = np.maximum(0.0, truth - 0.3)
    assert (y == 0).mean() > 0.5
    model = RobustRegressor(hidden=(16,), random_state=0, max_iter=100).fit(x, y)
    assert model.chosen_ == "net"
    assert np.abs(model.predict(x) - y).mean() < 0.25 * y.mean()
    assert "most common value" in " ".join(model.result_.remarks)


def test_a_net_stays_put_whatever_the_size_of_wrong_targets():
    errors = []
    for size in (10.0, 1e5, 1e12):
        x, truth, rng = curve(1, rows=400)
        y = truth + 0.1 * rng.normal(size=400)
        y[:120] += size * rng.normal(size=120)
        model = RobustRegressor(hidden=(16,), random_state=0, max_iter=80).fit(x, y)
        assert model.chosen_ == "net"
        errors.append(np.abs(model.predict(x) - truth).mean())
    assert errors[0] < 0.15
    assert max(errors) <= 1.2 * errors[0]


@pytest.mark.parametrize("far", [False, True], ids=["targets", "features too"])
def test_a_cluster_of_wrong_rows_does_not_set_the_scale_of_a_net(far):
    x, truth, rng = curve(4, rows=400)
    y = truth + 0.1 * rng.normal(size=400)
    y[:120] = 1e4 + 0.1 * rng.normal(size=120)
    clean = x.copy()
    if far:
        x[:120] = 10.0 + 0.5 * rng.normal(size=(120, 3))
    model = RobustRegressor(hidden=(16,), random_state=0, max_iter=80).fit(x, y)
    assert model.chosen_ == "net"
    assert np.abs(model.predict(clean) - truth).mean() < 0.15


def test_a_net_lets_go_of_wrong_rows_where_values_of_the_target_repeat():
    x, truth, rng = curve(3, rows=400)
    y = truth.round(1)
    y[:160] = 5.0 + 0.1 * rng.normal(size=160)
    model = RobustRegressor(hidden=(16,), random_state=0, max_iter=80).fit(x, y)
    assert np.median(np.abs(model.predict(x) - truth)) < 0.15


def test_of_a_dozen_rows_a_net_is_not_trusted():
    x, truth, _ = curve(2, rows=12)
    model = RobustRegressor(hidden=(16,), random_state=0, max_iter=20).fit(x, truth)
    assert model.chosen_ == "linear"
    assert any("rows cannot judge a net" in remark for remark in model.result_.remarks)


def two_layers(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 3), nn.Tanh(), nn.Linear(3, n_out))


def test_any_module_can_be_trained():
    x, y, _, _ = dirty(n=50)
    before = torch.get_rng_state()
    model = RobustRegressor(module=two_layers, max_iter=5, random_state=0).fit(x, y)
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(model.module_[1], nn.Tanh)
    again = RobustRegressor(module=two_layers, max_iter=5, random_state=0).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), again.predict(x))
    assert model.predict(x).shape == y.shape
    weighted = RobustRegressor(module=two_layers, max_iter=5, random_state=0)
    weighted.fit(x, y, sample_weight=np.arange(50.0))
    assert np.isfinite(weighted.predict(x)).all()


def test_more_training_goes_on_from_the_net():
    x, y, _, _ = dirty(n=50)
    model = RobustRegressor(
        module=two_layers, max_iter=10, random_state=0, warm_start=True, reweight=False
    )
    first = model.fit(x, y).result_.objective
    assert model.fit(x, y).history_["objective"].iloc[0] == pytest.approx(first, rel=1e-4)


def test_quantiles_are_those_of_scikit_learn_and_do_not_cross():
    x, y, _, _ = dirty(targets=1)
    one = RobustRegressor(quantile=0.9).fit(x, y[:, 0])
    theirs = QuantileRegressor(quantile=0.9, alpha=0.0).fit(x, y[:, 0])

    def loss(model):
        off = y[:, 0] - model.predict(x)
        return np.maximum(0.9 * off, -0.1 * off).mean()

    assert loss(one) <= loss(theirs) * (1 + 1e-6)
    several = RobustRegressor(quantile=[0.1, 0.5, 0.9]).fit(x, y[:, 0])
    assert several.predict(x).shape == (200, 3)
    assert (np.diff(several.predict(x), axis=1) >= -1e-6).all()
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        RobustRegressor(quantile=1.5).fit(x, y[:, 0])
