"""Weights that let go of rows that do not fit, and of features far from the bulk."""

import numpy as np
import pytest

from proxlin import RobustRegressor
from proxlin.estimators.leverage import LeverageWeights


def planted(n=400, features=6, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)) @ rng.normal(size=(features, features))
    coef = rng.normal(size=(targets, features))
    return x, x @ coef.T + 0.1 * rng.normal(size=(n, targets)), coef, rng


def test_one_sided_rows_are_let_go():
    """40 % of the targets moved to one side bias the plain norm, and not the reweighted fit."""
    x, y, coef, rng = planted()
    bad = rng.random(len(x)) < 0.4
    y[bad] = 5.0 + rng.normal(size=(int(bad.sum()), 2))
    plain = RobustRegressor(p=1, reweight=False).fit(x, y)
    again = RobustRegressor(reweight=True).fit(x, y)
    error = np.abs(again.coef_ - coef).max()
    assert error < 0.05
    assert np.abs(again.intercept_).max() < 0.05 < np.abs(plain.intercept_).max()
    # Some bad rows hit the right value of one of their two targets by chance.
    assert again.row_weights_[bad].mean() < 0.05
    assert again.row_weights_[~bad].mean() > 0.8


def test_far_features_are_judged_by_their_fit():
    """Rows with wrong features pull a plain fit; right rows far out are kept.

    Unless so many wrong ones fit by chance that right ones are no longer more: 10 of 40, say.
    """
    x, y, coef, rng = planted()
    x[:10] *= 4.0  # far out and right
    y[:10] = x[:10] @ coef.T
    bad = np.arange(len(x)) >= 250
    x[bad] = 15.0 + rng.normal(size=(150, 6))
    y[bad] += 100.0
    plain = RobustRegressor(p=1, reweight=False).fit(x[10:], y[10:])
    cured = RobustRegressor(leverage="auto").fit(x, y)
    assert np.abs(cured.coef_ - coef).max() < 0.05 < np.abs(plain.coef_ - coef).max()
    assert cured.row_weights_[bad].mean() < 0.05  # a target may be right by chance
    assert cured.row_weights_[:10].min() > 0.9


@pytest.mark.parametrize("share", [0.0, 0.2, 0.45])
@pytest.mark.parametrize("features", [1, 5, 60])
def test_bulk_of_the_features_is_found(share, features):
    rng = np.random.default_rng(features)
    x = rng.normal(size=(300, features)) * np.linspace(0.2, 1.0, features)
    bad = np.arange(300) < share * 300
    x[bad] = 6.0 + rng.normal(size=(int(bad.sum()), features))
    weights = LeverageWeights.fit(x, None, 0).weights(x)
    assert weights[bad].sum() == 0
    assert weights[~bad].mean() > 0.9


def test_more_features_than_rows_have_a_bulk_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 100))
    x[:12] += 8.0
    weights = LeverageWeights.fit(x, None, 0).weights(x)
    assert weights[:12].sum() == 0
    assert weights[12:].mean() > 0.9


@pytest.mark.parametrize("size", [10.0, 1e12])
@pytest.mark.parametrize(
    "settings",
    [
        {"p": 1},
        {"p": 2},
        {"p": "mse", "reweight": True},
        {"regularizer": "lasso", "alpha": 0.01},
        {"regularizer": "ridge"},
        {"p": 2, "regularizer": "group", "alpha": 0.01},
    ],
    ids=str,
)
def test_settings_of_ones_own_stand_wrong_cells_in_other_rows_of_each_target(settings, size):
    """40 % of each: hardly a fifth of the rows is right in all three."""
    rng = np.random.default_rng(0)
    x, coef = rng.normal(size=(200, 5)), rng.normal(size=(3, 5))
    y, squares = x @ coef.T + rng.normal(size=(200, 3)), 0.0
    for j in range(3):
        bad = rng.permutation(200) < 80
        best = np.linalg.lstsq(x[~bad], y[~bad, j], rcond=None)[0]
        squares += float(((best - coef[j]) ** 2).sum())
        y[bad, j] = size * (1.0 + 0.1 * rng.normal(size=80))
    model = RobustRegressor(random_state=0, **settings).fit(x, y)
    assert np.linalg.norm(model.coef_ - coef) <= 2.0 * np.sqrt(squares)


def test_units_follow_the_trusted_rows():
    """`alpha` is for scaled data, and a third of the targets far off moves their quartiles."""
    x, y, _, _ = planted(targets=1)
    wrong = y.copy()
    wrong[:130] = 1e12
    lasso = {"regularizer": "lasso", "alpha": 0.02}
    found = RobustRegressor(**lasso).fit(x, wrong[:, 0])
    alone = RobustRegressor(**lasso).fit(x[130:], y[130:, 0])
    np.testing.assert_allclose(found.coef_, alone.coef_, atol=0.05)
