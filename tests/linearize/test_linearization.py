"""Dense rows against jacrev, and probes against the curvature they stand for."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from proxlin.errors import InvalidInputError
from proxlin.linearize import Differentiable, linearize
from tests.linearize.networks import CHAINS, GENERAL, Autoencoder, Functional, bottleneck, stack
from tests.linearize.stand_in import StandIn, oracle, problem_of

BOTH = {**CHAINS, **GENERAL}


@pytest.mark.parametrize("name", BOTH)
def test_rows_are_the_jacobian(name: str) -> None:
    make, shape = BOTH[name]
    problem, theta, batch = problem_of(make(), *shape)
    linearization = linearize(problem, theta, batch)
    assert linearization.path == ("chain" if name in CHAINS else "general")
    rows = linearization.rows()
    assert rows.dtype == torch.float64
    torch.testing.assert_close(rows, oracle(problem, theta, batch), rtol=1e-9, atol=1e-11)
    assert linearization.path == ("chain" if name in CHAINS else "general")


@pytest.fixture
def nan_in_new_memory() -> Iterator[None]:
    """Fill uninitialised tensors with NaN, so that an entry that is never written shows."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.usefixtures("nan_in_new_memory")
@pytest.mark.parametrize("name", CHAINS)
def test_every_entry_is_written(name: str) -> None:
    assert torch.empty(3).isnan().all()
    make, shape = CHAINS[name]
    problem, theta, batch = problem_of(make(), *shape)
    linearization = linearize(problem, theta, batch)
    rows = linearization.rows()
    assert linearization.path == "chain"
    cotangent = torch.randn_like(linearization.residual)
    pulled = torch.einsum("bn,bnd->d", cotangent, rows)
    torch.testing.assert_close(pulled, linearization.adjoint(cotangent))


def test_float32_rows_are_as_good_as_float32_allows() -> None:
    problem, theta, batch = problem_of(Autoencoder(), 1, 12, 12)
    expected = oracle(problem, theta, batch)
    single = StandIn(problem.network.float())
    rows = linearize(single, theta.float(), tuple(t.float() for t in batch)).rows()
    assert rows.dtype == torch.float32
    torch.testing.assert_close(rows.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [Autoencoder, Functional, bottleneck])
@pytest.mark.parametrize("frozen", ["first", "last", "biases", "weights", "all but one"])
def test_frozen_parameters_are_constants(make: type[nn.Module], frozen: str) -> None:
    network = make()
    names = [name for name, _ in network.named_parameters()]
    chosen = {
        "first": names[:2],
        "last": names[-2:],
        "biases": [name for name in names if name.endswith("bias")],
        "weights": [name for name in names if name.endswith("weight")],
        "all but one": names[:3] + names[4:],
    }[frozen]
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name not in chosen)
    shape = {Autoencoder: (1, 9, 9), Functional: (1, 8, 8), bottleneck: (1, 14, 14)}[make]
    problem, theta, batch = problem_of(network, *shape)
    linearization = linearize(problem, theta, batch)
    assert linearization.path == "chain"
    torch.testing.assert_close(linearization.rows(), oracle(problem, theta, batch))


def test_theta_counts_and_not_what_the_module_holds() -> None:
    problem, theta, batch = problem_of(Autoencoder(), 1, 9, 9)
    elsewhere = theta + 0.3 * torch.randn_like(theta)
    linearization = linearize(problem, elsewhere, batch)
    torch.testing.assert_close(linearization.rows(), oracle(problem, elsewhere, batch))
    assert torch.equal(problem.start, theta)
    assert torch.equal(linearization.anchor, elsewhere)


def test_residual_of_ones_own_takes_the_general_road() -> None:
    torch.manual_seed(0)
    network = stack(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    problem = StandIn(network, lambda call, batch: batch[1] * (call(batch[0]) ** 2 - batch[2]))
    batch = tuple(torch.randn(4, n, dtype=torch.float64) for n in (3, 1, 2))
    linearization = linearize(problem, problem.start, batch)
    assert linearization.path == "general"
    torch.testing.assert_close(linearization.rows(), oracle(problem, problem.start, batch))


def test_residual_that_differentiates_the_network_itself() -> None:
    """u'(x) - u(x) for a net u: derivatives inside the residual, as for differential equations."""

    def equation(call: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        value, slope = torch.func.jvp(call, batch, (torch.ones_like(batch[0]),))
        return slope - value

    torch.manual_seed(0)
    problem = StandIn(stack(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1)).double(), equation)
    batch = (torch.randn(6, 1, dtype=torch.float64),)
    linearization = linearize(problem, problem.start, batch)
    jacobian = oracle(problem, problem.start, batch)
    direction = torch.randn_like(problem.start)
    torch.testing.assert_close(linearization.rows(), jacobian)
    torch.testing.assert_close(linearization.apply(direction), jacobian @ direction)
    cotangent = torch.randn_like(linearization.residual)
    expected = torch.einsum("bn,bnd->d", cotangent, jacobian)
    torch.testing.assert_close(linearization.adjoint(cotangent), expected)


def test_samples_may_be_numbers_of_rows() -> None:
    torch.manual_seed(0)
    problem = StandIn(stack(nn.Embedding(7, 3), nn.Linear(3, 2)).double())
    batch = (torch.tensor([1, 4, 4, 0]), torch.randn(4, 2, dtype=torch.float64))
    linearization = linearize(problem, problem.start, batch)
    assert linearization.path == "general"
    torch.testing.assert_close(linearization.rows(), oracle(problem, problem.start, batch))


def test_wide_outputs_are_taken_from_the_side_of_the_parameters() -> None:
    network = stack(nn.Linear(1, 2), nn.LayerNorm(2), nn.Linear(2, 60, bias=False))
    network[2].weight.requires_grad_(False)
    problem, theta, batch = problem_of(network, 1)
    assert len(theta) < batch[1].shape[1]
    rows = linearize(problem, theta, batch).rows()
    torch.testing.assert_close(rows, oracle(problem, theta, batch))


def test_a_chain_that_is_not_what_it_seems_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    class Sly(StandIn):
        def residual(self, theta: Tensor, batch: tuple[Tensor, ...]) -> Tensor:
            return 2 * super().residual(theta, batch)

    torch.manual_seed(0)
    problem = Sly(nn.Linear(3, 2).double())
    batch = tuple(torch.randn(4, n, dtype=torch.float64) for n in (3, 2))
    linearization = linearize(problem, problem.start, batch)
    with caplog.at_level(logging.WARNING, "proxlin"):
        rows = linearization.rows()
    assert linearization.path == "general"
    assert "do not reproduce its derivative" in caplog.text
    torch.testing.assert_close(rows, oracle(problem, problem.start, batch))
    assert linearize(problem, problem.start, batch).path == "general"


def test_a_diverged_theta_says_nothing_about_the_chain() -> None:
    problem, theta, batch = problem_of(stack(nn.Linear(3, 3), nn.Tanh()), 3)
    assert linearize(problem, theta * torch.nan, batch).rows().isnan().any()
    linearization = linearize(problem, theta, batch)
    assert linearization.path == "chain"
    torch.testing.assert_close(linearization.rows(), oracle(problem, theta, batch))


@pytest.mark.parametrize("name", ["autoencoder", "attention"])
def test_memory_can_be_given(name: str) -> None:
    make, shape = BOTH[name]
    problem, theta, batch = problem_of(make(), *shape)
    linearization = linearize(problem, theta, batch)
    expected = linearization.rows()
    place = torch.full_like(expected, torch.nan)
    assert linearization.rows(out=place) is place
    assert torch.equal(place, expected)
    with pytest.raises(InvalidInputError, match="out must have shape"):
        linearization.rows(out=place[1:])


def test_hooks_are_not_overlooked() -> None:
    network = stack(nn.Linear(3, 2))
    network[0].register_forward_hook(lambda _module, _args, output: output**3)
    problem, theta, batch = problem_of(network, 3)
    linearization = linearize(problem, theta, batch)
    assert linearization.path == "general"
    torch.testing.assert_close(linearization.rows(), oracle(problem, theta, batch))


def test_probes_have_the_curvature_as_second_moment() -> None:
    """The mean of v v^T over K probes differs from C by a few standard errors, no more."""
    problem, theta, batch = problem_of(
        stack(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2)), 3, rows=6
    )
    linearization = linearize(problem, theta, batch)
    weights = torch.rand_like(linearization.residual)
    count = 20_000
    probes = linearization.probes(weights, count, torch.Generator().manual_seed(1))
    assert probes.shape == (count, len(theta))
    jacobian = oracle(problem, theta, batch)
    curvature = torch.einsum("bnd,bn,bne->de", jacobian, weights, jacobian) / 6
    products = probes[:, :, None] * probes[:, None, :]
    error = (products.mean(0) - curvature).abs()
    band = products.std(0) / count**0.5
    # 20 parameters give 210 different entries: five standard errors are not met by chance.
    assert bool((error <= 5 * band + 1e-12).all())
    assert float((error / (band + 1e-12)).max()) > 1.0


def test_probes_depend_on_the_seed_alone() -> None:
    problem, theta, batch = problem_of(nn.Linear(3, 2), 3)
    weights = torch.ones(3, 2, dtype=torch.float64)
    linearization = linearize(problem, theta, batch)
    first = linearization.probes(weights, 6, torch.Generator().manual_seed(3))
    again = torch.Generator().manual_seed(3)
    halves = [linearization.probes(weights, 3, again) for _ in range(2)]
    torch.testing.assert_close(first, torch.cat(halves))
    assert not torch.equal(first[:3], first[3:])


def test_parameters_that_play_no_part_have_zero_columns() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(3, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    problem, theta, batch = problem_of(Idle(), 3)
    linearization = linearize(problem, theta, batch)
    assert linearization.path == "general"
    assert not linearization.rows()[..., problem.layout.slice("idle.weight")].any()


def test_stand_in_is_differentiable() -> None:
    problem: Differentiable = StandIn(nn.Linear(2, 2))
    assert problem.layout.size == 6


@pytest.mark.parametrize("bad", ["shape", "type"])
def test_wrong_vectors_are_refused_with_a_sentence(bad: str) -> None:
    problem, theta, batch = problem_of(nn.Linear(3, 2), 3)
    linearization = linearize(problem, theta, batch)
    vector = theta[1:] if bad == "shape" else theta.float()
    rows = linearization.residual[1:] if bad == "shape" else linearization.residual.float()
    with pytest.raises(InvalidInputError, match=r"direction must have shape \(8,\)"):
        linearization.apply(vector)
    with pytest.raises(InvalidInputError, match=r"cotangent must have shape \(3, 2\)"):
        linearization.adjoint(rows)
    with pytest.raises(InvalidInputError, match=r"weights must have shape \(3, 2\)"):
        linearization.probes(rows, 1)
    with pytest.raises(InvalidInputError, match="max_bytes"):
        linearize(problem, theta, batch, max_bytes=0)
