"""The same bad tables for every estimator: one ValueError, and the earlier fit stays."""

import numpy as np
import pandas as pd
import pytest
from torch import nn

from proxlin import (
    RobustAutoencoder,
    RobustFactorization,
    RobustFeatureSelector,
    RobustNMF,
    RobustRegressor,
    robust_r2_score,
)
from proxlin.errors import InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.exponential(size=(24, 5))
Y = X[:, :2] @ RNG.normal(size=(2, 2))

BRIEF = {"max_iter": 3, "random_state": 0}
KINDS = {
    "regressor": RobustRegressor(),
    "net": RobustRegressor(hidden=(4,), method="adam", **BRIEF),
    "autoencoder": RobustAutoencoder(2, method="adam", **BRIEF),
    "factorization": RobustFactorization(2, **BRIEF),
    "columns": RobustFactorization(2, p=2, robust="columns", **BRIEF),
    "batches": RobustFactorization(2, p=2, batch_size=8, **BRIEF),
    "nmf": RobustNMF(2, **BRIEF),
    "selector": RobustFeatureSelector(2),
}
SUPERVISED = ("regressor", "net", "selector")
FACTORS = ("factorization", "columns", "batches", "nmf")


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(kind):
    return KINDS[kind].fit(X, Y)


def replaced(where, value, table=X):
    changed = table.astype(object)
    changed[where] = value
    return changed


def refused(model, x, y, words):
    before = dict(vars(model))
    with pytest.raises(ValueError, match=words):
        model.fit(x, y)
    after = vars(model)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (replaced((2, 3), np.inf), "must not hold infinity; 1 of 120 cells.*row 2, column 3"),
        (replaced((2, 3), -np.inf), "must not hold infinity"),
        (replaced((0, 0), "a"), "could not convert string to float: 'a'"),
        (pd.DataFrame(X, columns=list("abcdd")), "must not name a column twice; got copies of 'd'"),
        (pd.DataFrame(X, columns=["a", 1, "b", 2, "c"]), "names of one kind"),
        (pd.DataFrame({"t": pd.date_range("2020", periods=24), "x": 1.0}), "not times, as in 't'"),
        (pd.DataFrame({"k": pd.Categorical(["u", "v"] * 12), "x": 1.0}), "holds text such as .u."),
        (X + 1j, "Complex data not supported"),
        (X[:0], "0 sample"),
        (X[0], r"one row a sample; got shape \(5,\)"),
        ([1.0, 2.0], r"X.reshape\(-1, 1\) if it is one feature"),
        (None, "must be a table or an array; got NoneType"),
        (np.ones((24, 2, 2)), "dim 3"),
        (3.0, "must be a table or an array; got float"),
        ([[1.0, 2.0]] * 23 + [[3.0]], "inhomogeneous"),
    ],
)
def test_tables_that_nobody_can_use(fitted, x, words):
    refused(fitted, x, Y, words)


@pytest.mark.parametrize("where", [np.s_[3], np.s_[:, 1], np.s_[4, 2]], ids=["row", "column", "1"])
def test_missing_cells_are_for_factorisations_and_never_fill_a_row_or_column(kind, fitted, where):
    x = X.copy()
    x[where] = np.nan
    if kind not in FACTORS:
        refused(fitted, x, Y, r"must not hold NaN; \d+ of 120 cells do, the first in row")
    elif np.isnan(x).sum() > 1:
        refused(fitted, x, Y, r"known cell in every (row|column)")
    else:
        assert np.isfinite(KINDS[kind].fit(x).components_).all()


def test_one_sample(kind, fitted):
    if kind in ("regressor", "net"):
        assert np.isfinite(fitted.fit(X[:1], Y[:1]).predict(X)).all()
    else:
        refused(fitted, X[:1], Y[:1], "1 sample|n_components must be at most 1")


def test_one_feature(kind, fitted):
    if kind in ("regressor", "net"):
        assert np.isfinite(fitted.fit(X[:, :1], Y).predict(X[:, :1])).all()
    else:
        refused(fitted, X[:, :1], Y, "at least 2 features|at most 1|at most the 1 features")


@pytest.mark.parametrize(
    "x",
    [
        np.where(np.arange(5) == 1, 3.0, X),
        np.ones((24, 5)),
        (4 * X).astype(int),
        X > 1,
        X.astype(object),
        pd.DataFrame(X > 1).astype(object),
    ],
    ids=["constant column", "constant", "int", "bool", "object", "frame of objects"],
)
def test_dull_tables_and_other_numbers_are_fitted(fitted, x):
    fitted.fit(x, Y)
    assert np.isfinite(fitted.outlier_scores_).all()
    assert fitted.n_features_in_ == 5


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (Y[:-1], "inconsistent numbers of samples"),
        (np.where(Y[1, 1] == Y, np.inf, Y), "y contains infinity"),
        (np.where(Y[1, 1] == Y, np.nan, Y), "y contains NaN"),
        (replaced((1, 1), np.inf, Y), "y must not hold infinity"),
        (np.ones((24, 0)), "0 feature"),
        (np.ones((24, 2, 2)), "dim 3"),
        (np.array([["a", "b"]] * 24), "must hold numbers; got the text"),
        (pd.DataFrame(Y, columns=["a", "a"]), "y must not name a column twice"),
        (1.0, "y must be a table or an array"),
    ],
)
@pytest.mark.parametrize("kind", SUPERVISED, scope="module")
def test_targets_that_nobody_can_use(fitted, y, words):
    refused(fitted, X, y, words)


def test_targets_are_needed_by_regressors_alone(kind, fitted):
    if kind in ("regressor", "net"):
        refused(fitted, X, None, "requires y")
    else:
        assert fitted.fit(X) is fitted


def test_exponents_below_one(kind, fitted):
    if kind == "selector":
        pytest.skip("its norm is fixed")
    p = fitted.p
    try:
        refused(fitted.set_params(p=0.5), X, Y, "p must be a number >= 1.*got 0.5")
    finally:
        fitted.set_params(p=p)


@pytest.mark.parametrize("kind", FACTORS)
def test_ranks_and_cells_beyond_a_factorisation(kind):
    model = KINDS[kind].fit(X)
    try:
        refused(model.set_params(n_components=6), X, None, "n_components must be at most 5.*got 6")
    finally:
        model.set_params(n_components=2)
    refused(model, 1e300 * X, None, "cells up to .* in size")
    refused(model, (1e37 * X).astype(np.float32), None, "cells up to .* in size")
    if kind == "nmf":
        refused(model, -X, None, "Negative values in data passed to RobustNMF")


def test_a_net_is_no_factory_of_nets():
    for model in (RobustRegressor(), RobustAutoencoder(2, method="adam", **BRIEF)):
        refused(model.fit(X, Y).set_params(module=nn.Linear(5, 2)), X, Y, "not a net")


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("regressor", "reweight"),
        ("regressor", "scaling"),
        ("regressor", "fit_intercept"),
        ("regressor", "warm_start"),
        ("autoencoder", "tied"),
        ("autoencoder", "scaling"),
        ("autoencoder", "warm_start"),
        ("selector", "scaling"),
    ],
)
def test_words_are_no_truth_values(name, flag):
    model = KINDS[name].__class__(**{flag: "no"})
    refused(model, X, Y, f"{flag} must be True or False; got 'no'")


@pytest.mark.parametrize(
    ("y", "weights", "words"),
    [
        (np.ones(5), (1, 2), "sample_weight"),
        (np.ones(5), "a", "must be a table or an array"),
        (np.ones(5), -np.ones(5), "sample_weight must be >= 0"),
        (np.array(["a"] * 5), None, "could not convert"),
        (np.full(5, np.nan), None, "must not hold NaN"),
        (np.ones((5, 0)), None, "same shape"),
    ],
)
def test_a_score_of_odd_rows_is_refused_in_a_sentence(y, weights, words):
    with pytest.raises(InvalidInputError, match=words):
        robust_r2_score(y, np.ones(5), sample_weight=weights)


def test_targets_that_are_text_are_refused():
    with pytest.raises(InvalidInputError, match="y must hold numbers; got the text 'a'"):
        RobustRegressor().fit(np.ones((20, 2)), ["a"] * 20)


def test_scores_of_single_numbers_are_refused():
    with pytest.raises(InvalidInputError, match="at least one row; got"):
        robust_r2_score(1.0, 1.0)
