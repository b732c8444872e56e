"""Polars in and out, as pandas: the same numbers, names and refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from proxlin import RobustFactorization, RobustFeatureSelector, RobustRegressor

polars = pytest.importorskip("polars", reason="polars is not installed")


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    named = {name: x[:, place] for place, name in enumerate("abc")}
    return polars.DataFrame(named), pd.DataFrame(named), x @ np.array([1.0, 2.0, 3.0])


def test_a_regressor_learns_and_predicts_the_same(tables):
    ours, theirs, y = tables
    model = RobustRegressor().fit(ours, polars.Series(y))
    twin = RobustRegressor().fit(theirs, pd.Series(y))
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    np.testing.assert_array_equal(model.predict(ours), twin.predict(theirs))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    both = RobustRegressor().fit(ours, polars.DataFrame({"u": y, "v": -y}))
    assert both.coef_.shape == (2, 3)


def test_columns_in_another_order_are_refused(tables):
    ours, _, y = tables
    model = RobustRegressor().fit(ours, y)
    with pytest.raises(ValueError, match="same order"):
        model.predict(ours.select("c", "b", "a"))


def test_null_is_a_missing_cell(tables):
    ours, theirs, _ = tables
    gaps = ours.with_columns(polars.when(polars.col("a") > 1).then(None).otherwise("a").alias("a"))
    holes = theirs.assign(a=theirs["a"].where(theirs["a"] <= 1))
    models = [RobustFactorization(1, random_state=0) for _ in range(2)]
    filled = models[0].fit(gaps).impute(gaps)
    np.testing.assert_array_equal(filled, models[1].fit(holes).impute(holes))


def test_transformers_answer_in_polars_when_asked(tables):
    ours, _, y = tables
    factors = RobustFactorization(2, random_state=0).set_output(transform="polars")
    assert isinstance(factors.fit_transform(ours), polars.DataFrame)
    selector = RobustFeatureSelector(2).set_output(transform="polars").fit(ours, y)
    assert selector.transform(ours).columns == ["b", "c"]
