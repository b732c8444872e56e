"""Standard errors and prediction intervals of robust fits."""

import re

import numpy as np
import pandas as pd
import pytest

from proxlin import RobustRegressor

RNG = np.random.default_rng(0)


def table(n=150, wrong=0.2, rng=RNG):
    x, coef = rng.normal(size=(n, 3)), rng.normal(size=3)
    y = 1.0 + x @ coef + rng.normal(size=n)
    y[: int(wrong * n)] = 50.0
    return x, y, np.concatenate([[1.0], coef])


def test_errors_are_those_of_least_squares_on_clean_rows():
    ratios = []
    for seed in range(8):
        x, y, _ = table(2000, 0.0, np.random.default_rng(seed))
        design = np.column_stack([np.ones(len(x)), x])
        residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        variance = residual @ residual / (len(y) - 4) * np.linalg.inv(design.T @ design).diagonal()
        ours = RobustRegressor().fit(x, y).summary().frame()["error"]
        ratios.append(ours / np.sqrt(variance))
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1.0, atol=0.025)


def test_errors_follow_the_units():
    x, y, _ = table()
    plain = RobustRegressor().fit(x, y).summary().frame()["error"].to_numpy()
    other = RobustRegressor().fit(x * [10, 1, 1] + 5, 3 * y).summary().frame()["error"].to_numpy()
    np.testing.assert_allclose(other[1:], plain[1:] * [0.3, 3, 3], rtol=1e-4)


@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_intervals_cover(wrong):
    rng = np.random.default_rng(1)
    intervals, predictions = [], []
    for _ in range(25):
        x, y, coef = table(wrong=wrong, rng=rng)
        model = RobustRegressor().fit(x, y)
        frame = model.summary(0.95).frame()
        intervals.append(((frame["low"] <= coef) & (coef <= frame["high"])).mean())
        new = rng.normal(size=(400, 3))
        truth = coef[0] + new @ coef[1:] + rng.normal(size=400)
        low, high = model.predict_interval(new, 0.9)
        predictions.append(((low <= truth) & (truth <= high)).mean())
    assert np.mean(intervals) >= 0.88  # 100 coefficients: three standard errors below 0.95
    assert 0.87 <= np.mean(predictions) <= 0.93


def test_summaries_name_what_they_say():
    x, y, _ = table()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    summary = RobustRegressor().fit(frame, np.column_stack([y, -y])).summary()
    assert list(summary.frame().loc["y1"].index) == ["intercept", "a", "b", "c"]
    out = re.search(r"(\d+) of 150 rows count for nothing", str(summary))
    assert out is not None
    assert 30 <= int(out[1]) <= 36  # the wrong ones, and one in ten of those left out


def test_what_has_no_errors_or_too_few_rows_is_refused():
    x, y, _ = table()
    with pytest.raises(ValueError, match="summary is for linear models"):
        RobustRegressor(p=1.5).fit(x, np.column_stack([y, x[:, 0] - y])).summary()
    with pytest.raises(ValueError, match=r"0\.9 needs at least 9 good rows"):
        RobustRegressor().fit(x[30:38], y[30:38]).predict_interval(x)
    model = RobustRegressor().fit(x, y)
    with pytest.raises(ValueError, match="needs at least 999 good rows"):
        model.predict_interval(x, 0.999)
    with pytest.raises(ValueError, match="coverage"):
        model.predict_interval(x, 1.5)
