"""RobustRegressor on sparse tables: as the dense road, never dense."""

import numpy as np
import pytest
from scipy import sparse

from proxlin import RobustRegressor
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.estimators.regression import regressor
from proxlin.estimators.regression.sparse_design import sparse_scaling
from proxlin.estimators.scaling import RobustScaling


@pytest.fixture(autouse=True)
def never_dense(monkeypatch):
    monkeypatch.setattr(regressor, "_SMALL", 0)


def planted(rows=1500, columns=60, targets=1, *, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    x = sparse.random_array((rows, columns), density=0.1, rng=rng, format="csr")
    x.data = rng.normal(size=x.nnz)
    coef = rng.normal(size=(targets, columns))
    y = x @ coef.T + 1.0 + noise * rng.normal(size=(rows, targets))
    return x, (y[:, 0] if targets == 1 else y), coef


@pytest.mark.parametrize("size", [10.0, 1e4, 1e12])
@pytest.mark.parametrize("targets", [1, 2])
def test_a_third_of_the_rows_far_off_leaves_the_fit_to_the_others(size, targets):
    x, y, coef = planted(targets=targets)
    y[:500] += size
    model = RobustRegressor().fit(x, y)
    good = np.column_stack([np.ones(1000), x[500:].toarray()])
    least_squares = np.linalg.lstsq(good, y[500:].reshape(1000, -1), rcond=None)[0][1:].T
    error = np.linalg.norm(model.coef_.reshape(coef.shape) - coef)
    assert error <= 1.1 * np.linalg.norm(least_squares - coef)
    assert model.outliers_[:500].all()
    assert model.outliers_[500:].mean() < 0.02
    assert model.predict(x).shape == y.shape


def test_it_agrees_with_the_dense_road_well_within_the_noise():
    x, y, coef = planted()
    y[::5] *= -30
    by_products = RobustRegressor().fit(x, y)
    dense = RobustRegressor().fit(x.toarray(), y)
    apart = np.linalg.norm(by_products.coef_ - dense.coef_)
    assert apart < 0.3 * np.linalg.norm(dense.coef_ - coef[0])
    assert by_products.scale_ == pytest.approx(dense.scale_, rel=0.05)
    assert (by_products.outliers_ == dense.outliers_).mean() > 0.99
    np.testing.assert_allclose(
        by_products.outlier_scores(x, y), by_products.outlier_scores(x.toarray(), y), rtol=1e-9
    )


def test_far_cells_have_no_say_unless_the_others_foretell_them():
    x, y, coef = planted(noise=0.05)
    wrong = x.indptr[:100][np.diff(x.indptr)[:100] > 0]
    x.data[wrong] *= 1e4  # the target does not know of it
    model = RobustRegressor().fit(x, y)
    assert np.abs(model.coef_ - coef[0]).max() < 0.05
    right, target, _ = planted(noise=0.05)
    right.data[wrong] *= 15  # far, but as the others have it
    target = right @ coef[0] + 1.0 + (target - planted(noise=0.0)[1])
    assert RobustRegressor().fit(right, target).outliers_.mean() < 0.03


def test_few_rows_get_a_ridge_and_predict_better_with_it():
    x, y, coef = planted(rows=80, columns=60, noise=1.0)
    ridged = RobustRegressor(random_state=0).fit(x, y)
    plain = RobustRegressor(regularizer=None).fit(x, y)
    assert ridged.alpha_ > 0 == plain.alpha_
    new, target, _ = planted(rows=500, noise=0.0, seed=1)
    target = new @ coef[0] + 1.0
    assert np.median(np.abs(ridged.predict(new) - target)) < np.median(
        np.abs(plain.predict(new) - target)
    )


@pytest.mark.parametrize(("rows", "columns"), [(300, 200), (200, 300)])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_fit_that_follows_its_rows_is_judged_by_others(rows, columns, share):
    x, y, _ = planted(rows=rows + 300, columns=columns, noise=1.0)
    wrong, new = np.arange(rows) < share * rows, slice(rows, None)
    model = RobustRegressor(random_state=0).fit(x[:rows], y[:rows] + 1e4 * wrong)
    away = y[new] - model.predict(x[new])
    low, high = model.predict_interval(x[new], 0.9)
    assert 0.8 < ((low <= y[new]) & (y[new] <= high)).mean() < 0.98
    assert 0.7 < model.scale_[0] / (1.0 if columns < rows else away.std()) < 1.4
    assert (model.outlier_scores(x[new], y[new]) > 3.5).mean() < 0.04
    assert model.outliers_[wrong].all()
    assert model.outliers_[~wrong].mean() < 0.03


def test_one_row_is_learnt_without_a_warning():
    x, y, _ = planted(rows=2, columns=30)
    assert RobustRegressor().fit(x[:1], y[:1]).predict(x[:1]) == pytest.approx(y[:1], abs=0.1)


def test_weights_count_rows_and_no_intercept_is_none():
    x, y, _ = planted(rows=300, columns=20)
    twice = np.where(np.arange(300) < 100, 2.0, 1.0)
    repeated = sparse.vstack([x, x[:100]]).tocsr()
    options = {"leverage": False, "fit_intercept": False}
    weighted = RobustRegressor(**options).fit(x, y, sample_weight=twice)
    copied = RobustRegressor(**options).fit(repeated, np.concatenate([y, y[:100]]))
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=2e-3)
    assert weighted.intercept_ == 0.0


def test_scales_are_those_of_the_dense_table():
    x, _, _ = planted(columns=7)
    half = sparse.random_array((1500, 3), density=0.6, rng=np.random.default_rng(1))
    table = sparse.hstack([x, half, sparse.csr_array((1500, 1))]).tocsr()
    dense = RobustScaling.fit(table.toarray())
    np.testing.assert_allclose(sparse_scaling(table).scale, dense.scale, rtol=1e-12)


def test_intervals_of_one_width_cover_what_they_say():
    x, y, _ = planted()
    y[:300] += 100.0
    low, high = RobustRegressor().fit(x, y).predict_interval(x[300:], 0.9)
    np.testing.assert_allclose(high - low, (high - low)[0])
    assert 0.87 < ((low <= y[300:]) & (y[300:] <= high)).mean() < 0.94


@pytest.mark.parametrize("settings", [{"p": 1}, {"quantile": 0.5}, {"regularizer": "lasso"}])
def test_other_settings_ask_for_a_dense_table(settings):
    x, y, _ = planted(rows=50, columns=5)
    with pytest.raises(CombinationError, match=r"X.toarray\(\)"):
        RobustRegressor(**settings).fit(x, y)


def test_small_tables_are_made_dense(monkeypatch):
    monkeypatch.undo()
    x, y, _ = planted(rows=50, columns=5)
    model = RobustRegressor().fit(x, y)
    np.testing.assert_array_equal(model.coef_, RobustRegressor().fit(x.toarray(), y).coef_)
    assert model.summary().frame().shape[0] == 6


def test_bad_cells_are_refused_and_the_table_is_left_alone():
    x, y, _ = planted(rows=50, columns=5)
    before = x.copy()
    RobustRegressor().fit(x, y)
    assert (x != before).nnz == 0
    x.data[3] = np.nan
    with pytest.raises(InvalidInputError, match="must not hold NaN or infinity"):
        RobustRegressor().fit(x, y)
