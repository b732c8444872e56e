"""What a fit says of rows it has not seen, where there are few for each coefficient."""

import numpy as np
import pytest

from proxlin import RobustRegressor
from proxlin.estimators.regression.linear_fit import LinearFit

PLAIN = {"p": 1, "reweight": False, "leverage": False, "regularizer": None}


def table(n, features, signal, seed, new=300):
    rng = np.random.default_rng([seed, n, features])
    x = rng.normal(size=(n + new, features))
    y = signal * x[:, :5].sum(axis=1) + 0.5 * rng.normal(size=n + new)
    return x[:n], y[:n], x[n:], y[n:]


@pytest.mark.parametrize(
    "settings",
    [{}, {"alpha": 0.1}, {"regularizer": "ridge", "p": "mse"}, PLAIN, {"regularizer": "lasso"}],
    ids=str,
)
@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_more_features_than_rows_hide_no_noise(settings, signal):
    """A fit that follows every row is judged by those it has not seen."""
    covered, ratios, flags = [], [], []
    for seed in range(4):
        x, y, new, truth = table(60, 100, signal, seed)
        model = RobustRegressor(random_state=0, **settings).fit(x, y)
        low, high = model.predict_interval(new, coverage=0.9)
        covered.append(((low <= truth) & (truth <= high)).mean())
        ratios.append(model.scale_[0] / (model.predict(new) - truth).std())
        flags.append((model.outlier_scores(new, truth) > 3.5).mean())
    assert 0.8 < np.mean(covered) < 0.98
    assert 0.7 < np.mean(ratios) < 1.4
    assert np.mean(flags) < 0.03


def test_rows_far_out_do_not_set_the_scale_of_unseen_rows():
    """Little is known of their place, so that they pass, however far from a fit without them."""
    x, y, new, truth = table(40, 100, 1.0, 0)
    x[:4] *= 1e4
    model = RobustRegressor().fit(x, y)
    assert model.scale_[0] < 2.0 * (model.predict(new) - truth).std()


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_rare_categories_are_not_learnt_by_heart(share):
    """A weak ridge leaves their rows 1e-8 of themselves, which must not pass for rounding."""
    rng = np.random.default_rng(0)
    x = (rng.random((500, 300)) < 0.04).astype(float)
    y = x @ rng.normal(size=300) + 0.5 * rng.normal(size=500)
    wrong, new = np.arange(200) < share * 200, slice(200, 500)
    model = RobustRegressor().fit(x[:200], y[:200] + 100 * wrong)
    away = y[new] - model.predict(x[new])
    assert away.std() < 1.1 * y[new].std()
    assert 0.7 < model.scale_[0] / away.std() < 1.4
    assert model.outliers_[:200][wrong].all()
    assert model.outliers_[~wrong].mean() < 0.05


@pytest.mark.parametrize(("n", "features"), [(60, 40), (60, 20)])
def test_new_good_rows_are_flagged_as_seldom_as_old_ones(n, features):
    """0.6 % of them, though the fit knows them less well; by plain residuals 9 and 2.4 %."""
    flags = []
    for seed in range(15):
        x, y, new, truth = table(n, features, 1.0, seed)
        flags.append((RobustRegressor().fit(x, y).outlier_scores(new, truth) > 3.5).mean())
    assert np.mean(flags) < 0.012


def test_a_fit_of_little_but_the_mean_does_not_foretell_how_far_off_a_row_is():
    """The mean of the others is the lower, the higher a row's own target is."""
    covered = []
    for seed in range(4):
        x, y, new, truth = table(100, 300, 0.0, seed)
        low, high = RobustRegressor().fit(x, y).predict_interval(new, coverage=0.9)
        covered.append(((low <= truth) & (truth <= high)).mean())
    assert np.mean(covered) > 0.8


@pytest.mark.parametrize("settings", [{"regularizer": "ridge", "p": "mse", "alpha": 0.1}, PLAIN])
def test_rows_of_no_weight_have_no_say_in_what_is_unseen(settings):
    x, y, extra, _ = table(30, 40, 1.0, 0, new=12)
    both, targets = np.concatenate([x, 1e3 * extra]), np.concatenate([y, np.full(12, 1e6)])
    counts = np.repeat([1.0, 0.0], [30, 12])
    model = RobustRegressor(random_state=0, scaling=False, **settings)
    plain = RobustRegressor(random_state=0, scaling=False, **settings).fit(x, y)
    model.fit(both, targets, sample_weight=counts)
    np.testing.assert_allclose(model.scale_, plain.scale_, rtol=1e-6)
    np.testing.assert_allclose(model.outlier_scores_[:30], plain.outlier_scores_, rtol=1e-6)


@pytest.mark.parametrize("counting", [1, 2, 15])
def test_each_row_that_counts_is_left_out_of_one_fit(counting):
    x, y, _, _ = table(40, 3, 1.0, 0)
    weights = np.zeros(40)
    weights[:counting] = 1.0
    fit = LinearFit(
        p="mse", regularizer="ridge", alpha=1.0, constraint=None, fit_intercept=True, tol=None
    )
    residual = fit.left_out(x, y[:, None], weights, strength=1.0, seed=0)
    alone = fit.left_out(x[:counting], y[:counting, None], None, strength=1.0, seed=0)
    np.testing.assert_allclose(residual[:counting], alone, rtol=1e-6, atol=1e-9)
    assert np.isfinite(residual).all()
