"""J d and J^T u against jacrev and against each other, for every road that leads there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from proxlin.errors import UnsupportedModuleError
from proxlin.linearize import linearize
from proxlin.linearize.differentiable import footprint
from tests.linearize.networks import CHAINS, GENERAL
from tests.linearize.stand_in import oracle, problem_of

BOTH = {**CHAINS, **GENERAL}


@pytest.mark.parametrize("name", BOTH)
def test_products_are_those_of_the_jacobian(name: str) -> None:
    make, shape = BOTH[name]
    problem, theta, batch = problem_of(make(), *shape)
    linearization = linearize(problem, theta, batch)
    jacobian = oracle(problem, theta, batch)
    direction = torch.randn_like(theta)
    cotangents = torch.randn(5, *linearization.residual.shape, dtype=torch.float64)
    torch.testing.assert_close(linearization.residual, problem.residual(theta, batch))
    for _ in range(2):  # the second call reuses what the first one kept
        torch.testing.assert_close(linearization.apply(direction), jacobian @ direction)
    expected = torch.einsum("kbn,bnd->kd", cotangents, jacobian)
    torch.testing.assert_close(linearization.adjoint(cotangents[0]), expected[0])
    torch.testing.assert_close(linearization.adjoint(cotangents), expected)
    there = linearization.apply(direction).mul(cotangents[1]).sum()
    back = linearization.adjoint(cotangents[1]).dot(direction)
    torch.testing.assert_close(there, back)


class Cubed(torch.autograd.Function):
    """x^3 with a backward pass that cannot be differentiated, and nothing else."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)  # type: ignore[attr-defined]
        return x**3

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return torch.from_numpy((3 * x**2 * grad).detach().numpy())


class Doubled(torch.autograd.Function):
    """2x with a backward pass that can be differentiated, but no forward mode."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        return 2 * grad


class Custom(nn.Module):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function.apply(self.layer(x))


def test_a_function_without_forward_mode_is_differentiated_twice() -> None:
    problem, theta, batch = problem_of(Custom(Doubled), 3)
    linearization = linearize(problem, theta, batch)
    direction = torch.randn_like(theta)
    rows = linearization.rows()  # torch.func refuses such a function: one row at a time
    torch.testing.assert_close(linearization.apply(direction), rows @ direction)
    expected = linearize(problem_of(nn.Linear(3, 2), 3)[0], theta, batch).rows()
    torch.testing.assert_close(rows, 2 * expected)


def test_a_hook_on_a_backward_pass_is_no_function_of_the_users() -> None:
    """Products would be tried in forward mode first, which may take seconds in a new process."""
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    problem, theta, batch = problem_of(module, 3)
    direction = torch.randn_like(theta)
    expected = oracle(problem, theta, batch) @ direction
    module[2].register_full_backward_hook(lambda *_: None)
    assert not footprint(problem, theta, batch).custom
    torch.testing.assert_close(linearize(problem, theta, batch).apply(direction), expected)
    custom = problem_of(Custom(Doubled), 3)
    assert footprint(*custom).custom


def test_a_derivative_that_cannot_be_had_is_refused_not_guessed() -> None:
    problem, theta, batch = problem_of(Custom(Cubed), 3)
    linearization = linearize(problem, theta, batch)
    with pytest.raises(UnsupportedModuleError, match="forward-mode or twice differentiable"):
        linearization.apply(torch.randn_like(theta))
    cotangent = torch.randn_like(linearization.residual)
    expected = torch.einsum("bn,bnd->d", cotangent, linearization.rows())
    torch.testing.assert_close(linearization.adjoint(cotangent), expected)


def test_attention_without_any_second_derivative_still_gives_products() -> None:
    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.mix(x).unflatten(-1, (1, 4)).transpose(1, 2)
            return functional.scaled_dot_product_attention(x, x, x).flatten(1)

    problem, theta, batch = problem_of(Fused(), 5, 4)
    linearization = linearize(problem, theta, batch)
    direction = torch.randn_like(theta)
    expected = oracle(problem, theta, batch) @ direction
    torch.testing.assert_close(linearization.apply(direction), expected)
