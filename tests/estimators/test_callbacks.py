import numpy as np
import pytest
from sklearn.base import clone

from proxlin import RobustAutoencoder, RobustFactorization, RobustRegressor
from proxlin.errors import ProxlinError
from proxlin.methods.contract import Status

X = np.random.default_rng(0).normal(size=(120, 3))
Y = np.sin(X[:, 0])


@pytest.mark.parametrize(
    "estimator",
    [RobustRegressor(hidden=(8,), random_state=0), RobustAutoencoder(2, random_state=0)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_callbacks_watch_the_training_of_a_net_and_end_it(estimator):
    seen = []

    def third(progress):
        seen.append(progress.share)
        return len(seen) >= 3

    net = clone(estimator).set_params(callbacks=[third], max_iter=40).fit(X, Y)
    assert net.result_.status is Status.STOPPED
    assert len(seen) <= 4  # the last point may be evaluated too
    assert seen == sorted(seen)
    assert 0 <= seen[-1] < 1


def test_a_callback_that_cannot_be_called_is_refused():
    with pytest.raises(ValueError, match="callbacks"):
        RobustRegressor(hidden=(8,), callbacks=[3]).fit(X, Y)
    for estimator in (RobustRegressor(hidden=(8,), callbacks=0), RobustAutoencoder(callbacks=0)):
        with pytest.raises(ProxlinError, match="callbacks must be functions in a list or tuple"):
            estimator.fit(X, Y)


@pytest.mark.parametrize(
    ("estimator", "doing"),
    [
        (RobustRegressor(), ""),
        (RobustRegressor(hidden=(8,), max_iter=20, random_state=0), "training a net on"),
        (RobustAutoencoder(2, max_iter=20, random_state=0), "training a net on"),
        (RobustFactorization(2, max_iter=5, random_state=0), "sweeps for 2 components"),
    ],
    ids=["line", "net", "autoencoder", "factorization"],
)
def test_verbose_tells_what_is_done_and_what_came_out(estimator, doing, capsys):
    clone(estimator).fit(X, Y)
    assert capsys.readouterr().err == ""
    clone(estimator).set_params(verbose=True).fit(X, Y)
    told = capsys.readouterr().err
    assert f"{type(estimator).__name__}: objective " in told.splitlines()[-1]
    assert "of 120 rows flagged" in told.splitlines()[-1]
    if doing:
        assert f"{type(estimator).__name__}, {doing}" in told
        assert "objective" in told.splitlines()[0]
        assert "left at most" in told


def test_verbose_is_a_flag_or_a_count():
    with pytest.raises(ValueError, match="verbose must be a whole number"):
        RobustRegressor(verbose="loud").fit(X, Y)
