"""What people use today, as methods for the same loop: torch's optimisers, Muon, SOAP and others.

Each rival sees the objective with g in it, projects on C after every step, and takes its step with
autograd on the whole net at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from proxlin.methods import Step
from proxlin.methods.contract import Budget
from proxlin.problem import Problem
from proxlin.problem.rows import Batch, Shuffler

BATCHES = (64, 256, 1_024)
_FIXED_ROWS = 4_096  # that L-BFGS sees: a batch that changes would break its memory
_DENSE_JACOBIAN = 1_000  # most parameters for which pypose's dense Jacobian is of use

Optimizers = list[Any]  # of torch's kind


@dataclass
class RivalState:
    """Memory of a torch optimiser on this problem."""

    leaves: list[Tensor]  # one for each parameter; a kernel is a matrix with a row for each unit
    optimizers: Optimizers
    rates: list[float]  # learning rate of each optimiser before the schedule
    batches: Shuffler
    ridge: list[Tensor]  # weights of the quadratic part of g, one for each leaf


@dataclass(frozen=True)
class FirstOrder:
    """A torch optimiser with a cosine schedule over the budget."""

    make: Callable[[list[Tensor], float], Optimizers]
    learning_rate: float
    batch_size: int = BATCHES[0]
    scheduled: bool = True
    measures_stationarity: bool = False

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> RivalState:
        """Begin at theta."""
        leaves = _leaves(problem, theta)
        optimizers = self.make(leaves, self.learning_rate)
        rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
        batches = Shuffler(problem.n_rows, self.batch_size, generator)
        weights = torch.split(problem.penalty.quadratic.to(theta), list(problem.layout.sizes))
        ridge = [part.view_as(leaf) for part, leaf in zip(weights, leaves, strict=True)]
        return RivalState(leaves, optimizers, rates, batches, ridge)

    def step(self, problem: Problem, state: RivalState, budget: Budget) -> Step:
        """One batch, one step."""
        if self.scheduled:
            share = 0.5 * (1 + math.cos(math.pi * budget.progress))
            for optimizer, rate in zip(state.optimizers, state.rates, strict=True):
                optimizer.param_groups[0]["lr"] = rate * share
        _backward(problem, state, problem.rows.take(state.batches.next()))
        for optimizer in state.optimizers:
            optimizer.step()
        _project(problem, state.leaves)
        return Step()

    def candidates(self, state: RivalState) -> list[Tensor]:
        """The present point; of an optimiser that averages, the average."""
        if self.scheduled:
            return [_joined(state.leaves)]
        for optimizer in state.optimizers:
            optimizer.eval()
        average = _joined(state.leaves)
        for optimizer in state.optimizers:
            optimizer.train()
        return [average]


@dataclass
class LBFGSState:
    """Memory of an L-BFGS run."""

    leaves: list[Tensor]
    optimizer: torch.optim.LBFGS
    rows: Tensor  # the fixed sample


@dataclass(frozen=True)
class LBFGS:
    """torch.optim.LBFGS with a strong Wolfe search on a fixed sample of the rows.

    Where a kink has spoilt its memory and the search finds nothing, it starts afresh.
    """

    measures_stationarity: bool = False

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> LBFGSState:
        """Begin at theta."""
        leaves = _leaves(problem, theta)
        rows = torch.randperm(problem.n_rows, generator=generator)[:_FIXED_ROWS]
        return LBFGSState(leaves, _lbfgs(leaves), rows)

    def step(self, problem: Problem, state: LBFGSState, budget: Budget) -> Step:
        """One iteration with its line search, which is given up when the time is over."""
        before = _joined(state.leaves)

        def closure() -> Tensor:
            if budget.expired():
                raise _TimeUpError
            return _backward_in_chunks(problem, state.leaves, state.rows)

        try:
            state.optimizer.step(closure)  # type: ignore[no-untyped-call]
        except _TimeUpError:
            _assign(problem, state.leaves, before)
        if torch.equal(before, _joined(state.leaves)):
            state.optimizer = _lbfgs(state.leaves)
        _project(problem, state.leaves)
        return Step()

    def candidates(self, state: LBFGSState) -> list[Tensor]:
        """The present point."""
        return [_joined(state.leaves)]


class _TimeUpError(Exception):
    """The time ran out in the middle of a line search."""


def _lbfgs(leaves: list[Tensor]) -> torch.optim.LBFGS:
    return torch.optim.LBFGS(leaves, max_iter=1, history_size=20, line_search_fn="strong_wolfe")


def _leaves(problem: Problem, theta: Tensor) -> list[Tensor]:
    """The parameters as leaves; kernels as matrices, which is what Muon takes."""
    parts = problem.layout.split(theta.detach())
    flat = [part.flatten(1) if part.ndim > 2 else part for part in parts.values()]
    return [part.clone().requires_grad_(True) for part in flat]


def _joined(leaves: list[Tensor]) -> Tensor:
    return torch.cat([leaf.detach().flatten() for leaf in leaves])


def _objective(problem: Problem, leaves: list[Tensor], batch: Batch) -> Tensor:
    theta = torch.cat([leaf.flatten() for leaf in leaves])
    return problem.losses(theta, batch).mean() + problem.penalty.value(theta)


def _backward(problem: Problem, state: RivalState, batch: Batch) -> None:
    """Leave the gradient of the objective on the batch in the leaves, as a plain loop would.

    The net is called with the leaves themselves, and a quadratic g adds its gradient by hand: what
    a flat vector of all parameters costs is not the rival's.
    """
    leaves, layout = state.leaves, problem.layout
    for leaf in leaves:
        leaf.grad = None
    with torch.enable_grad():
        if not problem.penalty.is_quadratic:
            _objective(problem, leaves, batch).backward()  # type: ignore[no-untyped-call]
            return
        named = zip(layout.names, layout.shapes, leaves, strict=True)
        values = {f"module.{name}": leaf.view(shape) for name, shape, leaf in named}
        residual: Tensor = functional_call(problem._residual, values, batch)
        problem.loss(residual).mean().backward()  # type: ignore[no-untyped-call]
    for leaf, weight in zip(leaves, state.ridge, strict=True):
        gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        leaf.grad = gradient.addcmul_(weight, leaf.detach())


def _backward_in_chunks(problem: Problem, leaves: list[Tensor], rows: Tensor) -> Tensor:
    """The objective on the rows, its gradient left in the leaves."""
    for leaf in leaves:
        leaf.grad = None
    total = torch.zeros(())
    with torch.enable_grad():
        for batch in problem.chunks(index=rows):
            value = _objective(problem, leaves, batch) * (batch[0].shape[0] / len(rows))
            value.backward()  # type: ignore[no-untyped-call]
            total += value.detach()
    return total


def _project(problem: Problem, leaves: list[Tensor]) -> None:
    if problem.penalty.constrained:
        _assign(problem, leaves, problem.penalty.project(_joined(leaves)))


def _assign(problem: Problem, leaves: list[Tensor], point: Tensor) -> None:
    with torch.no_grad():
        for leaf, part in zip(leaves, problem.layout.split(point).values(), strict=True):
            leaf.copy_(part.reshape(leaf.shape))


def adam(leaves: list[Tensor], rate: float) -> Optimizers:
    """torch.optim.Adam."""
    return [torch.optim.Adam(leaves, lr=rate)]


def _adamw(leaves: list[Tensor], rate: float) -> Optimizers:
    return [torch.optim.AdamW(leaves, lr=rate)]


def _sgd(leaves: list[Tensor], rate: float) -> Optimizers:
    return [torch.optim.SGD(leaves, lr=rate, momentum=0.9)]


class Muon:
    """Momentum whose matrices are made orthogonal by Newton-Schulz steps, in float32.

    torch.optim.Muon multiplies in bfloat16, which a processor without it emulates at a tenth of the
    speed. Steps have the size (RMS) of Adam's.
    """

    _COEFFICIENTS = (3.4445, -4.7750, 2.0315)
    _MOMENTUM = 0.95

    def __init__(self, matrices: list[Tensor], lr: float) -> None:
        self.param_groups = [{"lr": lr}]
        self._pairs = [(matrix, torch.zeros_like(matrix)) for matrix in matrices]

    @torch.no_grad()
    def step(self) -> None:
        """One step for every matrix."""
        for matrix, momentum in self._pairs:
            assert matrix.grad is not None
            momentum.lerp_(matrix.grad, 1 - self._MOMENTUM)
            update = self._orthogonal(matrix.grad.lerp(momentum, self._MOMENTUM))
            size = 0.2 * math.sqrt(max(matrix.shape))
            matrix.sub_(update, alpha=size * self.param_groups[0]["lr"])

    def _orthogonal(self, matrix: Tensor) -> Tensor:
        """About U V^T of the matrix's singular value decomposition."""
        a, b, c = self._COEFFICIENTS
        tall = matrix.shape[0] > matrix.shape[1]
        x = matrix.T if tall else matrix
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            gram = x @ x.T
            x = a * x + torch.addmm(gram, gram, gram, beta=b, alpha=c) @ x
        found: Tensor = x.T if tall else x
        return found


def _muon(leaves: list[Tensor], rate: float) -> Optimizers:
    """Muon for matrices, Adam for the rest."""
    matrices = [leaf for leaf in leaves if leaf.ndim == 2]
    rest = [leaf for leaf in leaves if leaf.ndim != 2]
    found: Optimizers = [Muon(matrices, rate)] if matrices else []
    return [*found, torch.optim.Adam(rest, lr=rate)] if rest else found


def _extra(name: str, **settings: Any) -> Callable[[list[Tensor], float], Optimizers]:
    """An optimiser of the package pytorch_optimizer, an extra of the benchmarks."""

    def make(leaves: list[Tensor], rate: float) -> Optimizers:
        kind = getattr(import_module("pytorch_optimizer"), name)
        return [kind(leaves, lr=rate, weight_decay=0.0, **settings)]

    return make


class LevenbergMarquardt:
    """pypose's Levenberg-Marquardt with a pseudo-Huber kernel, on batches it can hold densely."""

    measures_stationarity = False

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> Any:
        """Begin at theta."""
        pp = import_module("pypose")  # an extra of the benchmarks, slow to import

        model = _ResidualNet(problem, theta)
        optimizer = pp.optim.LM(
            model,
            strategy=pp.optim.strategy.Adaptive(damping=1e-2),
            kernel=pp.optim.kernel.PseudoHuber(),
            corrector=pp.optim.corrector.FastTriggs(pp.optim.kernel.PseudoHuber()),
        )
        numbers = 2**11  # a dense Jacobian by reverse mode costs one backward pass for each
        rows = max(1, min(problem.n_rows, numbers // problem.n_outputs))
        return _LMState(model, optimizer, Shuffler(problem.n_rows, rows, generator))

    def step(self, problem: Problem, state: Any, _budget: Budget) -> Step:
        """One batch, one damped step."""
        batch = problem.rows.take(state.batches.next())
        with torch.enable_grad():
            state.optimizer.step(batch)
        with torch.no_grad():
            state.model.theta.copy_(problem.penalty.project(state.model.theta.detach()))
        return Step()

    def candidates(self, state: Any) -> list[Tensor]:
        """The present point."""
        return [state.model.theta.detach().clone()]


@dataclass
class _LMState:
    model: _ResidualNet
    optimizer: Any
    batches: Shuffler


class _ResidualNet(nn.Module):
    """The residual rows as the output of a module with one parameter."""

    def __init__(self, problem: Problem, theta: Tensor) -> None:
        super().__init__()
        self.problem = problem
        self.theta = nn.Parameter(theta.clone())

    def forward(self, *batch: Tensor) -> Tensor:
        """F(theta; x), (B, N)."""
        return self.problem.residual(self.theta, batch)


def rivals_for(problem: Problem) -> dict[str, list[Any]]:
    """Each rival with the settings of which the best counts."""
    usual = (1e-3, 3e-3, 1e-2)
    large = (3e-3, 1e-2, 3e-2)
    families = {
        "adam": (adam, usual),
        "adamw": (_adamw, usual),
        "muon": (_muon, large),
        "soap": (_extra("SOAP"), usual),
        "psgd-kron": (_extra("Kron"), (3e-4, 1e-3, 3e-3)),
        "sgd": (_sgd, (1e-4, 1e-3, 1e-2)),
    }
    found: dict[str, list[Any]] = {
        name: [FirstOrder(make, rate, batch) for batch in BATCHES for rate in rates]
        for name, (make, rates) in families.items()
    }
    free = _extra("ScheduleFreeAdamW")
    found["schedule-free"] = [
        FirstOrder(free, rate, batch, scheduled=False)
        for batch in BATCHES
        for rate in (2.5e-3, 7.5e-3, 2.5e-2)
    ]
    found["l-bfgs"] = [LBFGS()]
    if problem.layout.size <= _DENSE_JACOBIAN and not problem.penalty.constrained:
        found["lm"] = [LevenbergMarquardt()]
    return found
