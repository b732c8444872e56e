import copy
import pickle
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from proxlin import RobustFactorization, RobustNMF, Status
from proxlin.errors import CombinationError
from proxlin.exact.factorize import embed, fixed_basis
from tests.exact.factorize.plants import parts_error, planted_cells, subspace_error


def table(**options):
    return planted_cells(**{"n": 80, "m": 20, "rank": 2, "noise": 0.05, **options})


@pytest.fixture(scope="module")
def plant():
    return table()


@pytest.fixture(scope="module")
def fitted(plant):
    return RobustFactorization(2, random_state=0).fit(plant.x.numpy())


def test_planted_parts_are_recovered_where_squared_error_fails():
    # 20 % of the cells missing, 10 % grossly wrong.
    plant = planted_cells(200, 40, 4, non_negative=True, noise=0.02)
    x = plant.x.numpy()
    ours = RobustNMF(4, random_state=0).fit(x)
    plain = make_pipeline(SimpleImputer(), NMF(4, random_state=0, max_iter=1000)).fit(x)
    assert parts_error(torch.from_numpy(ours.components_), plant.right) < 0.01
    assert parts_error(torch.from_numpy(plain[-1].components_), plant.right) > 0.1
    assert ours.components_.min() == 0
    assert ours.transform(x).min() == 0


def test_embeddings_of_the_fit_are_those_of_transform(plant):
    x = plant.x.numpy()
    for p in (1, 2):
        model = RobustFactorization(2, p=p, random_state=0)
        u = model.fit_transform(x)
        assert model.result_.status is Status.CONVERGED
        np.testing.assert_allclose(model.transform(x), u, atol=1e-5)


def test_columns_may_be_bad_instead_of_rows():
    plant = table(gross=0.0)
    x = plant.x.numpy().copy()
    x[:, :3] += 8 * np.random.default_rng(0).normal(size=(80, 3))
    model = RobustFactorization(2, p=2, robust="columns", random_state=0)
    u = model.fit_transform(x)
    assert np.flatnonzero(model.outlier_columns_).tolist() == [0, 1, 2]
    assert np.abs((u @ model.components_ - plant.clean.numpy())[:, 3:]).mean() < 0.05
    np.testing.assert_allclose(model.transform(x), u, atol=1e-5)
    assert not RobustFactorization(2, p=2, random_state=0).fit(x).outliers_.all()


def test_missing_cells_are_filled_and_known_ones_kept(plant, fitted):
    x = plant.x.numpy()
    filled = fitted.impute(x)
    known = ~np.isnan(x)
    np.testing.assert_array_equal(filled[known], x[known])
    error = np.abs(filled - plant.clean.numpy())[~known]
    assert np.median(error) < 0.1
    assert np.median(np.abs(plant.clean.numpy()[~known])) > 0.5


def test_bad_rows_are_flagged_and_scored():
    plant = table(gross=0.0)
    x = plant.x.numpy().copy()
    x[:8] = 10 * np.random.default_rng(0).normal(size=(8, 20))
    model = RobustFactorization(2, p=2, random_state=0).fit(x)
    assert model.outliers_[:8].all()
    assert model.outliers_[8:].mean() < 0.05
    assert model.score_samples(x)[:8].max() < model.score_samples(x)[8:].min()


def test_chunks_of_a_stream(plant):
    x = plant.x.numpy()
    model = RobustFactorization(2, random_state=0)
    for chunk in np.array_split(x, 4):
        model.partial_fit(chunk)
    assert subspace_error(torch.from_numpy(model.components_), plant.right) < 0.05
    whole = RobustFactorization(2, batch_size=20, max_iter=3, random_state=0).fit(x)
    assert subspace_error(torch.from_numpy(whole.components_), plant.right) < 0.05
    assert whole.result_.status is Status.ITERATIONS
    assert whole.result_.certificate is None
    wide = [RobustFactorization(2, batch_size=size, max_iter=1, random_state=0).fit(x)
            for size in (len(x), 2**64)]  # fmt: skip
    np.testing.assert_array_equal(wide[0].components_, wide[1].components_)


def test_frames_have_names_in_and_out(plant):
    frame = pd.DataFrame(plant.x.numpy(), columns=[f"c{j}" for j in range(20)])
    model = RobustFactorization(2, p=2, random_state=0).set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == ["robustfactorization0", "robustfactorization1"]
    assert list(model.feature_names_in_) == list(frame.columns)
    pd.testing.assert_frame_equal(model.transform(frame), out, atol=1e-6)


def test_types_copies_and_pickles(plant, fitted):
    tensor = RobustFactorization(2, random_state=0).fit(plant.x)
    np.testing.assert_array_equal(tensor.components_, fitted.components_)
    single = RobustFactorization(2, p=2, random_state=0).fit(plant.x.float())
    assert single.transform(plant.x.float()).dtype == single.components_.dtype == np.float32
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.components_, fitted.components_)
    assert clone(fitted).get_params() == fitted.get_params()
    np.testing.assert_allclose(fitted.inverse_transform(np.eye(2)), fitted.components_, atol=1e-12)


def test_the_exponent_is_a_parameter_of_grids(plant):
    def score(model, x, y=None):
        return float(np.median(model[-1].score_samples(x)))

    pipeline = make_pipeline(FunctionTransformer(), RobustFactorization(2, max_iter=5))
    search = GridSearchCV(
        pipeline, {"robustfactorization__p": [1, 2]}, scoring=score, cv=2, error_score="raise"
    )
    assert search.fit(plant.x.numpy()).best_params_["robustfactorization__p"] in (1, 2)


@pytest.mark.parametrize(
    "x",
    [np.zeros((6, 4)), np.ones((6, 4)), np.ones((1, 4)), np.ones((5, 1)), np.eye(4, dtype=bool)],
)
@pytest.mark.parametrize("kind", [RobustFactorization, RobustNMF])
def test_degenerate_tables_are_reproduced(x, kind):
    model = kind(min(x.shape), random_state=0)
    np.testing.assert_allclose(model.inverse_transform(model.fit_transform(x)), x, atol=1e-6)


@cache
def earlier(kind):
    return kind(1, p=2, alpha=0.0).fit(np.arange(20.0).reshape(5, 4) + 1)


def with_nan(where):
    x = np.arange(20.0).reshape(5, 4)
    x[where] = np.nan
    return x


@pytest.mark.parametrize(
    ("model", "x", "words"),
    [
        (RobustFactorization(), with_nan(np.s_[2]), "known cell in every row.*first is 2"),
        (RobustFactorization(), with_nan(np.s_[:, 1]), "known cell in every column.*first is 1"),
        (RobustFactorization(9), np.ones((5, 4)), "n_components must be at most 4.*got 9"),
        (RobustFactorization(0), np.ones((5, 4)), "n_components must be a whole number >= 1"),
        (RobustFactorization(p=0.5), np.ones((5, 4)), "p must be"),
        (RobustFactorization(p=np.inf), np.ones((5, 4)), "p must be a finite number"),
        (RobustFactorization(robust="cells"), np.ones((5, 4)), "robust must be one of"),
        (RobustFactorization(alpha=-1), np.ones((5, 4)), "alpha must be >= 0"),
        (RobustFactorization(batch_size=0), np.ones((5, 4)), "batch_size must be"),
        (RobustFactorization(), np.full((5, 4), np.inf), "infinity"),
        (RobustNMF(), -np.ones((5, 4)), "Negative values in data.*got -1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_and_leaves_the_estimator_alone(model, x, words):
    good = copy.deepcopy(earlier(type(model))).set_params(**model.get_params())
    before = good.components_.copy()
    with pytest.raises(ValueError, match=words):
        good.fit(x)
    np.testing.assert_array_equal(good.components_, before)


def test_a_penalty_does_not_go_with_bad_columns():
    with pytest.raises(CombinationError, match='alpha must be 0 with robust="columns"'):
        RobustFactorization(robust="columns", alpha=0.1).fit(np.ones((5, 4)))


def test_rows_that_are_not_solved_are_told(plant, monkeypatch):
    model = RobustFactorization(2, p=1.5, max_iter=3, random_state=0).fit(plant.x.numpy())
    model.transform(plant.x.numpy())  # a warning would be an error
    monkeypatch.setattr(fixed_basis, "embed", partial(embed, max_steps=2))
    with pytest.warns(ConvergenceWarning, match="80 of 80 embeddings are not proven optimal"):
        model.transform(plant.x.numpy())


def test_scores_of_new_rows_are_those_of_training_rows(plant, fitted):
    scores = fitted.outlier_scores(plant.x.numpy())
    np.testing.assert_allclose(scores, fitted.outlier_scores_, atol=1e-4)


def test_embeddings_of_another_width_are_refused(fitted):
    with pytest.raises(ValueError, match="n_components = 2 columns; got 3"):
        fitted.inverse_transform(np.ones((1, 3)))
