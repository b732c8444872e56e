"""The smallest problem that can be linearised, and the oracle for its Jacobian."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from proxlin.linearize.torch_modes import all_derivatives
from proxlin.terms.layout import Layout

Batch = tuple[Tensor, ...]


class StandIn:
    """module(x) - y, or a residual of its own."""

    def __init__(
        self, network: nn.Module, rule: Callable[[nn.Module, Batch], Tensor] | None = None
    ) -> None:
        self.network = network.eval()
        trainable = [(n, p) for n, p in network.named_parameters() if p.requires_grad]
        self.layout = Layout.of(trainable)
        self.start = self.layout.join({n: p.detach() for n, p in trainable})
        self.affine_in_output = rule is None
        self.cache = {}
        self._rule = rule or (lambda call, batch: (call(batch[0]) - batch[-1]).flatten(1))

    def residual(self, theta: Tensor, batch: Batch) -> Tensor:
        values = self.layout.split(theta)
        return self._rule(lambda *x: functional_call(self.network, values, x), batch)


def problem_of(
    network: nn.Module, *shape: int, rows: int = 3, seed: int = 0
) -> tuple[StandIn, Tensor, Batch]:
    """A float64 problem with random inputs of the given shape and random targets."""
    torch.manual_seed(seed)
    problem = StandIn(network.double())
    x = torch.randn(rows, *shape, dtype=torch.float64)
    with torch.no_grad():
        y = torch.randn_like(network(x))
    return problem, problem.start, (x, y)


def oracle(problem: StandIn, theta: Tensor, batch: Batch) -> Tensor:
    """The Jacobian (B, N, d) by torch.func.jacrev over the whole batch."""
    with all_derivatives():
        return jacrev(lambda point: problem.residual(point, batch))(theta)
