"""Rows stay within max_bytes, or say what they would need."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from proxlin.errors import MemoryBudgetError
from proxlin.linearize import Linearization, linearize
from proxlin.linearize.layerwise.chain import read_chain
from proxlin.linearize.layerwise.chain_plan import ChainPlan
from proxlin.linearize.layerwise.record import Weights
from tests.linearize.networks import (
    Autoencoder,
    Residual,
    bottleneck,
    gaps_above_a_narrow_place,
    stack,
)
from tests.linearize.stand_in import StandIn, oracle, problem_of

MIB = 2**20


def peak_bytes(linearization: Linearization) -> int:
    """The most bytes that tensors made by rows() hold at one time, the result among them."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        linearization.rows()
    held = peak = 0
    for event in prof.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def deep() -> nn.Module:
    """Enough layers for the windows to become whole maps."""
    layers: list[nn.Module] = []
    for _ in range(5):
        layers += [nn.Conv2d(3, 3, 3, padding=1), nn.Tanh()]
    return stack(*layers)


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.back = nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.back(torch.tanh(self.conv(x)))


CASES = {
    "autoencoder": (Autoencoder, (1, 28, 28), 4),
    "deep": (deep, (3, 12, 12), 6),
    "bottleneck": (bottleneck, (1, 14, 14), 12),
    "mlp": (lambda: stack(nn.Linear(40, 60), nn.Tanh(), nn.Linear(60, 40)), (40,), 30),
    "residual convolution": (Skip, (1, 12, 12), 3),
    "residual": (Residual, (5,), 120),
}


@pytest.mark.parametrize(
    ("name", "slack"), [*((name, 1.3) for name in CASES), ("autoencoder", 5.0), ("residual", 5.0)]
)
def test_rows_stay_within_the_stated_memory(name: str, slack: float) -> None:
    make, shape, rows = CASES[name]
    problem, theta, batch = problem_of(make(), *shape, rows=rows)
    free = linearize(problem, theta, batch)
    expected = free.rows()
    needed = expected.nbytes + least_workspace(free)
    limit = int(slack * needed)
    bounded = linearize(problem, theta, batch, max_bytes=limit)
    torch.testing.assert_close(bounded.rows(), expected, rtol=1e-9, atol=1e-11)
    assert peak_bytes(bounded) <= limit


def least_workspace(linearization: Linearization) -> int:
    """What the error message says, less the result."""
    tight = linearize(
        linearization._problem, linearization.anchor, linearization._batch, max_bytes=1
    )
    with pytest.raises(MemoryBudgetError) as error:
        tight.rows()
    mib = float(str(error.value).split(" need ")[1].split(" MiB")[0])
    result = linearization.residual.numel() * len(linearization.anchor) * 8
    return int((mib + 0.1) * MIB) - result


def test_what_cannot_fit_is_refused_with_what_to_lower() -> None:
    problem, theta, batch = problem_of(stack(nn.Linear(50, 80), nn.Tanh()), 50, rows=100)
    linearization = linearize(problem, theta, batch, max_bytes=10 * MIB)
    with pytest.raises(MemoryBudgetError) as error:
        linearization.rows()
    sentence = str(error.value)
    assert "100 samples x 80 outputs x 4080 parameters" in sentence
    assert "10.0 MiB" in sentence
    for way_out in ("batch size", "max_bytes", "matrix-free"):
        assert way_out in sentence
    # J d and J^T u still work.
    cotangent = torch.randn_like(linearization.residual)
    direction = torch.randn_like(theta)
    there = linearization.apply(direction).mul(cotangent).sum()
    torch.testing.assert_close(there, linearization.adjoint(cotangent).dot(direction))


@pytest.mark.parametrize("make", [Autoencoder, Residual])
def test_products_on_slices_are_the_same(make: type[nn.Module]) -> None:
    shape = (1, 9, 9) if make is Autoencoder else (5,)
    problem, theta, batch = problem_of(make(), *shape, rows=11)
    whole = linearize(problem, theta, batch)
    sliced = linearize(problem, theta, batch, max_bytes=10 * whole._products.row_bytes)
    assert sliced._products.graph_bytes == 0
    direction, cotangents = torch.randn_like(theta), torch.randn(3, *whole.residual.shape).double()
    torch.testing.assert_close(sliced.residual, whole.residual)
    torch.testing.assert_close(sliced.apply(direction), whole.apply(direction))
    torch.testing.assert_close(sliced.adjoint(cotangents), whole.adjoint(cotangents))
    torch.testing.assert_close(sliced.adjoint(cotangents[0]), whole.adjoint(cotangents[0]))


def test_products_after_rows_gave_the_graph_up() -> None:
    problem, theta, batch = problem_of(Autoencoder(), 1, 9, 9)
    linearization = linearize(problem, theta, batch)
    linearization._products.release()
    assert linearization._products.graph_bytes == 0
    cotangent = torch.randn_like(linearization.residual)
    expected = torch.einsum("bn,bnd->d", cotangent, oracle(problem, theta, batch))
    torch.testing.assert_close(linearization.adjoint(cotangent), expected)


def test_the_graph_is_counted_as_autograd_keeps_it() -> None:
    """Two layers keep the data, theta and what tanh gives; only the last is not there already."""
    problem, theta, batch = problem_of(stack(nn.Linear(30, 50), nn.Tanh(), nn.Linear(50, 7)), 30)
    linearization = linearize(problem, theta, batch)
    assert linearization._products.row_bytes == (50 + 7) * 8


@pytest.mark.parametrize(
    ("make", "shape", "width"),
    [(bottleneck, (1, 14, 14), 3), (gaps_above_a_narrow_place, (1, 64), 2)],
)
def test_a_narrow_place_cuts_the_chain_in_two(
    make: Callable[[], nn.Module], shape: tuple[int, ...], width: int
) -> None:
    problem, theta, batch = problem_of(make(), *shape)
    chain = read_chain(problem)
    assert chain is not None
    weights = Weights(problem.network, problem.layout.split(theta))
    part = ChainPlan.of(chain, weights, batch[0]).divide(len(chain.stages))
    assert part.below is not None
    assert part.below.outputs == width


def test_tiles_partition_the_outputs() -> None:
    problem, theta, batch = problem_of(bottleneck(), 1, 14, 14)
    chain = read_chain(problem)
    assert chain is not None
    weights = Weights(problem.network, problem.layout.split(theta))
    part = ChainPlan.of(chain, weights, batch[0]).divide(len(chain.stages))
    assert part.period == (4, 4)
    for most in (1, 3, 7, 1000):
        seen = torch.zeros(part.frame[1:])
        for tile in part.tiles(most):
            places = [slice(r.start, r.start + r.span, max(1, r.step)) for r in tile]
            assert seen[tuple(places)].numel() <= most
            seen[tuple(places)] += 1
        assert bool((seen == 1).all())


def test_stand_in_of_float32_counts_half() -> None:
    problem, theta, batch = problem_of(Autoencoder(), 1, 9, 9)
    double = linearize(problem, theta, batch)._products.row_bytes
    single = StandIn(problem.network.float())
    halves = linearize(single, theta.float(), tuple(t.float() for t in batch))
    assert halves._products.row_bytes == double // 2
