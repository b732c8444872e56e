import copy

import numpy as np
import pytest
import torch
from torch import nn

from proxlin import RobustAutoencoder
from proxlin.data import blob_images
from proxlin.errors import InvalidInputError
from tests.estimators.low_rank.planes import QUICK, other_input, plain, plane, short, wide


@pytest.fixture(scope="module")
def earlier():
    x, _ = plane(n=30)
    return RobustAutoencoder(2, **QUICK).fit(x), x


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"p": 0.5}, "p must be"),
        ({"n_components": 0}, "n_components"),
        ({"hidden": (0,)}, "hidden"),
        ({"hidden": "wide"}, "hidden"),
        ({"activation": "relu6"}, "activation"),
        ({"activation": torch.nn.ReLU()}, "activation"),
        ({"activation": torch.nn.Linear}, "activation"),
        ({"noise": -1}, "noise"),
        ({"contamination": 0.7}, "contamination"),
        ({"contamination": 0}, "contamination"),
        ({"tied": "yes"}, "tied"),
        ({"scaling": "robust"}, "scaling"),
        ({"image_shape": (1, 2)}, "image_shape"),
        ({"image_shape": (1, 2, 2)}, "image_shape"),
        ({"module": nn.Linear(6, 6)}, "module must be a function"),
        ({"module": plain}, "encoder"),
        ({"module": wide}, "n_components=2"),
        ({"module": short}, "decoder must return"),
        ({"module": other_input}, "module's net must take rows"),
        ({"regularizer": "rigid"}, "regularizer"),
        ({"device": "nowhere"}, "device"),
    ],
)
def test_bad_settings_are_refused_and_the_earlier_fit_stays(earlier, settings, words):
    net, x = copy.deepcopy(earlier)
    before, good = net.transform(x), net.get_params()
    net.set_params(**settings)
    with pytest.raises(ValueError, match=words):
        net.fit(x)
    np.testing.assert_array_equal(net.set_params(**good).transform(x), before)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.ones((1, 4)), "1 sample"),
        (np.ones((9, 1)), r"1 feature\(s\)"),
        (np.full((9, 3), np.inf), "infinity"),
        (np.full((9, 3), np.nan), "NaN"),
        (np.array([["a", "b"]] * 9, dtype=object), "could not convert"),
        (np.ones((9, 3, 3)), "dim 3"),
        (np.ones((0, 1, 8, 8)), "0 sample|dim 4"),
        (torch.eye(4).to_sparse(), "dense"),
    ],
)
def test_bad_rows_are_refused_and_the_earlier_fit_stays(earlier, x, words):
    net, good = copy.deepcopy(earlier)
    before = net.transform(good)
    with pytest.raises(ValueError, match=words):
        net.fit(x)
    np.testing.assert_array_equal(net.transform(good), before)


def test_rows_of_another_form_are_refused():
    images = blob_images(n=20, size=8).images
    net = RobustAutoencoder(4, **QUICK).fit(images)
    with pytest.raises(InvalidInputError, match="images of shape"):
        net.transform(torch.zeros(3, 1, 4, 16))
    table = RobustAutoencoder(2, **QUICK).fit(plane()[0])
    with pytest.raises(InvalidInputError, match="flat rows"):
        table.transform(torch.zeros(3, 1, 2, 3))
    with pytest.raises(InvalidInputError, match="columns"):
        table.inverse_transform(np.zeros((3, 5)))


def test_integers_and_booleans_count_as_numbers():
    x = np.random.default_rng(0).integers(0, 2, size=(40, 5))
    whole, truth = (RobustAutoencoder(2, **QUICK).fit(part) for part in (x, x.astype(bool)))
    np.testing.assert_array_equal(whole.outlier_scores_, truth.outlier_scores_)
