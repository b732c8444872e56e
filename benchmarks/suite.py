"""The problems on which the methods are compared: nets on images and tables, and convex ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from proxlin import NonNegative, Problem, Ridge
from proxlin.data import (
    DataSet,
    add_outliers,
    load_dataset,
    planted_factorization,
    planted_regression,
)
from proxlin.models import (
    Factorization,
    known_cells,
    linear_regressor,
    mlp_autoencoder,
    mlp_regressor,
    paper_autoencoder,
    paper_regressor,
)

RIDGE = Ridge(1e-3)  # g of the paper


@dataclass(frozen=True)
class Case:
    """A problem by name; `build` draws data and start from the seed."""

    name: str
    build: Callable[[int], Problem]
    autoencoder: bool = False


def cases() -> list[Case]:
    """Every problem, autoencoders first."""
    images = [
        Case(
            f"{data} p={p:g} outliers={ratio:g}",
            partial(_paper_images, data, p, ratio),
            autoencoder=True,
        )
        for data in ("mnist", "fashion-mnist")
        for p in (1.0, 1.5, 2.0)
        for ratio in (0.0, 0.1, 0.3)
    ]
    return [
        *images,
        Case("deep conv autoencoder p=1", _deep_images, autoencoder=True),
        Case("wide mlp autoencoder p=2", _wide_images, autoencoder=True),
        Case("scm1d paper net p=2", _scm1d),
        Case("rf1 mlp p=1 corrupted", partial(_table, "rf1")),
        Case("atp1d mlp p=1 corrupted", partial(_table, "atp1d")),
        Case("linear l1", _linear),
        Case("non-negative factors p=2", _factors),
    ]


def _paper_images(data: str, p: float, ratio: float, seed: int) -> Problem:
    torch.manual_seed(seed)
    return Problem(paper_autoencoder(), _images(data, ratio, seed), p, regularizer=RIDGE)


def _deep_images(seed: int) -> Problem:
    """Three strided convolutions each way, 140,673 parameters, a code of 1,024 numbers."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        *(nn.Conv2d(1, 32, 4, 2, 1), nn.SiLU()),
        *(nn.Conv2d(32, 64, 4, 2, 1), nn.SiLU()),
        *(nn.Conv2d(64, 64, 3, 2, 1), nn.SiLU()),
        *(nn.ConvTranspose2d(64, 64, 3, 2, 1), nn.SiLU()),
        *(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.SiLU()),
        nn.ConvTranspose2d(32, 1, 4, 2, 1),
    )
    return Problem(net, _images("fashion-mnist", 0.1, seed), 1.0, regularizer=RIDGE)


def _wide_images(seed: int) -> Problem:
    """784-256-64-256-784, 435,536 parameters."""
    torch.manual_seed(seed)
    net = mlp_autoencoder((784, 256, 64), image=(1, 28, 28))
    return Problem(net, _images("mnist", 0.0, seed), 2.0, regularizer=RIDGE)


def _scm1d(seed: int) -> Problem:
    x, y = _standardized(_dataset("scm1d"))
    torch.manual_seed(seed)
    net = paper_regressor(x.shape[1], y.shape[1])
    return Problem(net, (x, y), 2.0, regularizer=RIDGE)


def _table(name: str, seed: int) -> Problem:
    """An MLP of two hidden layers; 20 % of the rows carry targets of another distribution."""
    x, y = _standardized(_dataset(name))
    y, _ = add_outliers(y, 0.2, "text", seed=seed)
    torch.manual_seed(seed)
    net = mlp_regressor(x.shape[1], y.shape[1])
    return Problem(net, (x, y), 1.0, regularizer=RIDGE)


def _linear(seed: int) -> Problem:
    plant = planted_regression(
        20_000, 50, 4, outlier_ratio=0.3, noise=0.5, seed=seed, dtype=torch.float32
    )
    return Problem(linear_regressor(50, 4), (plant.x, plant.y), 1.0)


def _factors(seed: int) -> Problem:
    plant = planted_factorization(
        2_000, 100, 10, non_negative=True, noise=0.05, seed=seed, dtype=torch.float32
    )
    net = Factorization(2_000, 100, 10, non_negative=True, scale=float(plant.x.std()), seed=seed)
    data = (torch.arange(2_000), plant.x, plant.observed)
    return Problem(net, data, 2.0, residual=known_cells, constraint=NonNegative())


@lru_cache(maxsize=4)
def _dataset(name: str) -> DataSet:
    return load_dataset(name)


def _images(name: str, ratio: float, seed: int) -> Tensor:
    corrupted, _ = add_outliers(_dataset(name).x_train, ratio, seed=seed)
    return corrupted


def _standardized(data: DataSet) -> tuple[Tensor, Tensor]:
    return _scaled(data.x_train), _scaled(data.y_train)


def _scaled(values: Tensor) -> Tensor:
    spread = values.std(0)
    return (values - values.mean(0)) / torch.where(spread > 0, spread, 1.0)
