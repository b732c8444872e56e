"""Standard errors, intervals and diagnostics of RobustRegressor."""

import pickle

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from proxlin import Ridge, RobustRegressor
from proxlin.estimators.estimator_state import estimator_state, restore_estimator


def line(n=300, wrong=0.1, spread=0.0, seed=0, size=50.0):
    """Three features, one of which the noise may grow with; the first rows' targets are wrong."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = 1.0 + x @ [1.0, -2.0, 0.5] + (1.0 + spread * np.abs(x[:, 0])) * rng.normal(size=n)
    y[: int(wrong * n)] += size
    return x, y


def errors(model, formula):
    return model.summary(errors=formula).frame()["error"].to_numpy()


def test_one_spread_makes_all_formulas_one():
    model = RobustRegressor().fit(*line(3000, 0.0))
    for formula in ("H1", "H2", "H3", "w"):
        np.testing.assert_allclose(errors(model, formula), errors(model, "sandwich"), rtol=0.08)


def test_least_squares_has_the_classical_errors():
    x, y = line(wrong=0.0)
    design = np.column_stack([np.ones(len(x)), x])
    coef = np.linalg.lstsq(design, y, rcond=None)[0]
    residual, inverse = y - design @ coef, np.linalg.inv(design.T @ design)
    model = RobustRegressor(p="mse", regularizer=None).fit(x, y)
    classical = np.sqrt(residual @ residual / (len(y) - 4) * np.diag(inverse))
    np.testing.assert_allclose(errors(model, "H1"), classical, rtol=1e-6)
    hat = ((design @ inverse) * design).sum(1)
    meat = (design * ((residual / (1 - hat)) ** 2)[:, None]).T @ design
    hc3 = np.sqrt(np.diag(inverse @ meat @ inverse))
    np.testing.assert_allclose(errors(model, "sandwich"), hc3, rtol=1e-6)


def test_repeated_rows_are_weights():
    x, y = line(100)
    twice = RobustRegressor().fit(np.repeat(x, 2, axis=0), np.repeat(y, 2))
    weighted = RobustRegressor().fit(x, y, np.full(100, 2.0))
    for formula in ("H2", "w"):
        np.testing.assert_allclose(errors(weighted, formula), errors(twice, formula), rtol=1e-4)


@pytest.mark.parametrize("spread", [0.0, 1.5])
def test_the_bootstrap_agrees_with_the_sandwich(spread):
    """On average over tables: of one, the bootstrap alone says that the scale is estimated too."""
    drawn, formula = [], []
    for seed in range(6):
        model = RobustRegressor(random_state=0).fit(*line(600, 0.1, spread, seed=seed))
        frame = model.summary(errors="bootstrap", repeats=1000).frame()
        assert ((frame["low"] < frame["coef"]) & (frame["coef"] < frame["high"])).all()
        drawn.append(frame["error"].to_numpy())
        formula.append(errors(model, "sandwich"))
    np.testing.assert_allclose(np.mean(drawn, axis=0), np.mean(formula, axis=0), rtol=0.05)


def test_errors_do_not_see_how_wrong_rows_are():
    near, far = (RobustRegressor(random_state=0).fit(*line(size=s)) for s in (1e2, 1e9))
    for formula in ("sandwich", "H1", "H2", "H3", "w", "bootstrap"):
        np.testing.assert_allclose(errors(near, formula), errors(far, formula), rtol=1e-3)
    new = line(50, seed=9)[0]
    for method in ("split", "cv+"):
        ends = [model.predict_interval(new, method=method) for model in (near, far)]
        np.testing.assert_allclose(ends[0], ends[1], rtol=0.02, atol=0.02)


def test_medians_have_errors_of_quantiles():
    x, y = line(wrong=0.0)
    plain = RobustRegressor(p=1, reweight=False, leverage=False, regularizer=None).fit(x, y)
    half = RobustRegressor(quantile=0.5).fit(x, y)
    np.testing.assert_allclose(errors(plain, "iid"), errors(half, "iid"), rtol=1e-3)
    expected = errors(RobustRegressor().fit(x, y), "w") * np.sqrt(0.95 * np.pi / 2)
    np.testing.assert_allclose(errors(half, "nid"), expected, rtol=0.25)


@pytest.mark.parametrize("p", [1, "mse"])
def test_reweighted_fits_have_the_errors_of_the_rows_they_keep(p):
    x, y = line(size=1e6)
    for leverage in (False, True):
        both = RobustRegressor(p=p, reweight=True, leverage=leverage).fit(x, np.stack([y, y], 1))
        kept = both.row_weights_ > 0.5
        assert not kept[:30].any()
        assert kept[30:].sum() >= 268
        plain = RobustRegressor(p=p, reweight=False, leverage=False, regularizer=None)
        expected = errors(plain.fit(x[kept], y[kept]), "sandwich")
        found = errors(both, "sandwich").reshape(2, -1)
        np.testing.assert_allclose(found, [expected, expected], rtol=0.01)


def test_quantiles_without_an_intercept_have_errors():
    """Where the intercept is zero, those of the same formula with one."""
    x, y = line(wrong=0.0)
    with_one, without = (
        errors(RobustRegressor(quantile=0.5, fit_intercept=f).fit(x, y - 1.0), formula)
        for f, formula in ((True, "ker"), (False, "sandwich"))
    )
    np.testing.assert_allclose(without, with_one[1:], rtol=0.1)


@pytest.mark.parametrize("method", ["split", "cv+"])
@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_intervals_are_wide_where_the_noise_is(method, wrong):
    covered, widths = [], []
    for seed in range(3 if method == "split" else 1):
        x, y = line(400, wrong, spread=2.0, seed=seed)
        new, truth = line(2000, 0.0, spread=2.0, seed=100 + seed)
        model = RobustRegressor(random_state=0).fit(x, y)
        low, high = model.predict_interval(new, 0.9, method=method)
        inside = (low <= truth) & (truth <= high)
        far = np.abs(new[:, 0]) > 1.5
        covered.append([inside.mean(), inside[far].mean()])
        widths.append((high - low)[far].mean() / (high - low)[np.abs(new[:, 0]) < 0.3].mean())
    everywhere, there = np.mean(covered, axis=0)
    assert 0.86 <= everywhere <= 0.94
    assert there >= 0.83
    assert min(widths) > 1.8  # the noise itself: 5.1 over 1.3 times on average


def test_intervals_surround_nets():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(1400, 1))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=1400)
    y[:40] += 20.0
    model = RobustRegressor(hidden=(8,), validation_fraction=0.5, max_iter=30, random_state=0).fit(
        x[:400], y[:400]
    )
    low, high = model.predict_interval(x[400:], 0.8)
    # About 180 good rows were held out: coverage varies by 0.03 from table to table.
    assert ((low <= y[400:]) & (y[400:] <= high)).mean() == pytest.approx(0.8, abs=0.09)
    assert isinstance(model.diagnostics(), Figure)


def test_fields_and_influence_of_planted_rows():
    x, y = line(100, 0.0)
    x[0], y[0] = [12.0, 0.0, 0.0], 13.0  # far out, and right
    x[1], y[1] = [0.0, 12.0, 0.0], 60.0  # far out, and wrong
    y[2] = 80.0
    model = RobustRegressor().fit(pd.DataFrame(x, columns=["a", "b", "c"]), y)
    rows = model.row_diagnostics()
    assert list(rows["field"][:3]) == ["far", "bad far", "outlier"]
    assert (rows["field"][3:] == "good").mean() > 0.9
    assert (rows["weight"][1:3] == 0).all()
    assert (rows.filter(like="influence")[1:3] == 0).all(axis=None)
    assert rows["influence of a"].abs().idxmax() == 0
    # What a row has moved is what leaving it out changes, but for the weights of others.
    for row in (50, 54):
        kept = np.arange(100) != row
        without = RobustRegressor().fit(x[kept], y[kept])
        change = (model.coef_ - without.coef_) / errors(model, "sandwich")[1:]
        influence = rows.filter(like="influence of").iloc[row, 1:].astype(float)
        np.testing.assert_allclose(influence, change, atol=0.05)


def test_several_targets_have_rows_and_pictures_of_their_own():
    x, y = line()
    model = RobustRegressor().fit(x, np.column_stack([y, -3 * y]))
    first, second = model.row_diagnostics(0), model.row_diagnostics(1)
    np.testing.assert_allclose(second["residual"], -3 * first["residual"], atol=1e-3)
    low, high = model.predict_interval(x)
    np.testing.assert_allclose((high - low)[:, 1], 3 * (high - low)[:, 0], rtol=1e-3)
    with pytest.raises(ValueError, match="target must be from 0 to 1"):
        model.diagnostics(2)


@pytest.mark.parametrize("copy", [lambda m: pickle.loads(pickle.dumps(m)),
                                  lambda m: restore_estimator(*estimator_state(m))])  # fmt: skip
def test_stored_models_keep_errors_and_intervals_and_no_rows(copy):
    x, y = line()
    model = RobustRegressor().fit(x, y)
    again = copy(model)
    np.testing.assert_array_equal(again.predict_interval(x), model.predict_interval(x))
    pd.testing.assert_frame_equal(again.summary().frame(), model.summary().frame())
    for ask in (again.diagnostics, lambda: again.summary(errors="H1"),
                lambda: again.predict_interval(x, method="cv+")):  # fmt: skip
        with pytest.raises(ValueError, match="needs the training rows"):
            ask()
    with pytest.raises(ValueError, match="must be the training rows, 300"):
        again.row_diagnostics(X=x[:50], y=y[:50])


def test_stored_models_are_diagnosed_by_the_rows_they_are_given():
    x, y = line()
    model = RobustRegressor().fit(x, y)
    again = restore_estimator(*estimator_state(model))
    pd.testing.assert_frame_equal(again.row_diagnostics(X=x, y=y), model.row_diagnostics())


def test_a_target_without_noise_is_refused():
    x, y = line()
    model = RobustRegressor().fit(x, np.ones(len(y)))
    for ask in (model.summary, lambda: model.predict_interval(x), model.diagnostics):
        with pytest.raises(ValueError, match="a target with noise around its fit"):
            ask()


def test_what_has_no_meaning_is_refused():
    x, y = line()
    with pytest.raises(ValueError, match="quantiles are ends of an interval"):
        RobustRegressor(quantile=0.5).fit(x, y).predict_interval(x)
    with pytest.raises(ValueError, match="errors must be one of"):
        RobustRegressor().fit(x, y).summary(errors="white")
    with pytest.raises(ValueError, match="not known"):
        RobustRegressor(regularizer=Ridge(0.1)).fit(x, y).summary()
    with pytest.raises(ValueError, match="repeats"):
        RobustRegressor().fit(x, y).summary(errors="bootstrap", repeats=0)


def test_the_bootstrap_tells_how_far_it_is(capsys):
    RobustRegressor().fit(*line()).summary(errors="bootstrap", repeats=200, progress=True)
    said = capsys.readouterr().err
    assert "100% of the repeats" in said
    assert "200 repeats" in said


@pytest.mark.parametrize(("shift", "wrong"), [(5.0, 1e6), (3.0, 50.0)])
def test_wrong_rows_on_one_side_of_a_feature_widen_no_interval(shift, wrong):
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(300, 3)), rng.normal(size=(2000, 3))
    y, truth = (rows.sum(axis=1) + rng.normal(size=len(rows)) for rows in (x, new))
    x[:60, 0] += shift
    y[:60] = wrong
    low, high = RobustRegressor().fit(x, y).predict_interval(new)
    assert 0.87 < np.mean((low <= truth) & (truth <= high)) < 0.93
    assert np.quantile(high - low, 0.95) < 4.0


@pytest.mark.parametrize("settings", [{}, {"p": "mse", "regularizer": None}])
def test_categories_of_one_row_have_the_error_of_its_noise(settings):
    rng = np.random.default_rng(0)
    category = np.concatenate([np.zeros(150, dtype=int), np.arange(1, 31)])
    x = np.column_stack([rng.normal(size=180), np.eye(31)[category][:, 1:]])
    y = x[:, 0] + 0.3 * rng.normal(size=180)
    model = RobustRegressor(**settings).fit(x, y)
    found = errors(model, "sandwich")
    np.testing.assert_allclose(found[2:], errors(model, "H1")[2:], rtol=0.05)
    np.testing.assert_allclose(found[2:], 0.3, rtol=0.2)


def test_the_target_without_noise_is_named():
    x, y = line()
    with pytest.raises(ValueError, match="got y1, which is constant"):
        RobustRegressor().fit(x, np.column_stack([y, np.ones(len(y))])).summary()


def test_rows_off_a_constant_are_flagged():
    x, _ = line(200)
    y = np.where(np.arange(200) < 10, 1e6, 7.0)
    model = RobustRegressor().fit(x, y)
    np.testing.assert_array_equal(model.outliers_, y > 7)
    np.testing.assert_allclose(model.predict(x), 7.0)
    np.testing.assert_allclose(errors(model, "sandwich"), 0.0, atol=1e-9)
    assert "Converged" in str(model.summary())


def test_least_absolute_residuals_are_proven_and_say_that_errors_are_not_known():
    x, y = line(wrong=0.0)
    model = RobustRegressor().fit(x, np.maximum(y - 2.0, 0.0))
    said = str(model.summary())
    assert "no errors are known of a fit by a ridge or by least absolute residuals" in said
    assert model.result_.certificate.value < 1e-5


@pytest.mark.filterwarnings("error")
def test_one_row_that_counts_is_fitted():
    x, y = line(50)
    model = RobustRegressor().fit(x, y, sample_weight=(np.arange(50) < 1) * 1.0)
    np.testing.assert_allclose(model.predict(x), y[0])


def test_summaries_name_the_targets_as_the_table_does():
    x = np.random.default_rng(0).normal(size=(60, 2))
    for y, names in (
        (pd.Series(x[:, 0], name="response"), ["response"]),
        (pd.Series(x[:, 0]), ["y"]),
        (pd.DataFrame({"a": x[:, 0], "b": x[:, 1]}), ["a", "b"]),
    ):
        noisy = y + 0.1 * np.random.default_rng(1).normal(size=y.shape)
        frame = RobustRegressor().fit(x, noisy).summary().frame()
        assert list(frame.index.get_level_values("target").unique()) == names
