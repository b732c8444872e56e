"""Quantiles by RobustRegressor: several targets, several levels, nets."""

import numpy as np
import pytest

from proxlin import RobustRegressor
from proxlin.estimators.estimator_state import estimator_state, restore_estimator

LEVELS = [0.9, 0.1, 0.5]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(300, 2))
    noise = rng.normal(size=(300, 2)) * (0.5 + np.abs(x[:, :1]))
    return x, np.column_stack([x.sum(1), 10 * x[:, 0]]) + noise


def test_levels_of_several_targets_are_those_of_each_alone(table):
    x, y = table
    model = RobustRegressor(quantile=LEVELS).fit(x, y)
    assert model.coef_.shape == (2, 3, 2)
    predicted = model.predict(x)
    assert predicted.shape == (300, 2, 3)
    for j in range(2):
        alone = RobustRegressor(quantile=LEVELS).fit(x, y[:, j])
        np.testing.assert_allclose(predicted[:, j], alone.predict(x), atol=1e-5)
    ordered = predicted[..., np.argsort(LEVELS)]
    assert (np.diff(ordered, axis=-1) >= -1e-9).all()
    assert len(model.outlier_scores(x, y)) == 300
    assert model.summary().frame().loc["y1[0.9]"].shape == (3, 6)


def test_a_fit_goes_on_from_several_levels(table):
    x, y = table
    model = RobustRegressor(quantile=LEVELS, warm_start=True).fit(x, y)
    np.testing.assert_allclose(model.predict(x), model.fit(x, y).predict(x), atol=1e-4)


def test_nets_put_the_asked_share_of_rows_below(table):
    x, y = table
    model = RobustRegressor(
        quantile=LEVELS, hidden=(6,), validation_fraction=0, max_iter=30, random_state=0
    ).fit(x, y)
    predicted = model.predict(x)
    below = (y[..., None] <= predicted).mean(axis=0)
    np.testing.assert_allclose(below, [LEVELS, LEVELS], atol=0.05)
    assert (np.diff(predicted[..., np.argsort(LEVELS)], axis=-1) >= 0).all()
    single = RobustRegressor(
        quantile=0.8, hidden=(6,), validation_fraction=0, max_iter=30, random_state=0
    ).fit(x, y[:, 1])
    assert (y[:, 1] <= single.predict(x)).mean() == pytest.approx(0.8, abs=0.05)


def test_weights_count_rows_of_a_net(table):
    x, y = table
    options = {"quantile": 0.7, "hidden": (4,), "validation_fraction": 0, "max_iter": 30}
    half = np.arange(300) < 150
    weighted = RobustRegressor(**options, random_state=0).fit(x, y[:, 0], half.astype(float))
    assert (y[half, 0] <= weighted.predict(x)[half]).mean() == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize("hidden", [(), (3,)])
def test_models_come_back_as_they_were(table, hidden):
    x, y = table
    model = RobustRegressor(quantile=LEVELS, hidden=hidden, max_iter=20, random_state=0).fit(x, y)
    again = restore_estimator(*estimator_state(model))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize("quantile", [0, 1.0, [0.1, 2.0], [0.5, 0.5], [], "half", [0.1, None]])
def test_what_is_no_quantile_is_refused(table, quantile):
    x, y = table
    with pytest.raises(ValueError, match="quantile"):
        RobustRegressor(quantile=quantile).fit(x, y)
