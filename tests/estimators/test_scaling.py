"""Scaling by median and inter-quartile range."""

import numpy as np
import pytest

from proxlin.estimators.scaling import RobustScaling

RNG = np.random.default_rng(0)


def test_scale_of_a_gaussian_is_its_standard_deviation():
    scaling = RobustScaling.fit(RNG.normal(5.0, 3.0, (200_000, 1)))
    assert scaling.center[0] == pytest.approx(5.0, abs=0.03)
    assert scaling.scale[0] == pytest.approx(3.0, rel=0.01)


def test_a_fifth_of_the_rows_hardly_moves_it():
    x = RNG.normal(size=(10_000, 1))
    dirty = x.copy()
    dirty[:2000] = 1e9
    clean, moved = RobustScaling.fit(x), RobustScaling.fit(dirty)
    assert abs(moved.center[0] - clean.center[0]) < 0.5
    assert moved.scale[0] < 2 * clean.scale[0]


def test_apply_and_invert_are_inverse():
    x = RNG.normal(size=(50, 4)) * [1, 10, 1e-3, 1e5]
    scaling = RobustScaling.fit(x)
    np.testing.assert_allclose(scaling.invert(scaling.apply(x)), x, rtol=1e-12)


def test_folded_coefficients_predict_the_same():
    x, y = RNG.normal(2.0, 5.0, (40, 3)), RNG.normal(-1.0, 0.1, (40, 2))
    features, targets = RobustScaling.fit(x), RobustScaling.fit(y)
    coef, intercept = RNG.normal(size=(2, 3)), RNG.normal(size=2)
    weight, bias = features.fold(coef, intercept, targets)
    scaled = features.apply(x) @ coef.T + intercept
    np.testing.assert_allclose(x @ weight.T + bias, targets.invert(scaled), rtol=1e-10)
    back = features.unfold(weight, bias, targets)
    np.testing.assert_allclose(back[0], coef, rtol=1e-10)
    np.testing.assert_allclose(back[1], intercept, rtol=1e-8)


def test_weights_are_repetitions():
    x = RNG.normal(size=(30, 2))
    weights = RNG.integers(0, 4, 30)
    weighted = RobustScaling.fit(x, weights.astype(float))
    repeated = RobustScaling.fit(x.repeat(weights, axis=0))
    np.testing.assert_array_equal(weighted.center, repeated.center)
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-14)


def test_columns_without_a_spread():
    x = np.zeros((100, 3))
    x[:, 0] = 7.0  # constant
    x[:5, 1] = 1.0  # a rare flag
    x[:, 2] = np.nan
    scaling = RobustScaling.fit(x)
    assert scaling.center[0] == 7.0
    assert scaling.scale[0] == 1.0
    assert scaling.scale[1] == pytest.approx(0.05)  # its mean distance from the median
    assert (scaling.center[2], scaling.scale[2]) == (0.0, 1.0)
