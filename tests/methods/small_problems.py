"""Small problems that MBO solves in a moment, and solvers that take a moment for each model."""

from dataclasses import dataclass, field

import torch

from proxlin import ADMM, SADM, Armijo, Problem, Subgradient
from proxlin.models import linear_regressor, mlp_autoencoder

ROWS = 40
SOLVERS = {
    "admm": ADMM(max_steps=100),
    "sadm": SADM(max_steps=12),
    "subgradient": Subgradient(learning_rate=3e-3, max_steps=25),
}


def linear(seed=0, p=1.0, dtype=torch.float64, **terms):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    noise = torch.randn(ROWS, 2, generator=generator, dtype=torch.float64)
    y = x @ weight.T + 0.1 * noise
    y[::4] += 20
    return Problem(linear_regressor(4, 2).to(dtype), (x.to(dtype), y.to(dtype)), p, **terms)


def autoencoder(seed=0, p=1.0, dtype=torch.float64, **terms):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, 2, generator=generator, dtype=torch.float64)
    x = x @ torch.randn(2, 5, generator=generator, dtype=torch.float64)
    torch.manual_seed(seed)
    return Problem(mlp_autoencoder((5, 3, 2)).to(dtype), x.to(dtype), p, **terms)


PROBLEMS = {"linear": linear, "autoencoder": autoencoder}


@dataclass(frozen=True, kw_only=True)
class Watched(Armijo):
    """Armijo that keeps what it was asked and what it answered."""

    calls: list = field(default_factory=list)

    def search(self, objective, anchor, target, value, decrease):
        found = super().search(objective, anchor, target, value, decrease)
        self.calls.append((anchor, target, value, decrease, found))
        return found
