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
