"""RobustImputer: what a row lets expect, whatever its wrong cells say; medians for noise."""

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer

from proxlin.errors import InvalidInputError
from proxlin.estimators.estimator_settings import drawn_seed
from proxlin.estimators.low_rank.factor_model import FactorModel
from proxlin.estimators.low_rank.imputer import RobustImputer


def low_rank(n: int = 300, columns: int = 10, noise: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 2)) @ rng.normal(size=(2, columns))
    return rows + noise * rng.normal(size=rows.shape)


@pytest.mark.parametrize("size", [10.0, 1e3, 1e12])
def test_hidden_cells_come_back_beside_wrong_ones_of_any_size(size: float) -> None:
    clean = low_rank()
    rng = np.random.default_rng(1)
    x = np.where(rng.random(clean.shape) < 0.15, clean + size * rng.random(clean.shape), clean)
    hidden = rng.random(clean.shape) < 0.2
    x[hidden] = np.nan
    filled = RobustImputer().fit_transform(x)
    assert np.abs(filled - clean)[hidden].mean() < 0.2  # noise 0.1, a cell about 1
    np.testing.assert_array_equal(filled[~hidden], x[~hidden])


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("shape", [(60, 5), (300, 8)])
def test_columns_that_know_nothing_of_each_other_are_filled_with_their_medians(
    shape: tuple[int, int], skewed: bool
) -> None:
    apart = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        clean = np.exp(rng.normal(size=shape)) if skewed else rng.normal(size=shape)
        hidden = rng.random(shape) < 0.3
        x = np.where(hidden, np.nan, clean)
        filled = RobustImputer().fit_transform(x)
        medians = np.abs(np.nanmedian(x, axis=0) - clean)[hidden].mean()
        apart.append(np.abs(filled - clean)[hidden].mean() / medians - 1)
    assert (np.abs(apart) > 1e-12).sum() <= 1  # by chance in one of 44
    assert max(apart) < 0.01


@pytest.mark.parametrize("kind", ["lognormal", "t2", "counts", "zeros"])
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_unrelated_columns_of_any_kind_get_the_very_medians(kind: str, wrong: float) -> None:
    rng = np.random.default_rng(11)
    shape = (200, 6)
    clean = {
        "lognormal": np.exp(rng.normal(size=shape)),
        "t2": rng.standard_t(2, size=shape),
        "counts": rng.poisson(1.5, size=shape).astype(float),
        "zeros": np.where(rng.random(shape) < 0.6, 0.0, rng.exponential(size=shape)),
    }[kind]
    x = np.where(rng.random(shape) < wrong, 1e3 * rng.random(shape), clean)
    x[rng.random(shape) < 0.3] = np.nan
    expected = SimpleImputer(strategy="median").fit_transform(x)
    np.testing.assert_array_equal(RobustImputer().fit_transform(x), expected)


def test_medians_are_those_of_all_rows_however_many() -> None:
    x = np.random.default_rng(12).normal(size=(6001, 2))
    x[:5, 0] = np.nan
    model = RobustImputer().fit(x)
    assert model.weights_["median"] == 1
    expected = SimpleImputer(strategy="median").fit_transform(x)
    np.testing.assert_array_equal(model.transform(x), expected)


def test_a_curved_relation_between_ranks_is_used() -> None:
    rng = np.random.default_rng(3)
    latent = rng.normal(size=(400, 1)) + 0.1 * rng.normal(size=(400, 4))
    clean = np.exp(2 * latent)
    hidden = rng.random(clean.shape) < 0.2
    x = np.where(hidden, np.nan, clean)
    filled = RobustImputer().fit_transform(x)
    assert np.median(np.abs(np.log(filled / clean))[hidden]) < 0.4  # 2 without the row


def test_units_of_columns_do_not_matter() -> None:
    x = low_rank(100)
    x[np.random.default_rng(4).random(x.shape) < 0.2] = np.nan
    scale, shift = np.logspace(-3, 3, 10), np.arange(10.0)
    plain = RobustImputer().fit_transform(x)
    moved = RobustImputer().fit_transform(x * scale + shift)
    np.testing.assert_allclose((moved - shift) / scale, plain, atol=1e-6)


def test_new_rows_constant_columns_and_frames() -> None:
    frame = pd.DataFrame(low_rank(80, 4), columns=list("abcd")).assign(e=7.0)
    model = RobustImputer().fit(frame)
    new = frame.head(3).copy()
    new.loc[0, "e"], new.loc[1, "a"] = np.nan, np.nan
    filled = model.set_output(transform="pandas").transform(new)
    assert list(filled.columns) == list("abcde")
    assert filled.loc[0, "e"] == 7.0
    assert abs(filled.loc[1, "a"] - frame.loc[1, "a"]) < 0.6
    assert sum(model.weights_.values()) == pytest.approx(1)


def test_a_column_without_a_known_cell_is_refused() -> None:
    x = low_rank(20, 3)
    x[:, 1] = np.nan
    with pytest.raises(InvalidInputError, match="known cell in every column"):
        RobustImputer().fit(x)


def test_the_factor_model_predicts_with_the_conditional_mean_of_its_gaussian() -> None:
    rng = np.random.default_rng(5)
    model = FactorModel(rng.normal(size=5), rng.normal(size=(5, 2)), 0.1 + rng.random(5))
    z = model.center + rng.normal(size=(1, 2)) @ model.loadings.T
    known = np.array([[True, True, False, True, True]])
    found = model._explain(np.where(known, z, 0.0), known, known.astype(float))
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    for cell in range(5):
        others = [j for j in range(5) if known[0, j] and j != cell]
        gain = covariance[cell, others] @ np.linalg.inv(covariance[np.ix_(others, others)])
        mean = model.center[cell] + gain @ (z[0, others] - model.center[others])
        variance = covariance[cell, cell] - gain @ covariance[others, cell]
        assert found.expected[0, cell] == pytest.approx(mean)
        if known[0, cell]:
            surprise = (z[0, cell] - mean) / np.sqrt(variance)
            assert found.surprise[0, cell] == pytest.approx(surprise)


def test_the_factor_model_finds_the_covariance_of_incomplete_gaussian_rows() -> None:
    rng = np.random.default_rng(6)
    loadings = rng.normal(size=(6, 2))
    z = rng.normal(size=(3000, 2)) @ loadings.T + 0.5 * rng.normal(size=(3000, 6))
    known = rng.random(z.shape) < 0.7
    found = FactorModel.fit(z, known, 2, trusted=known)
    truth = loadings @ loadings.T + 0.25 * np.eye(6)
    away = found.loadings @ found.loadings.T + np.diag(found.noise) - truth
    assert np.linalg.norm(away) < 0.1 * np.linalg.norm(truth)


@pytest.mark.parametrize("seed", [-1, 0.5, "a"])
def test_an_odd_random_state_is_refused_in_a_sentence(seed):
    with pytest.raises(InvalidInputError, match="random_state must be None, a whole number"):
        RobustImputer(random_state=seed).fit(np.ones((5, 2)))


@pytest.mark.parametrize("size", [10.0, 1e12, 1e308])
def test_wrong_rows_that_are_a_quarter_of_the_known_cells_on_one_side_do_not_fill_good_rows(
    size: float,
) -> None:
    clean = low_rank(200)
    rng = np.random.default_rng(7)
    x = clean.copy()
    x[:44] = size * (1 + 0.1 * rng.random((44, 10)))  # 22 % of the rows, 26 % of the known cells
    hidden = rng.random(x.shape) < 0.2
    hidden[:44] = False
    x[hidden] = np.nan
    filled = RobustImputer().fit_transform(x)
    assert np.abs(filled - clean)[hidden].mean() < 0.2


def test_a_column_that_no_row_of_the_sample_knows_is_filled_with_its_median() -> None:
    x = low_rank(5050, 3)
    drawn = np.random.default_rng(drawn_seed(0)).choice(len(x), 5000, replace=False)
    others = np.setdiff1d(np.arange(len(x)), drawn)[:3]
    median = np.median(x[others, 1])
    x[np.setdiff1d(np.arange(len(x)), others), 1] = np.nan
    filled = RobustImputer().fit_transform(x)
    assert (np.delete(filled[:, 1], others) == median).all()
