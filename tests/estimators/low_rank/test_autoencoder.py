import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from proxlin import ADMM, MBO, RobustAutoencoder
from proxlin.data import blob_images
from proxlin.estimators.low_rank.cell_repair import repaired
from proxlin.models import image_autoencoder
from tests.estimators.low_rank.planes import QUICK, narrow, paper, plane


def test_a_linear_net_with_squared_error_is_principal_component_analysis():
    x, _ = plane(n=150, features=5, rank=2)
    x = x + 0.2 * np.random.default_rng(1).normal(size=x.shape)
    plain = RobustAutoencoder(2, hidden=(), p="mse", scaling=False, bounded=False, max_iter=400)
    net = plain.set_params(regularizer=None, random_state=0).fit(x)
    pca = PCA(2).fit(x)
    best = np.square(pca.inverse_transform(pca.transform(x)) - x).sum(1).mean()
    # No linear autoencoder can have a smaller loss (Eckart and Young).
    assert best * (1 - 1e-5) <= net.result_.objective <= best * 1.001
    np.testing.assert_allclose(-net.score(x), net.result_.objective, rtol=1e-5)


def test_the_unsquared_norm_finds_the_plane_that_the_squared_one_loses():
    x, basis = plane(n=300, features=6, rank=2, bad=90)
    fresh = np.random.default_rng(5).normal(size=(100, 2)) @ basis.T
    settings = {
        "n_components": 2,
        "hidden": (),
        "scaling": False,
        "regularizer": None,
        "max_iter": 400,
        "random_state": 0,
    }
    robust = RobustAutoencoder(p=2, **settings).fit(x)
    squared = RobustAutoencoder(p="mse", **settings).fit(x)
    errors = [np.linalg.norm(one.reconstruct(fresh) - fresh, axis=1) for one in (robust, squared)]
    # Without noise the plane is the exact answer of the norm, and not of its square.
    assert errors[0].mean() < 0.02 * np.linalg.norm(fresh, axis=1).mean()
    assert errors[1].mean() > 10 * errors[0].mean()
    assert roc_auc_score(np.arange(300) < 90, robust.outlier_scores_) > 0.99


def test_new_rows_are_coded_decoded_and_scored_by_the_trained_net():
    x, _ = plane(bad=10)
    net = RobustAutoencoder(2, hidden=(5,), p=1.5, **QUICK).fit(x[:150])
    fresh = x[150:]
    codes = net.transform(fresh)
    assert codes.shape == (50, 2)
    np.testing.assert_array_equal(codes, net.encode(fresh))
    np.testing.assert_allclose(net.inverse_transform(codes), net.reconstruct(fresh), atol=1e-12)
    scale = net.coding_.scaling
    residual = scale.apply(net.reconstruct(fresh)) - scale.apply(fresh)
    norms = (np.abs(residual) ** 1.5).sum(1) ** (1 / 1.5)
    np.testing.assert_allclose(net.score_samples(fresh), -norms, rtol=1e-6)
    np.testing.assert_allclose(net.score(fresh), -norms.mean(), rtol=1e-6)
    # The net itself, fed by hand, gives the same codes.
    by_hand = net.module_.encoder(torch.from_numpy(scale.apply(fresh)).float()).detach().numpy()
    np.testing.assert_allclose(codes, by_hand, atol=1e-5)


def test_scores_and_flags_of_training_rows_are_those_of_the_same_rows_as_new_ones():
    x, _ = plane(bad=10)
    net = RobustAutoencoder(2, **QUICK).fit(x)
    np.testing.assert_array_equal(net.outlier_scores(x), net.outlier_scores_)
    np.testing.assert_array_equal(net.predict(x) == -1, net.outliers_)
    np.testing.assert_array_equal(net.outliers_, net.outlier_scores_ > 3.5)
    np.testing.assert_allclose(net.decision_function(x), net.score_samples(x) - net.offset_)


def test_one_in_eighty_ordinary_rows_is_flagged_however_short_their_tail():
    rng = np.random.default_rng(8)
    for noise in (rng.normal, rng.random):
        x = rng.normal(size=(1600, 2)) @ rng.normal(size=(2, 6)) + 0.3 * noise(size=(1600, 6))
        net = RobustAutoencoder(2, hidden=(), random_state=0).fit(x[:800])
        assert 0.01 <= net.outliers_.mean() <= 0.05  # and those beyond 3.5
        assert (net.predict(x[800:]) < 0).mean() <= 0.05
        assert net._score_cutoff <= 3.5
        np.testing.assert_array_equal(net.outlier_scores_ > net._score_cutoff, net.outliers_)


def test_contamination_is_the_share_of_flagged_training_rows():
    x, _ = plane(n=200)
    net = RobustAutoencoder(2, contamination=0.15, **QUICK).fit(x)
    assert net.outliers_.sum() == 30
    flagged, others = net.outlier_scores_[net.outliers_], net.outlier_scores_[~net.outliers_]
    assert flagged.min() > others.max()


@pytest.mark.parametrize("method", ["probed", "adam"])
@pytest.mark.parametrize("images", [False, True])
def test_tied_weights_are_exactly_equal(method, images):
    x = blob_images(n=40, size=8).images.numpy() if images else plane()[0]
    net = RobustAutoencoder(
        3, hidden=(4,), tied=True, method=method, max_iter=10, random_state=0
    ).fit(x)
    pairs = 0
    encoder = [layer for layer in net.module_.encoder if hasattr(layer, "weight")]
    decoder = [layer for layer in net.module_.decoder if hasattr(layer, "weight")]
    for one, other in zip(encoder, reversed(decoder), strict=True):
        weight = one.weight.T if isinstance(one, nn.Linear) else one.weight
        assert torch.equal(weight, other.weight)
        pairs += 1
    assert pairs == 2
    assert net.result_.remarks == ()  # the start was tied already
    first = net.history_["objective"].iloc[0]
    assert net.result_.objective < first


def test_the_denoiser_is_measured_against_clean_rows():
    x, _ = plane(n=60, rank=1)
    level = 0.7
    net = RobustAutoencoder(
        1, hidden=(), noise=level, regularizer=None, max_iter=200, random_state=0
    ).fit(x)
    same = RobustAutoencoder(1, hidden=(), regularizer=None, max_iter=200, random_state=0).fit(x)
    # Rows on a line come back exactly without noise; with it every noisy row has an error left.
    assert same.result_.objective < 0.02
    assert net.result_.objective > 0.1
    # The noise shrinks what the net lets through (ridge-like), and it removes noise better.
    generator = np.random.default_rng(3)
    scale, many = net.coding_.scaling, np.tile(x, (20, 1))
    noisy = scale.invert(scale.apply(many) + level * generator.normal(size=many.shape))
    error = [np.linalg.norm(one.reconstruct(noisy) - many, axis=1).mean() for one in (net, same)]
    assert error[0] < error[1]


def test_images_keep_their_shape_and_may_come_flat():
    images = blob_images(n=60, size=8).images
    net = RobustAutoencoder(4, max_iter=3, random_state=0).fit(images)
    assert net.image_shape_ == (1, 8, 8)
    assert net.n_features_in_ == 64
    assert isinstance(net.module_.encoder[0], nn.Conv2d)
    assert net.transform(images).shape == (60, 4)
    assert net.reconstruct(images).shape == images.shape
    assert net.inverse_transform(net.transform(images)).shape == images.shape
    flat = images.flatten(1).numpy()
    from_flat = RobustAutoencoder(4, image_shape=(1, 8, 8), max_iter=3, random_state=0).fit(flat)
    np.testing.assert_array_equal(from_flat.transform(flat), net.transform(images))
    np.testing.assert_array_equal(net.transform(flat), net.transform(images))
    assert from_flat.reconstruct(flat).shape == flat.shape


def test_codes_of_any_shape_are_rows_of_numbers():
    images = blob_images(n=6, size=28).images
    net = RobustAutoencoder(4 * 24 * 24, module=paper, **QUICK).fit(images)
    codes = net.transform(images)
    assert codes.shape == (6, 2304)
    np.testing.assert_allclose(net.inverse_transform(codes), net.reconstruct(images), atol=1e-6)
    np.testing.assert_allclose(
        net.reconstruct(images), net.module_(images).detach().numpy(), atol=1e-6
    )


def test_small_tables_get_a_linear_net_and_larger_ones_a_hidden_layer():
    x, _ = plane(n=900)
    small, large = (RobustAutoencoder(2, **QUICK).fit(x[:n]) for n in (60, 900))
    count = [
        sum(isinstance(layer, nn.Linear) for layer in one.module_.encoder) for one in (small, large)
    ]
    assert count == [1, 2]


def test_images_that_are_unlike_the_others_score_highest():
    images = blob_images(n=150, size=8).images.numpy()
    images[:15] = np.random.default_rng(0).uniform(size=(15, 1, 8, 8))
    net = RobustAutoencoder(3, max_iter=20, random_state=0).fit(images)
    bad = np.arange(150) < 15
    assert roc_auc_score(bad, net.outlier_scores_) == 1.0
    assert net.outliers_[bad].all()


def test_the_same_seed_gives_the_same_bits_and_leaves_torch_alone():
    x, _ = plane()
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    settings = {"hidden": (8,), "max_iter": 20}
    first, again = (RobustAutoencoder(2, random_state=7, **settings).fit(x) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(first.transform(x), again.transform(x))
    other = RobustAutoencoder(2, random_state=8, **settings).fit(x)
    assert not np.array_equal(first.transform(x), other.transform(x))


def test_warm_starts_and_partial_fits_go_on_where_they_were():
    x, _ = plane(n=120)
    net = RobustAutoencoder(2, hidden=(), warm_start=True, max_iter=60, random_state=0).fit(x)
    before = net.result_.objective
    net.fit(x)
    assert net.history_["objective"].iloc[0] == pytest.approx(before, rel=1e-5)
    part = RobustAutoencoder(2, hidden=(), max_iter=30, random_state=0)
    scores = [part.partial_fit(x[i::3]).score(x) for i in range(3)]
    assert scores[-1] > scores[0] - 1e-6  # rows on a plane: both are 0 up to rounding in float32
    scaling = part.coding_.scaling
    part.partial_fit(10 * x)
    assert part.coding_.scaling is scaling
    with pytest.raises(ValueError, match="6 features"):
        net.fit(x[:, :4])


def test_numpy_pandas_and_torch_give_the_same():
    x, _ = plane(n=60)
    table = pd.DataFrame(x, columns=list("abcdef"))
    kinds = {"numpy": x, "pandas": table, "torch": torch.from_numpy(x)}
    codes = {
        name: RobustAutoencoder(2, **QUICK).fit(kind).transform(kind)
        for name, kind in kinds.items()
    }
    np.testing.assert_array_equal(codes["numpy"], codes["pandas"])
    np.testing.assert_array_equal(codes["numpy"], codes["torch"])
    net = RobustAutoencoder(2, **QUICK).set_output(transform="pandas").fit(table)
    frame = net.transform(table)
    assert list(frame.columns) == ["robustautoencoder0", "robustautoencoder1"]
    np.testing.assert_array_equal(frame.to_numpy(), codes["numpy"])
    np.testing.assert_allclose(net.inverse_transform(frame), net.reconstruct(table), atol=1e-12)
    assert list(net.feature_names_in_) == list("abcdef")
    single = RobustAutoencoder(2, **QUICK).fit(x.astype(np.float32))
    assert single.transform(x.astype(np.float32)).dtype == np.float32


def test_it_is_stored_cloned_and_searched(tmp_path):
    x, _ = plane(n=60)
    net = RobustAutoencoder(2, module=narrow, regularizer=None, **QUICK).fit(x)
    joblib.dump(net, tmp_path / "net.joblib")
    loaded = joblib.load(tmp_path / "net.joblib")
    np.testing.assert_array_equal(loaded.transform(x), net.transform(x))
    copy = clone(net)
    assert copy.get_params() == net.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(x)
    flow = make_pipeline(StandardScaler(), RobustAutoencoder(2, **QUICK))
    search = GridSearchCV(flow, {"robustautoencoder__p": [1.0, 2.0]}, cv=2).fit(x)
    assert search.best_params_["robustautoencoder__p"] in (1.0, 2.0)


def test_a_method_that_measures_stationarity_may_be_asked_for():
    x, _ = plane(n=40, features=3, rank=1)
    net = RobustAutoencoder(
        1, hidden=(), method=MBO(solver=ADMM()), tol=0.05, max_iter=50, random_state=0
    ).fit(x)
    assert net.result_.certificate is not None


@pytest.mark.parametrize("hidden", [(), (16,)])
def test_wrong_cells_of_any_size_leave_the_codes_of_right_rows_alone(hidden):
    rng = np.random.default_rng(1)
    clean = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 12))
    clean += 0.03 * rng.normal(size=clean.shape)
    wrong = rng.random(clean.shape) < 0.1
    right = ~wrong.any(axis=1)
    errors = []
    for size in (10.0, 1e12):
        x = np.where(wrong, clean + size * np.abs(rng.normal(size=clean.shape)), clean)
        net = RobustAutoencoder(2, hidden=hidden, random_state=0).fit(x)
        away = np.linalg.norm(net.reconstruct(x[right]) - clean[right])
        errors.append(away / np.linalg.norm(clean[right]))
    assert errors[0] < 0.05
    assert errors[1] < 1.2 * errors[0]


def test_zero_inflated_columns_are_not_taken_for_wrong_cells():
    rng = np.random.default_rng(0)
    amounts = np.exp(rng.normal(size=(400, 2)) @ rng.normal(size=(2, 8)))
    x = np.where(rng.random(amounts.shape) < 0.6, 0.0, amounts)
    np.testing.assert_array_equal(repaired(x, 2, 0), x)


def test_cells_far_beyond_float32_do_not_stop_a_fit():
    x, _ = plane(n=100)
    x[3, 2] = 1e200
    net = RobustAutoencoder(2, max_iter=30, random_state=0).fit(x)
    assert net.outliers_[3]
    assert np.isfinite(net.outlier_scores_).all()


def test_constant_columns_are_reconstructed():
    x, _ = plane(n=60)
    x[:, 1] = 7.0
    net = RobustAutoencoder(2, max_iter=60, random_state=0).fit(x)
    np.testing.assert_allclose(net.reconstruct(x)[:, 1], 7.0, atol=0.2)
    same = RobustAutoencoder(2, max_iter=60, random_state=0).fit(np.full((20, 4), 3.0))
    np.testing.assert_allclose(same.reconstruct(np.full((2, 4), 3.0)), 3.0, atol=0.05)


def test_a_short_code_of_images_goes_there_and_back_for_every_side():
    for image in [(1, 28, 28), (3, 8, 9), (1, 2, 2), (2, 5, 30)]:
        net = image_autoencoder(image, 4)
        x = torch.rand(2, *image)
        assert net(x).shape == x.shape
        assert net.encoder(x).shape == (2, 4)
        assert len(net.tied().terms) == sum(t.ndim > 1 for t in net.encoder.parameters())
