"""RobustRegressor inside scikit-learn's machinery, and what it refuses."""

import pickle

import joblib
import matplotlib
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from proxlin import Ridge, RobustRegressor
from proxlin.errors import InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ RNG.normal(size=(3, 2)) + 0.01 * RNG.normal(size=(60, 2))


def test_pipeline_search_and_validation():
    chain = make_pipeline(StandardScaler(), RobustRegressor())
    assert cross_val_score(chain, X, Y, cv=3).min() > 0.99
    search = GridSearchCV(chain, {"robustregressor__p": [1, 1.5, 2, np.inf]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.99
    logged = TransformedTargetRegressor(RobustRegressor(), func=np.exp, inverse_func=np.log)
    with np.errstate(invalid="ignore"):
        assert logged.fit(X, Y[:, 0]).predict(X).shape == (60,)


def test_weights_are_routed():
    weights = np.ones(60)
    weights[:30] = 0
    y = Y.copy()
    y[:30] = -50.0
    with sklearn.config_context(enable_metadata_routing=True):
        model = RobustRegressor().set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        chain = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
    assert np.abs(chain.predict(X)[30:] - y[30:]).max() < 0.2


def test_frames_and_tensors_are_read_alike():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = RobustRegressor().fit(frame, pd.DataFrame(Y, columns=["u", "v"]))
    assert list(named.feature_names_in_) == ["a", "b", "c"]
    plain = RobustRegressor().fit(torch.from_numpy(X), torch.from_numpy(Y))
    np.testing.assert_array_equal(named.coef_, plain.coef_)
    assert set(named.history_.columns) >= {"iteration", "seconds", "objective"}
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("settings", [{}, {"hidden": (4,), "max_iter": 5, "random_state": 0}])
def test_copies_predict_the_same(settings, tmp_path):
    model = RobustRegressor(**settings, regularizer=Ridge(1e-3)).fit(X, Y)
    path = tmp_path / "model.joblib"
    joblib.dump(model, path)
    for twin in (pickle.loads(pickle.dumps(model)), joblib.load(path)):
        np.testing.assert_array_equal(twin.predict(X), model.predict(X))
        assert str(twin.result_) == str(model.result_)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "result_")


def test_plot_marks_the_outliers():
    matplotlib.use("Agg")
    y = Y.copy()
    y[:7] += 100.0
    model = RobustRegressor().fit(X, y)
    as_new = model.outlier_scores(X, y) > model.outlier_scale_.cutoff
    for axes, flags in ((model.plot(), model.outliers_), (model.plot(X, y), as_new)):
        good, bad = axes.collections[:2]
        assert len(bad.get_offsets()) == flags.sum() >= 7
        assert len(good.get_offsets()) + len(bad.get_offsets()) == 60
        matplotlib.pyplot.close(axes.figure)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"p": 0.5}, "p must be a number >= 1"),
        ({"p": "huber"}, 'p must be a number >= 1, inf or "mse"'),
        ({"alpha": -1.0, "regularizer": "ridge"}, "alpha must be >= 0"),
        ({"leverage": True, "reweight": False}, "part of the reweighting"),
        ({"regularizer": "rigde"}, "Did you mean 'ridge'"),
        ({"regularizer": 3}, "regularizer must be"),
        ({"hidden": "64"}, "hidden must be a sequence"),
        ({"hidden": (0,)}, "hidden"),
        ({"hidden": (4,), "fit_intercept": False}, "fit_intercept=False is for linear"),
        ({"module": 3}, "module must be a function"),
        ({"module": lambda i, o: nn.Linear(i, o + 1)}, "one row of 2 targets"),
        ({"module": lambda i, o: nn.Linear(i + 1, o)}, "rows of 3 features"),
        ({"module": lambda i, o: "net"}, "must return a torch.nn.Module"),
        ({"leverage": "yes"}, "leverage must be True or False"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"max_seconds": -1.0}, "max_seconds must be > 0"),
        ({"tol": 0.0}, "tol must be > 0"),
        ({"device": "quantum"}, "device must be"),
        ({"method": "newton", "hidden": (4,)}, "must be one of"),
    ],
)
def test_bad_settings_leave_the_last_fit_alone(settings, words):
    model = RobustRegressor().fit(X, Y)
    before, expected = dict(vars(model)), model.predict(X)
    model.set_params(**settings)
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)
    model.set_params(**RobustRegressor().get_params())
    assert vars(model).keys() == before.keys()
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (X[:50], Y, "inconsistent numbers of samples"),
        (np.where(X > 2, np.inf, X), Y, "infinity"),
        (np.where(X > 2, np.nan, X), Y, "NaN"),
        (X, np.where(Y > 2, np.nan, Y), "NaN"),
        (pd.DataFrame(X, columns=["a", "a", "b"]), Y, "twice"),
        (X.astype(str).astype(object) + "x", Y, "could not convert"),
        (X, Y.astype(str).astype(object) + "x", "must hold numbers"),
        (X[:0], Y[:0], "0 sample"),
    ],
)
def test_bad_data_leave_the_last_fit_alone(x, y, words):
    model = RobustRegressor().fit(X, Y)
    before = dict(vars(model))
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=words):
            call(x, y)
        assert vars(model) == before


def test_targets_must_stay_as_many():
    model = RobustRegressor().partial_fit(X, Y)
    with pytest.raises(InvalidInputError, match="2 targets, as in the fit; got 1"):
        model.partial_fit(X, Y[:, 0])
    with pytest.raises(InvalidInputError, match="2 targets"):
        model.outlier_scores(X, Y[:, 0])


@pytest.mark.parametrize("extra", [{}, {"reweight": True}, {"leverage": "auto"}])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X[:1], Y[:1]),
        (X[:, :1], Y),
        (np.ones((20, 2)), np.arange(20.0)),
        (X[:20], np.ones(20)),
        (X[:2], Y[:2]),
        (X > 0, Y),
        ((10 * X).astype(int), (10 * Y).astype(int)),
    ],
    ids=[
        "one row",
        "one feature",
        "constant features",
        "constant target",
        "two rows",
        "bool",
        "int",
    ],
)
def test_small_and_dull_tables_are_fitted(extra, x, y):
    model = RobustRegressor(**extra).fit(x, y)
    assert np.isfinite(model.predict(x)).all()
    assert np.isfinite(model.outlier_scores_).all()
