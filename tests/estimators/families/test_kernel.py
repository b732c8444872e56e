import numpy as np
import pytest

from proxlin.estimators.families.kernel import KernelSurface


def fitted(x, z, *, redescending=True):
    cut = 4 * len(x) // 5
    (surface,) = KernelSurface.fit(
        [((x[:cut], z[:cut]), (x[cut:], z[cut:]))],
        [np.ones(x.shape[1])],
        redescending=redescending,
        seed=0,
        out_of_time=lambda: False,
    )
    return surface


@pytest.fixture(scope="module")
def saddle():
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, size=(500, 3))
    return x, 3 * x[:, 0] * x[:, 1]


def test_a_saddle_is_found_and_wrong_rows_are_not(saddle):
    x, truth = saddle
    z = truth + 0.1 * np.random.default_rng(1).normal(size=500)
    assert np.abs(fitted(x, z).predict(x) - truth).mean() < 0.05
    z[::4] += 100
    assert np.abs(fitted(x, z).predict(x) - truth).mean() < 0.1


def test_with_all_rows_as_landmarks_it_is_weighted_kernel_ridge_regression(saddle):
    x, truth = saddle
    x, z = x[:100], truth[:100]
    surface = fitted(x, z, redescending=False)
    distances = (((x * surface.scale)[:, None] - surface.landmarks) ** 2).sum(axis=2)
    assert len(surface.landmarks) == 80
    np.testing.assert_allclose(surface.predict(x), np.exp(-distances / 2) @ surface.coef)


def test_noise_has_hardly_any_surface():
    generator = np.random.default_rng(0)
    surface = fitted(generator.normal(size=(600, 4)), generator.normal(size=600))
    assert np.abs(surface.predict(generator.normal(size=(600, 4)))).mean() < 0.15


def test_columns_that_stand_still_are_left_out(saddle):
    x, truth = saddle
    still = np.column_stack([x, np.full(500, 0.1) + 1e-17])
    assert np.abs(fitted(still, truth).predict(still) - truth).mean() < 0.05


def test_what_was_saved_predicts_the_same_bits(saddle):
    x, truth = saddle
    surface = fitted(x, truth)
    np.testing.assert_array_equal(
        KernelSurface.restore(surface.state()).predict(x), surface.predict(x)
    )
    with pytest.raises(ValueError, match="different shapes"):
        KernelSurface.restore({**surface.state(), "coef": surface.coef[1:]})
