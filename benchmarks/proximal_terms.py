"""MBO with other proximal terms: how far so many exact steps get, each term at its best weight.

    python -m benchmarks.proximal_terms

The convex models are solved by ADMM on all rows. A figure is the objective's distance to the lowest
that any run found, over that of the start; each term may try the weights 1e-4, 1e-3, ..., 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from proxlin import (
    ADMM,
    MBO,
    Curvature,
    Entropy,
    Euclidean,
    NonNegative,
    Problem,
    Simplex,
    minimize,
)

_WEIGHTS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_SOLVER = ADMM(tolerance=1e-4, max_steps=400)
TERMS: dict[str, Callable[[float], Any]] = {
    "euclidean": Euclidean, "entropy": Entropy, "curvature": Curvature,
}  # fmt: skip


class Mixture(nn.Module):
    """x -> log(x weight), for x and weight > 0."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(start.clone())

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, 1)."""
        return (x @ self.weight).clamp_min(1e-9).log().unsqueeze(1)


def _wrong(y: Tensor, every: int) -> Tensor:
    y[::every] += 5
    return y


def simplex(seed: int) -> Problem:
    """Weights of a portfolio or mixture: 40 of them, four not 0, on the simplex."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(200, 40, generator=generator, dtype=torch.float64).square()
    truth = torch.zeros(40, dtype=torch.float64)
    truth[:4] = torch.tensor([0.4, 0.3, 0.2, 0.1])
    y = _wrong((x @ truth).log().unsqueeze(1), 5)
    start = torch.full((40,), 1 / 40, dtype=torch.float64)
    return Problem(Mixture(start), (x, y), 1.0, constraint=Simplex())


def concentrations(seed: int) -> Problem:
    """Positive parameters from 10^-3 to 10^3 that all matter, from 1."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.logspace(-3, 3, 20, dtype=torch.float64)
    x = torch.rand(200, 20, generator=generator, dtype=torch.float64).square() / truth
    y = _wrong((x @ truth).log().unsqueeze(1), 5)
    start = torch.ones(20, dtype=torch.float64)
    return Problem(Mixture(start), (x, y), 1.0, constraint=NonNegative())


def units(seed: int) -> Problem:
    """A net on inputs whose units differ by a factor of 100, p = 2, a fifth of targets wrong."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(200, 10, generator=generator, dtype=torch.float64)
    y = _wrong(torch.sin(x[:, :2]), 5)
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.abs_().add_(0.01)  # which the entropy needs; signs are in the data
    scale = torch.logspace(-1, 1, 10, dtype=torch.float64)
    return Problem(net, (x * scale, y), 2.0)


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "mixture on a simplex": simplex,
    "positive, six decades": concentrations,
    "net, inputs of other units": units,
}


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"| problem | {' | '.join(TERMS)} |\n| --- | {' | '.join('---:' for _ in TERMS)} |")
    for name, build in PROBLEMS.items():
        ends: dict[str, list[tuple[float, float]]] = {}
        for title, term in TERMS.items():
            for weight in _WEIGHTS:
                problem = build(options.seed)
                method = MBO(solver=_SOLVER, metric=term(weight), decrease_rows=None)
                result = minimize(problem, method, max_iter=options.steps, max_seconds=None)
                ends.setdefault(title, []).append((result.objective, weight))
        first = build(options.seed)
        start = first.objective(first.penalty.project(first.theta()))
        low = min(min(found)[0] for found in ends.values())
        cells = []
        for found in ends.values():
            value, weight = min(found)
            cells.append(f"{(value - low) / (start - low):.1e} ({weight:g})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
