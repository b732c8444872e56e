"""Fits that were cut off and go on are the same fits."""

import signal

import numpy as np
import pytest
from sklearn.base import clone

from proxlin import Checkpoints, Probed, RobustAutoencoder, RobustRegressor, Status
from proxlin.errors import CheckpointError, InvalidInputError
from proxlin.estimators.estimator_state import estimator_state


class CrashError(Exception):
    """What ends a fit here."""


@pytest.fixture
def crash_after(monkeypatch):
    """Let so many steps of all runs together succeed."""

    def arm(steps):
        real, left = Probed.step, [steps]

        def step(*given):
            left[0] -= 1
            if left[0] < 0:
                raise CrashError
            return real(*given)

        monkeypatch.setattr(Probed, "step", step)

    yield arm
    monkeypatch.undo()


def rows(n=80):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 5))
    x[:10] += 20 * rng.normal(size=(10, 5))
    return x, np.sin(x[:, :1])


def regressor(**options):
    return RobustRegressor(hidden=(6,), reweight=True, random_state=3, max_iter=30, **options)


def autoencoder(**options):
    return RobustAutoencoder(2, hidden=(6,), random_state=3, max_iter=30, **options)


def test_an_autoencoder_goes_on(tmp_path, crash_after, monkeypatch):
    x, _ = rows()
    kept = Checkpoints(tmp_path, every_steps=5)
    crash_after(17)
    with pytest.raises(CrashError):
        autoencoder(checkpoint=kept).fit(x)
    monkeypatch.undo()
    crash_after(30 - 5)  # the whole way would take more
    found = autoencoder(checkpoint=kept).fit(x)
    monkeypatch.undo()
    whole = autoencoder().fit(x)
    assert np.array_equal(found.reconstruct(x), whole.reconstruct(x))
    assert np.array_equal(found.outlier_scores_, whole.outlier_scores_)


def test_a_regressor_goes_on(tmp_path, crash_after, monkeypatch):
    x, y = rows()
    crash_after(17)
    with pytest.raises(CrashError):
        regressor(checkpoint=Checkpoints(tmp_path, every_steps=5)).fit(x, y)
    monkeypatch.undo()
    crash_after(30 - 5)
    found = regressor(checkpoint=Checkpoints(tmp_path, every_steps=5)).fit(x, y)
    monkeypatch.undo()
    assert np.array_equal(found.predict(x), regressor().fit(x, y).predict(x))


def test_other_rows_are_refused_and_an_earlier_fit_stays(tmp_path):
    x, y = rows()
    model = regressor(checkpoint=str(tmp_path)).fit(x, y)
    before = model.predict(x)
    with pytest.raises(CheckpointError, match="hoose another"):
        model.fit(x, 3 - y**2)
    assert np.array_equal(model.predict(x), before)


def test_settings_are_kept_as_they_are_given(tmp_path):
    kept = Checkpoints(tmp_path, every_steps=5)
    for model in (regressor(checkpoint=kept), autoencoder(checkpoint=kept)):
        assert model.get_params()["checkpoint"] is kept
        assert clone(model).checkpoint == kept


def test_a_saved_model_does_not_name_the_folder(tmp_path):
    x, _ = rows()
    values, _ = estimator_state(autoencoder(checkpoint=tmp_path).fit(x))
    assert str(tmp_path) not in repr(values)


def test_parts_of_a_fit_are_not_kept(tmp_path):
    x, y = rows()
    regressor(checkpoint=tmp_path / "a").partial_fit(x, y)
    autoencoder(checkpoint=tmp_path / "b").partial_fit(x)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"checkpoint": 3}, "checkpoint must be the path of a folder"),
        ({"checkpoint": "a", "random_state": None}, "needs a whole number as random_state"),
    ],
)
def test_what_could_not_go_on_is_refused(options, words):
    x, y = rows()
    for fit in (
        lambda: RobustAutoencoder(**{"random_state": 0, **options}).fit(x),
        lambda: RobustRegressor(**{"random_state": 0, "hidden": (3,), **options}).fit(x, y),
    ):
        with pytest.raises(InvalidInputError) as caught:
            fit()
        assert words in str(caught.value)


def test_ctrl_c_leaves_the_rest_for_the_next_fit(tmp_path, monkeypatch):
    x, y = rows()
    kept = Checkpoints(tmp_path, every_steps=5)
    real, left = Probed.step, [12]

    def step(*given):
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        return real(*given)

    monkeypatch.setattr(Probed, "step", step)
    cut = regressor(checkpoint=kept).fit(x, y)
    monkeypatch.undo()
    assert cut.result_.status is Status.INTERRUPTED
    found = regressor(checkpoint=kept).fit(x, y)
    assert np.array_equal(found.predict(x), regressor().fit(x, y).predict(x))
