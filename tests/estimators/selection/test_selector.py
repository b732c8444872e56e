import copy

import cvxpy
import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, MultiTaskLasso
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from proxlin import RobustFeatureSelector
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.scores import OutlierScale

SUPPORT = [1, 3, 4]


def planted(n=200, features=10, *, targets=2, bad=0, noise=0.05, seed=0):
    """y from three features, the first `bad` rows of it far away on one side."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, features))
    weight = np.zeros((features, targets))
    weight[SUPPORT] = generator.choice([-1.0, 1.0], size=(3, targets))
    y = x @ weight + noise * generator.normal(size=(n, targets))
    # The rubbish follows a feature that the good rows do not depend on.
    y[:bad] = 30 * (1 + x[:bad, [0]])
    return x, y


def violation(x, target, weights, alpha, selector):
    """How far from holding the conditions of optimality are, for the best choice of slopes.

    Slopes u_i = r_i / ||r_i|| are given except in rows that are fitted exactly, where any of length
    <= 1 will do; X^T (w u) / sum w must be -alpha B_j / ||B_j|| in the rows of selected features
    and at most alpha long in the others, and sum w u must vanish.
    """
    residual = x @ selector.coef_.T + selector.intercept_ - target
    length = np.linalg.norm(residual, axis=1)
    exact = length < 1e-6
    share = weights / weights.sum()
    known = share[~exact, None] * residual[~exact] / length[~exact, None]
    free = cvxpy.Variable((max(1, exact.sum()), target.shape[1]))
    spread = share[exact, None] if exact.any() else np.zeros((1, 1))
    there = x[exact] if exact.any() else np.zeros((1, x.shape[1]))
    slopes = cvxpy.multiply(spread @ np.ones((1, target.shape[1])), free)
    gradient = x[~exact].T @ known + there.T @ slopes
    slack = cvxpy.Variable()
    conditions = [cvxpy.norm(free, 2, axis=1) <= 1]
    conditions.append(cvxpy.norm(known.sum(0) + cvxpy.sum(slopes, axis=0)) <= slack)
    for j, row in enumerate(selector.coef_.T):
        pull = alpha * row / np.linalg.norm(row) if row.any() else np.zeros_like(row)
        allowed = slack if row.any() else alpha + slack
        conditions.append(cvxpy.norm(gradient[j] + pull) <= allowed)
    problem = cvxpy.Problem(cvxpy.Minimize(slack), conditions)
    problem.solve(solver="CLARABEL")
    return float(problem.value)


@pytest.mark.parametrize("bad", [0, 60])
def test_planted_features_are_found(bad):
    x, y = planted(bad=bad)
    selector = RobustFeatureSelector(3).fit(x, y)
    assert selector.get_support(indices=True).tolist() == SUPPORT
    assert selector.result_.status.name == "CONVERGED"


def test_outliers_that_mislead_the_squared_loss_do_not_mislead_the_norm():
    x, y = planted(bad=60)
    squared = MultiTaskLasso(alpha=0.1, tol=1e-6).fit(x, y)
    worst = np.linalg.norm(squared.coef_, axis=0).argsort()[::-1][:3]
    assert 0 in worst  # the feature of the rubbish
    selector = RobustFeatureSelector(3).fit(x, y)
    assert not selector.support_[0]
    assert set(np.flatnonzero(selector.outliers_)) >= set(range(60))


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("share", [0.8, 0.3])
def test_solutions_satisfy_the_conditions_of_the_group_lasso(supervised, share):
    x, y = planted(n=80, features=6, noise=0.5)
    data = (x, y) if supervised else (x,)
    largest = RobustFeatureSelector(1, scaling=False).fit(*data).alpha_max_
    alpha = share * largest
    selector = RobustFeatureSelector(alpha=alpha, scaling=False, tol=1e-10).fit(*data)
    weights = np.ones(80)
    if not supervised:  # rows beyond the edge count as if they were on it
        length = np.linalg.norm(x, axis=1)
        weights = np.minimum(1, OutlierScale.fit(length).limit / length)
    target = y if supervised else x
    assert violation(x, target, weights, alpha, selector) <= 1e-3 * alpha
    # Beyond the largest strength they cannot hold, since something is kept.
    assert violation(x, target, weights, 4 * alpha, selector) > 0.1 * alpha
    kept = selector.coef_.any(axis=0)
    np.testing.assert_array_equal(kept, selector.support_)
    assert kept.any()


@pytest.mark.parametrize("supervised", [True, False])
def test_nothing_is_kept_from_the_largest_strength_on_and_something_just_below(supervised):
    x, y = planted(n=80, features=6)
    data = (x, y) if supervised else (x,)
    largest = RobustFeatureSelector(1).fit(*data).alpha_max_
    none = RobustFeatureSelector(alpha=largest * 1.0001).fit(*data)
    assert not none.support_.any()
    assert not none.coef_.any()
    some = RobustFeatureSelector(alpha=largest * 0.98).fit(*data)
    assert some.support_.any()
    assert some.result_.objective < none.result_.objective


def test_a_vanishing_strength_gives_the_fit_without_regulariser():
    x = planted(n=60, features=5)[0][:, :4]
    y = x @ np.arange(8.0).reshape(4, 2)
    selector = RobustFeatureSelector(alpha=1e-9, scaling=False, tol=1e-9).fit(x, y)
    plain = LinearRegression().fit(x, y)  # exact data: every loss has the same answer
    np.testing.assert_allclose(selector.coef_, plain.coef_, atol=1e-5)
    assert selector.support_.all()


def test_columns_that_the_others_follow_are_kept_also_among_huge_unrelated_rows():
    generator = np.random.default_rng(0)
    leaders = generator.normal(size=(600, 2))
    followers = np.repeat(leaders, 4, axis=1) + generator.normal(size=(600, 8))
    x = np.concatenate([leaders, followers], axis=1)
    x[:20] = 50 * generator.normal(size=(20, 10))
    selector = RobustFeatureSelector(2).fit(x)
    assert selector.get_support(indices=True).tolist() == [0, 1]
    assert selector.outliers_[:20].all()


def test_rows_beyond_the_edge_count_as_if_they_were_on_it():
    x = np.random.default_rng(0).normal(size=(50, 4))
    x[:3] *= 100
    length = np.linalg.norm(x, axis=1)
    weights = np.minimum(1, OutlierScale.fit(length).limit / length)
    assert (weights[:3] < 0.1).all()
    largest = RobustFeatureSelector(1, scaling=False).fit(x).alpha_max_
    alpha = 0.5 * largest
    selector = RobustFeatureSelector(alpha=alpha, scaling=False, tol=1e-8).fit(x)
    matrix, offset = cvxpy.Variable((4, 4)), cvxpy.Variable(4)
    residual = x @ matrix + np.ones((50, 1)) @ cvxpy.reshape(offset, (1, 4), order="C") - x
    loss = weights @ cvxpy.norm(residual, 2, axis=1) / weights.sum()
    problem = cvxpy.Problem(cvxpy.Minimize(loss + alpha * cvxpy.sum(cvxpy.norm(matrix, 2, axis=1))))
    problem.solve(solver="CLARABEL")
    assert selector.result_.objective == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(selector.coef_, matrix.value.T, atol=1e-3)


def test_importances_are_row_norms_and_decide_the_support():
    x, y = planted()
    selector = RobustFeatureSelector(4).fit(x, y)
    np.testing.assert_allclose(
        selector.feature_importances_, np.linalg.norm(selector.coef_, axis=0), rtol=1e-12
    )
    kept, left = (selector.feature_importances_[m] for m in (selector.support_, ~selector.support_))
    assert selector.support_.sum() == 4
    assert kept.min() >= left.max()
    assert selector.alpha_ < selector.alpha_max_


def test_the_path_falls_and_its_points_are_solutions():
    x, y = planted(n=100, features=6)
    path = RobustFeatureSelector(n_alphas=6).path(x, y)
    assert (np.diff(path.alphas) < 0).all()
    assert not path.supports[0].any()
    assert path.supports[-1].all()
    assert (np.diff(path.objectives) <= 1e-9).all()  # the optimum falls with the strength
    for alpha, importances, objective in zip(
        path.alphas, path.importances, path.objectives, strict=True
    ):
        alone = RobustFeatureSelector(alpha=alpha).fit(x, y)  # without a warm start
        np.testing.assert_allclose(importances, alone.feature_importances_, atol=2e-3)
        assert objective == pytest.approx(alone.result_.objective, rel=1e-5)
    frame = path.frame(list("abcdef"))
    assert frame.shape == (6, 6)
    assert frame.index.name == "alpha"
    own = RobustFeatureSelector().path(x, y, alphas=[0.01, 0.1])
    assert own.alphas.tolist() == [0.1, 0.01]


@pytest.mark.parametrize(("wanted", "kept"), [(None, 5), (1, 1), (10, 10), (0.35, 4)])
def test_as_many_features_are_kept_as_asked_for(wanted, kept):
    x, y = planted(n=60)
    assert RobustFeatureSelector(wanted).fit(x, y).get_support().sum() == kept


def test_scaling_makes_units_irrelevant():
    x, y = planted(n=80, features=6)
    units = 10.0 ** np.arange(-3, 3)
    one = RobustFeatureSelector(alpha=0.05).fit(x, y)
    other = RobustFeatureSelector(alpha=0.05).fit(x * units + 5, y * 100)
    np.testing.assert_allclose(one.feature_importances_, other.feature_importances_, rtol=1e-3)
    scaled = RobustScaling.fit(x).apply(x), RobustScaling.fit(y).apply(y)
    by_hand = RobustFeatureSelector(alpha=0.05, scaling=False).fit(*scaled)
    np.testing.assert_allclose(one.coef_, by_hand.coef_, rtol=1e-6)


def test_names_of_classes_are_indicator_columns():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(90, 6))
    index = np.digitize(x[:, 2], [-0.4, 0.4])
    names = np.array(["low", "middle", "top"])[index]
    by_name = RobustFeatureSelector(1).fit(x, names)
    assert by_name.get_support(indices=True).tolist() == [2]
    by_column = RobustFeatureSelector(1).fit(x, np.eye(3)[index])
    np.testing.assert_array_equal(by_name.feature_importances_, by_column.feature_importances_)
    with pytest.raises(InvalidInputError, match="missing"):
        RobustFeatureSelector(1).fit(x, pd.Series(["a", None] * 45))


def test_numpy_pandas_and_torch_give_the_same(tmp_path):
    x, y = planted(n=60)
    table = pd.DataFrame(x, columns=list("abcdefghij"))
    selector = RobustFeatureSelector(3).fit(table, pd.DataFrame(y))
    assert selector.get_feature_names_out().tolist() == ["b", "d", "e"]
    pd.testing.assert_frame_equal(
        selector.set_output(transform="pandas").transform(table), table[["b", "d", "e"]]
    )
    tensor = RobustFeatureSelector(3).fit(torch.from_numpy(x), torch.from_numpy(y))
    np.testing.assert_array_equal(tensor.transform(torch.from_numpy(x)), x[:, SUPPORT])
    np.testing.assert_array_equal(tensor.coef_, selector.coef_)
    joblib.dump(tensor, tmp_path / "selector.joblib")
    np.testing.assert_array_equal(
        joblib.load(tmp_path / "selector.joblib").transform(x), x[:, SUPPORT]
    )
    assert clone(tensor).get_params() == tensor.get_params()


def test_it_selects_inside_a_pipeline_and_a_search():
    x, y = planted(n=60)
    flow = make_pipeline(RobustFeatureSelector(), LinearRegression())
    grid = {"robustfeatureselector__n_features_to_select": [1, 3]}
    search = GridSearchCV(flow, grid, cv=2).fit(x, y)
    assert search.best_params_["robustfeatureselector__n_features_to_select"] == 3


def test_constant_columns_are_never_kept_by_strength():
    x, y = planted(n=60)
    x[:, 4] = 3.0
    selector = RobustFeatureSelector(alpha=1e-3).fit(x, y)
    assert not selector.support_[4]
    nothing = RobustFeatureSelector(2).fit(np.ones((10, 4)))
    assert nothing.support_.sum() == 2
    assert not nothing.feature_importances_.any()


@pytest.fixture(scope="module")
def earlier():
    x, y = planted(n=40)
    return RobustFeatureSelector(3).fit(x, y), x, y


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"n_features_to_select": 11}, InvalidInputError, "at most the 10 features"),
        ({"n_features_to_select": 0}, InvalidInputError, "n_features_to_select"),
        ({"n_features_to_select": 1.5}, InvalidInputError, "n_features_to_select"),
        ({"alpha": 0.0}, InvalidInputError, "alpha"),
        ({"alpha": 1.0, "n_features_to_select": 2}, CombinationError, "both"),
        ({"n_alphas": 1}, InvalidInputError, "n_alphas"),
        ({"n_alphas": 10**400}, InvalidInputError, "n_alphas must be at most 10,000"),
        ({"tol": -1}, InvalidInputError, "tol"),
    ],
)
def test_bad_settings_are_refused_and_the_earlier_fit_stays(earlier, settings, error, words):
    selector, x, y = copy.deepcopy(earlier)
    before = selector.get_support()
    selector.set_params(**settings)
    with pytest.raises(error, match=words):
        selector.fit(x, y)
    np.testing.assert_array_equal(selector.get_support(), before)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.ones((1, 4)), None, "1 sample"),
        (np.full((9, 3), np.nan), None, "NaN"),
        (np.full((9, 3), np.inf), None, "infinity"),
        (np.ones((9, 3)), np.ones(8), "inconsistent"),
        (np.ones((9, 3)), np.ones((9, 0)), "target|feature"),
        (torch.eye(4).to_sparse(), None, "dense"),
    ],
)
def test_bad_rows_are_refused(x, y, words):
    with pytest.raises(ValueError, match=words):
        RobustFeatureSelector(2).fit(x, y)
    with pytest.raises(InvalidInputError, match="alphas"):
        RobustFeatureSelector().path(*planted(n=20), alphas=[])


def test_cells_whose_squares_cannot_be_added_are_refused_without_targets():
    x = np.random.default_rng(0).normal(size=(30, 4))
    x[3, 1] = 1e200
    with pytest.raises(InvalidInputError, match="squares of which can be added"):
        RobustFeatureSelector().fit(x)


@pytest.mark.parametrize("size", [20.0, 1e6, 1e9])
def test_wrong_features_with_wrong_targets_do_not_choose(size):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(300, 12))
        y = x[:, :3] @ [2.0, -1.5, 1.0] + rng.normal(size=300)
        y[:90] += size
        x[:30] *= size
        assert RobustFeatureSelector().fit(x, y).support_[:3].all()
