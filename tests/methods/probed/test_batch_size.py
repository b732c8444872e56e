"""The batch size follows from how far the slopes of batches agree."""

import math

import pytest
import torch
from torch import nn

from proxlin import Lasso, Probed, Problem, Ridge
from proxlin.methods.contract import Budget
from proxlin.methods.curvature import LayeredCurvature, layer_pieces
from proxlin.methods.probed.batch_probe import probe_batch
from proxlin.methods.probed.batch_size import GradientNoise, activations_of_a_row
from proxlin.models import linear_regressor, mlp_regressor


def settled(noise, size, ratio, measurements=60):
    """The size after many measurements, where twice the rows bring half the noise."""
    for _ in range(measurements):
        size = noise.batch_size(size, ratio * 64 / size, 1.0)
    return size


def test_more_noise_means_more_rows():
    sizes = [settled(GradientNoise(8, 1024), 64, ratio) for ratio in (0.01, 1.0, 4.0, 1000.0)]
    assert sizes[0] == 8
    assert sizes[3] == 1024
    assert sizes == sorted(sizes)


def test_size_stays_where_noise_fits():
    noise = GradientNoise(8, 1024)
    assert settled(noise, 64, 1.0) == 64
    assert settled(noise, 64, 1.0) == 64


def test_one_wild_measurement_costs_one_doubling():
    noise = GradientNoise(8, 1024)
    assert settled(noise, 64, 0.9) == 64
    size = noise.batch_size(64, 1e30, 1.0)
    assert settled(noise, size, 0.9) <= 128


def test_a_slope_of_zero_says_nothing():
    noise = GradientNoise(8, 1024)
    for pair in ((0.0, 1.0), (1.0, 0.0), (math.nan, 1.0), (1.0, math.nan)):
        assert noise.batch_size(64, *pair) == 64
    assert noise.measurements == 0


def test_estimated_error_of_the_gradient_is_as_large_as_its_error():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, 3, generator=generator)
    y = x.sum(1, keepdim=True) + torch.randn(20_000, 1, generator=generator)
    problem = Problem(linear_regressor(3), (x, y), "mse")
    theta = problem.theta()
    exact = probe_batch(problem, theta, problem.take(slice(None)), 1e-2, generator, probes_a_part=0)
    assert exact.gradient_error is None
    errors, estimates = [], []
    for start in range(0, 20_000, 50):
        batch = problem.take(slice(start, start + 50))
        probe = probe_batch(problem, theta, batch, 1e-2, generator, parts=2)
        errors.append(float((probe.gradient - exact.gradient).square().sum()))
        estimates.append(float(probe.gradient_error.square().sum()))
    assert 0.8 < sum(estimates) / sum(errors) < 1.25


def table(n=60_000, noise=1.0):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 10, generator=generator)
    return x, x @ torch.ones(10, 1) + noise * torch.randn(n, 1, generator=generator)


def run(problem, method, steps):
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    budget = Budget(None, steps)
    first = state.batch_size
    for _ in range(steps):
        method.step(problem, state, budget)
        budget.iteration += 1
    return first, state.batch_size


@pytest.mark.parametrize("regularizer", [Ridge(1e-6), Lasso(1e-6)])
def test_batches_shrink_where_all_rows_say_the_same(regularizer):
    problem = Problem(linear_regressor(10), table(noise=0.0), "mse", regularizer=regularizer)
    assert run(problem, Probed(), 100) == (1024, 512)


def test_batches_stay_large_at_a_noisy_optimum_and_a_given_size_stays():
    problem = Problem(linear_regressor(10), table(), 2.0, regularizer=Ridge(1e-3))
    assert run(problem, Probed(), 150) == (1024, 1024)
    assert run(problem, Probed(batch_size=100), 150) == (100, 100)


def test_wide_layers_cost_as_much_as_many_rows():
    def rows(net, inputs):
        problem = Problem(net, (torch.zeros(2, inputs), torch.zeros(2, 4)), 2.0)
        pieces = layer_pieces(problem.layout, problem.network)
        return LayeredCurvature(pieces, problem.theta()).rows_of_a_solve

    assert rows(mlp_regressor(20, 4, hidden=(8,)), 20) < 10
    assert 230 < rows(mlp_regressor(450, 4, hidden=(300,)), 450) <= 250  # a third of both sides
    assert rows(mlp_regressor(600, 4, hidden=(300,)), 600) < 200  # blocks of a side cost less


def test_recurrent_layers_count_what_they_keep_of_every_step():
    x, y = torch.zeros(2, 12, 4), torch.zeros(2, 8)
    lstm = nn.LSTM(4, 8, batch_first=True)
    problem = Problem(lstm, (x, y), residual=lambda net, x, y: net(x)[0][:, -1] - y)
    assert activations_of_a_row(problem) >= 12 * 4 * 8  # the gates alone
