"""RobustPCA: plain PCA on clean rows, the same plane with wrong rows and cells of any size."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from proxlin.errors import InvalidInputError
from proxlin.estimators.low_rank.pca import RobustPCA

AXES = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 3)))[0].T


def table(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(1)
    return 7 + rng.normal(size=(n, 3)) * [5, 3, 2] @ AXES + 0.3 * rng.normal(size=(n, 12))


def degrees(a: np.ndarray, b: np.ndarray) -> float:
    """The largest angle between the planes of two orthonormal sets of rows."""
    return float(np.degrees(np.arcsin(min(1.0, np.linalg.norm(a - a @ b.T @ b, 2)))))


def test_clean_rows_give_plain_principal_components() -> None:
    x = table()
    robust, plain = RobustPCA(3).fit(x), PCA(3).fit(x)
    assert degrees(robust.components_, plain.components_) < 0.5
    np.testing.assert_allclose(robust.explained_variance_, plain.explained_variance_, rtol=0.05)
    assert robust.outliers_.mean() <= 0.01


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("size", [10.0, 1e3, 1e12])
def test_wrong_rows_turn_nothing(share: float, size: float) -> None:
    x = table()
    bad = np.arange(len(x)) < share * len(x)
    x[bad] += size * np.random.default_rng(2).normal(size=12)  # all in one direction
    model = RobustPCA(3).fit(x)
    assert degrees(model.components_, AXES) < 3
    assert model.outliers_[bad].all()
    assert model.outliers_[~bad].mean() < 0.02


@pytest.mark.parametrize("size", [1e3, 1e12])
def test_wrong_and_missing_cells_turn_nothing_and_are_filled(size: float) -> None:
    clean = table()
    rng = np.random.default_rng(3)
    x = np.where(rng.random(clean.shape) < 0.07, clean + size, clean)
    x[rng.random(clean.shape) < 0.05] = np.nan
    model = RobustPCA(3).fit(x)
    assert degrees(model.components_, AXES) < 4
    low = model.inverse_transform(model.transform(x))
    assert np.median(np.abs(low - clean)) < 0.5  # noise 0.3, cells of 2 to 3


def test_how_many_by_number_share_gap_or_all() -> None:
    x = table()
    assert RobustPCA("auto").fit(x).n_components_ == 3
    assert RobustPCA(0.9).fit(x).n_components_ == 3
    assert RobustPCA().fit(x).n_components_ == 12


def test_chunks_of_clean_rows_add_up_to_the_whole() -> None:
    x = table()
    model = RobustPCA(3)
    for part in np.array_split(x, 4):
        model.partial_fit(part)
    assert degrees(model.components_, PCA(3).fit(x).components_) < 1


def test_whitened_scores_have_unit_variance_and_return() -> None:
    x = table()
    model = RobustPCA(3, whiten=True, scaling=True).fit(x)
    scores = model.transform(x)
    np.testing.assert_allclose(scores[~model.outliers_].var(axis=0), 1, rtol=0.02)
    assert np.abs(model.inverse_transform(scores) - x).mean() < 0.3


def test_log_likelihood_is_that_of_the_probabilistic_model() -> None:
    x = table()
    model = RobustPCA(3).fit(x)
    covariance = (model.components_.T * model.explained_variance_) @ model.components_
    covariance += model.noise_variance_ * (np.eye(12) - model.components_.T @ model.components_)
    away = x[:5] - model.mean_
    expected = -0.5 * (
        (away @ np.linalg.inv(covariance) * away).sum(1)
        + np.linalg.slogdet(covariance)[1]
        + 12 * np.log(2 * np.pi)
    )
    np.testing.assert_allclose(model.score_samples(x[:5]), expected, rtol=1e-6)


@pytest.mark.parametrize("wanted", [0, 1.5, -1, "many"])
def test_numbers_of_components_out_of_range_are_refused(wanted: object) -> None:
    with pytest.raises(InvalidInputError, match=r'a share of the variance .* "auto" or None; got'):
        RobustPCA(wanted).fit(table(50))  # type: ignore[arg-type]


def test_clean_rows_with_heavy_tails_come_back_as_from_plain_pca() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        low = rng.standard_t(2, size=(200, 3)) @ rng.normal(size=(3, 20))
        x = low + 0.05 * rng.normal(size=low.shape)
        errors = []
        for model in (RobustPCA(3), PCA(3)):
            found = model.fit(x).inverse_transform(model.transform(x))
            errors.append(np.linalg.norm(found - low))
        assert errors[0] <= 1.2 * errors[1]


def test_auto_of_a_table_without_variance_is_one_component() -> None:
    assert RobustPCA("auto").fit(np.ones((20, 3))).n_components_ == 1


def test_a_row_off_rows_that_never_vary_has_a_score() -> None:
    for size in (1.0, 1e150):
        table = np.zeros((12, 3))
        table[0, 0] = size
        scores = RobustPCA(scaling=False).fit(table).score_samples(table)
        assert np.isfinite(scores).all()
        assert scores[0] < scores[1:].min()


@pytest.mark.parametrize("n_components", [2, "auto"])
@pytest.mark.parametrize("size", [10.0, 1e3, 1e12])
def test_wrong_cells_in_nearly_every_row_do_not_turn_the_plane(
    size: float, n_components: int | str
) -> None:
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(20, 2)))[0].T
    x = 4 * rng.normal(size=(300, 2)) @ axes + 0.1 * rng.normal(size=(300, 20))
    wrong = rng.random(x.shape) < 0.1  # 88 % of the rows have such a cell
    x[wrong] += size * rng.choice([-1.0, 1.0], wrong.sum())
    model = RobustPCA(n_components).fit(x)
    found = model.components_
    assert found.shape == axes.shape
    assert np.degrees(np.arcsin(np.linalg.norm(found - found @ axes.T @ axes, 2))) < 2
    assert model.outliers_.mean() < 0.05


@pytest.mark.parametrize("size", [10.0, 1e12])
def test_rows_of_mostly_wrong_cells_are_outliers(size: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(300, 20))
    x[:90] += size * rng.normal(size=(90, 20))
    model = RobustPCA(2).fit(x)
    np.testing.assert_array_equal(model.outliers_, np.arange(300) < 90)
    np.testing.assert_array_equal(model.outliers_, model.outlier_scores_ > 1)


@pytest.mark.parametrize("shape", [(30, 100), (40, 400), (60, 50)])
@pytest.mark.parametrize("count", [2, None])
def test_good_rows_fewer_than_columns_stay_beside_wrong_ones(
    shape: tuple[int, int], count: int | None
) -> None:
    left_out = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n, m = shape
        x = rng.normal(size=(n, 2)) @ rng.normal(size=(2, m)) + 0.3 * rng.normal(size=shape)
        left_out.append(RobustPCA(count).fit(x).outliers_.mean())
        x[: n // 5] += 10 * rng.normal(size=(n // 5, m))
        found = RobustPCA(count).fit(x).outliers_
        assert found[: n // 5].all()
        left_out.append(found[n // 5 :].mean())
    assert np.mean(left_out) < 0.04
    assert max(left_out) <= 0.15


@pytest.mark.parametrize("wanted", ["auto", None])
def test_missing_cells_are_filled_from_as_many_axes_as_held_out_cells_say(wanted):
    rng = np.random.default_rng(3)
    plane = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 12))
    x = plane + 0.3 * rng.normal(size=plane.shape)
    x[:20] += 1e6
    x[rng.random(x.shape) < 0.3] = np.nan
    model = RobustPCA(wanted).fit(x)
    truth = np.linalg.svd(plane)[2][:2]
    angles = subspace_angles(model.components_[:2].T, truth.T)
    assert np.degrees(angles.max()) < 3  # 34 to 54 from six axes, which rows of eight cells fit
    assert model.outliers_[:20].all()
    assert model.outliers_[20:].mean() < 0.05
    assert wanted is None or model.n_components_ == 2
