"""Nets of tables begin at the plane that most rows follow."""

import numpy as np
import pytest
import torch

from proxlin.estimators.low_rank.autoencoder_nets import RowForm
from proxlin.estimators.low_rank.autoencoder_start import start_at_plane
from proxlin.estimators.low_rank.coding import Coding
from proxlin.estimators.scaling import RobustScaling
from proxlin.models import mlp_autoencoder
from tests.estimators.low_rank.planes import plane


def coding(*widths: int, activation=torch.nn.Tanh) -> Coding:
    net = mlp_autoencoder(widths, activation=activation)
    net.encoder[-1] = torch.nn.Identity()
    return Coding.of(net, RowForm(widths[0]), RobustScaling.identity(widths[0]))


@pytest.mark.parametrize("size", [10.0, 1e3])
def test_a_linear_net_starts_at_the_plane_of_the_good_rows(size):
    x, _ = plane(n=200, bad=40)
    x[:40] *= size
    start = coding(6, 2)
    assert start_at_plane(start, torch.from_numpy(x), 2, 0)
    good = x[40:]
    assert np.linalg.norm(start.reconstruct(good) - good) < 1e-3 * np.linalg.norm(good)


@pytest.mark.parametrize("widths", [(6, 8, 2), (6, 12, 8, 2)])
def test_layers_of_tanh_start_near_it_and_bound_rows_far_out(widths):
    x, _ = plane(n=200)
    start = coding(*widths)
    assert start_at_plane(start, torch.from_numpy(x), 2, 0)
    inner = x[np.linalg.norm(x, axis=1) < 1]
    assert np.linalg.norm(start.reconstruct(inner) - inner) < 0.1 * np.linalg.norm(inner)
    assert np.abs(start.reconstruct(1e6 * x)).max() < 100


def test_other_activations_and_narrow_layers_are_left_as_they_are():
    x = torch.from_numpy(plane(n=50)[0])
    for other in (coding(6, 8, 2, activation=torch.nn.Softplus), coding(6, 1, 2)):
        before = [tensor.clone() for tensor in other.module.parameters()]
        assert not start_at_plane(other, x, 2, 0)
        pairs = zip(before, other.module.parameters(), strict=True)
        assert all(torch.equal(old, new) for old, new in pairs)
