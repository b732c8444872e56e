import numpy as np
import pytest

from proxlin.estimators.families.trees import BINS, BoostedTrees, _cuts, _grow


def fitted(x, z, seed=0, redescending=True):
    cut = 4 * len(x) // 5
    (model,) = BoostedTrees.fit(
        [((x[:cut], z[:cut]), (x[cut:], z[cut:]))],
        redescending=redescending,
        seed=seed,
        out_of_time=lambda: False,
    )
    return model


@pytest.fixture(scope="module")
def checkers():
    """A product, of which no curve of a single column says anything."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, size=(1000, 3))
    return x, np.sign(x[:, 0] * x[:, 1]) + 0.1 * generator.normal(size=1000)


def test_a_stump_splits_where_the_weighted_squares_fall_most():
    codes = np.array([[0], [0], [1], [1], [2], [2]] * 10, dtype=np.uint8)
    residual = np.array([1.0, 1, 1, 1, -2, -2] * 10)
    columns, bins, values = _grow(codes, residual, np.ones(60), 1)
    assert (columns[0], bins[0]) == (0, 1)
    np.testing.assert_allclose(values, [40 / 42, -40 / 22])


def test_bins_are_few_and_keep_different_values_apart():
    assert len(_cuts(np.random.default_rng(0).normal(size=5000))) == BINS - 1
    np.testing.assert_array_equal(_cuts(np.array([3.0, 1.0, 1.0])), [2.0])


def test_products_are_found_and_wrong_rows_are_not(checkers):
    x, z = checkers
    clean = fitted(x, z)
    assert np.abs(clean.predict(x) - np.sign(x[:, 0] * x[:, 1])).mean() < 0.25
    dirty = z.copy()
    dirty[::5] += 100
    assert np.abs(fitted(x, dirty).predict(x) - clean.predict(x)).mean() < 0.15


def test_noise_grows_hardly_any_tree():
    generator = np.random.default_rng(0)
    model = fitted(generator.normal(size=(600, 4)), generator.normal(size=600))
    assert np.abs(model.predict(generator.normal(size=(600, 4)))).mean() < 0.1


def test_what_was_saved_predicts_the_same_bits(checkers):
    x, z = checkers
    model = fitted(x, z)
    np.testing.assert_array_equal(BoostedTrees.restore(model.state()).predict(x), model.predict(x))
    broken = {**model.state(), "columns": model.columns + 7}
    with pytest.raises(ValueError, match="not there"):
        BoostedTrees.restore(broken)


def test_the_same_seed_gives_the_same_trees(checkers):
    x, z = checkers
    np.testing.assert_array_equal(fitted(x, z).values, fitted(x, z).values)
