"""Tables that once broke the default line: features far out, few rows, exact minorities."""

import numpy as np
import pytest

from proxlin import RobustRegressor


def table(n, features, seed):
    rng = np.random.default_rng([seed, n, features])
    x, coef = rng.normal(size=(n, features)), rng.normal(size=features)
    return x, x @ coef + rng.normal(size=n), coef, rng


def least_squares(x, y):
    design = np.column_stack([np.ones(len(x)), x])
    return np.linalg.lstsq(design, y, rcond=None)[0][1:]


@pytest.mark.parametrize(("far", "value"), [(1e12, 50.0), (1e6, 0.0)])
def test_features_far_out_in_a_third_of_the_rows(far, value):
    """They set the quartiles, share a target, and each of them could outbid all the others."""
    for seed in range(4):
        x, y, coef, rng = table(150, 3, seed)
        x[:50] = far * (1.0 + 0.05 * rng.normal(size=(50, 3)))
        y[:50] = value
        model = RobustRegressor().fit(x, y)
        best = np.linalg.norm(least_squares(x[50:], y[50:]) - coef)
        assert np.linalg.norm(model.coef_ - coef) <= 1.3 * best
        errors = model.summary().frame()["error"].to_numpy()[1:]
        alone = RobustRegressor().fit(x[50:], y[50:]).summary().frame()["error"].to_numpy()[1:]
        np.testing.assert_allclose(errors, alone, rtol=0.2)


def test_wrong_rows_are_no_majority_by_leaving_out_good_ones():
    """Two good rows of twenty lie farther out than others; without them too many are wrong."""
    ratios = []
    for seed in range(16):
        x, y, coef, rng = table(20, 2, seed)
        y[:8] = 1000.0 + rng.normal(size=8)
        best = np.linalg.norm(least_squares(x[8:], y[8:]) - coef)
        ratios.append(np.linalg.norm(RobustRegressor().fit(x, y).coef_ - coef) / best)
    assert max(ratios) < 20.0  # four of these ended at a thousand


@pytest.mark.parametrize("code", [50.0, 1e6])
def test_two_values_and_a_code_for_unknown(code):
    for seed in range(6):
        x, y, _, rng = table(200, 3, seed)
        y = (y > 0).astype(float)
        y[rng.random(200) < 0.2] = code
        predicted = RobustRegressor().fit(x, y).predict(x)
        assert predicted.min() > -0.6
        assert predicted.max() < 1.6


def test_no_column_varies_among_the_rows_near_the_bulk():
    x = np.zeros((15, 2))
    x[::4] = np.array([[2.0, 2.0], [1.0, 1.0], [-1.0, -1.0], [1.0, 1.0]])
    y = -x[:, 0] + 0.1 * np.random.default_rng(0).normal(size=15)
    model = RobustRegressor(fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(model.predict(x[::4]), -x[::4, 0], atol=0.3)


def scattered_clustered_and_far(x, y, size, rng):
    """Targets off on both sides and on one, and features far out: 40 % in all."""
    y[:30] += size * rng.normal(size=30)
    y[30:60] = size * (1.0 + 0.1 * rng.normal(size=30))
    x[60:80] = size * (1.0 + 0.05 * rng.normal(size=(20, x.shape[1])))
    return np.arange(len(x)) < 80


@pytest.mark.parametrize("size", [1e4, 1e12])
def test_noise_that_grows_beside_wrong_rows_of_all_kinds(size):
    """Fewer than half of the rows lie in the middle of the noise, and yet they found a fit."""
    for seed in range(3):
        x, _, coef, rng = table(200, 4, seed)
        y = x @ coef + np.exp(0.8 * x[:, 0]) * rng.normal(size=200)
        bad = scattered_clustered_and_far(x, y, size, rng)
        model = RobustRegressor().fit(x, y)
        best = np.linalg.norm(least_squares(x[~bad], y[~bad]) - coef)
        assert np.linalg.norm(model.coef_ - coef) <= 1.5 * best
        assert model.outliers_[:60].mean() > 0.9


@pytest.mark.parametrize("size", [1e4, 1e12])
def test_counts_that_are_mostly_zero_beside_wrong_rows_of_all_kinds(size):
    """Least absolute residuals take the place of the fit, and wrong features do not break them."""
    for seed in range(3):
        x, _, _, rng = table(200, 4, seed)
        y = rng.poisson(np.maximum(0.7 + 0.4 * x[:, 0], 0.05)).astype(float)
        clean = x.copy()
        bad = scattered_clustered_and_far(x, y, size, rng)
        model = RobustRegressor().fit(x, y)
        assert np.abs(model.predict(clean)).max() < 10.0
        assert model.outliers_[:60].mean() > 0.9
        assert model.outliers_[~bad].mean() < 0.2


def test_wide_noise_does_not_win_by_describing_more_rows():
    """A column that only wrong rows vary in has them asked; they fit if nothing has a slope."""
    for seed in range(3):
        x, _, coef, rng = table(100, 6, seed)
        x[:, 0] = 7.0
        y = x @ coef + rng.normal(size=100)
        good = least_squares(x[30:, 1:], y[30:])
        x[:30] = 1e12 * (1.0 + 0.05 * rng.normal(size=(30, 6)))
        x[:30, 0], y[:30] = 0.0, 2.0 * rng.normal(size=30)
        model = RobustRegressor().fit(x, y)
        np.testing.assert_allclose(model.coef_[1:], good, atol=0.1)


def test_wrong_cells_in_columns_that_are_mostly_zero():
    ratios = []
    for seed in range(4):
        x, _, _, rng = table(200, 6, seed)
        x *= rng.random(x.shape) < 0.15
        coef = 2.0 * rng.normal(size=6)
        y = x @ coef + rng.normal(size=200)
        best = np.linalg.norm(least_squares(x[40:], y[40:]) - coef)
        x[np.arange(40), rng.integers(0, 6, 40)] += 100.0 * rng.normal(size=40)
        ratios.append(np.linalg.norm(RobustRegressor().fit(x, y).coef_ - coef) / best)
    assert np.mean(ratios) < 2.0
