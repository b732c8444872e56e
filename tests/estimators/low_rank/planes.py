"""Rows on a plane, and makers of nets that can be pickled."""

import numpy as np
from torch import nn

from proxlin.models import Autoencoder, mlp_autoencoder, paper_autoencoder

QUICK = {"method": "adam", "max_iter": 5, "random_state": 0}


def plane(n=200, features=6, rank=2, bad=0, seed=0):
    """Rows on a plane through the origin, the first `bad` of them anywhere."""
    generator = np.random.default_rng(seed)
    basis = np.linalg.qr(generator.normal(size=(features, rank)))[0]
    x = generator.normal(size=(n, rank)) @ basis.T
    x[:bad] = 2 * generator.normal(size=(bad, features))
    return x, basis


def narrow(shape, code):
    """A factory that can be pickled."""
    return mlp_autoencoder((shape, code), activation=nn.Identity)


def paper(shape, code):
    return paper_autoencoder()


def plain(shape, code):
    return nn.Linear(shape, shape)


def wide(shape, code):
    return mlp_autoencoder((shape, code + 1))


def short(shape, code):
    return Autoencoder(
        nn.Sequential(nn.Linear(shape, code)), nn.Sequential(nn.Linear(code, shape - 1))
    )


def other_input(shape, code):
    return mlp_autoencoder((shape + 3, code))
