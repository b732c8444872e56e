"""The problems on which the methods are compared: nets on images and tables, and convex ones.

Six are kept aside: no setting was chosen while looking at them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from benchmarks.architectures import (
    Attention,
    Dilated,
    Fourier,
    Gated,
    Instance,
    Mixer,
    Multiplied,
    Recurrent,
    ResidualBlock,
    SkipAutoencoder,
    burgers,
    category_table,
    chain,
    image,
    integrals,
    series,
    sets,
    sine_image,
    teacher_table,
)
from benchmarks.unseen import Highway, PoolingAutoencoder, SeriesUNet, clouds, graph, pendulum
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
    build: Callable[[int], Instance]
    autoencoder: bool = False
    aside: bool = False  # not looked at while a setting is chosen


def cases() -> list[Case]:
    """Every problem, those of newer kinds first, those aside last."""
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
    newer = _newer()
    return [
        *(case for case in newer if not case.aside),
        *images,
        Case("deep conv autoencoder p=1", _deep_images, autoencoder=True),
        Case("wide mlp autoencoder p=2", _wide_images, autoencoder=True),
        Case("scm1d paper net p=2", _scm1d),
        Case("rf1 mlp p=1 corrupted", partial(_table, "rf1", mlp_regressor)),
        Case("atp1d mlp p=1 corrupted", partial(_table, "atp1d", mlp_regressor)),
        Case("linear l1", _linear),
        Case("non-negative factors p=2", _factors),
        *(case for case in newer if case.aside),
    ]


def _newer() -> list[Case]:
    """Nets of other kinds than those that the method grew up with."""
    return [
        Case("conv-dense-conv elu p=1.2", _conv_dense_conv, autoencoder=True),
        Case("dense gelu autoencoder p=1", partial(_dense_images, (784, 512, 128), nn.GELU)),
        Case("wide relu autoencoder 2.7M p=1", partial(_dense_images, (784, 1024, 512), nn.ReLU)),
        Case("transformer series p=1", partial(_series, _attention)),
        Case("lstm series p=1", partial(_series, _lstm)),
        Case("sine net image p=1", sine_image),
        Case("tanh mlp table p=1", partial(_teacher, (61, 128, 128, 64, 16), nn.Tanh, 9_000, 1.0)),
        Case("deep narrow tanh p=1", partial(_teacher, (20, *[24] * 10, 4), nn.Tanh, 10_000, 1.0)),
        Case("small table 1e3 p=1", partial(_teacher, (12, 64, 64, 3), nn.ReLU, 1_000, 1.0)),
        Case("large table 1e5 p=1", partial(_teacher, (30, 128, 128, 8), nn.ReLU, 100_000, 1.0)),
        Case("residual layernorm table p=1", _residual_table),
        Case("physics-informed tanh p=1", burgers),
        Case("gru series p=1", partial(_series, _gru)),
        Case("embedded categories p=1", category_table),
        Case("residual conv images p=1", _residual_images, autoencoder=True),
        Case("silu mlp table p=2", partial(_teacher, (40, 256, 256, 10), nn.SiLU, 30_000, 2.0)),
        Case("conv1d series p=1.5", partial(_series, _conv1d, p=1.5)),
        Case("digits from images p=1", partial(_labels, _digit_net)),
        Case("wide relu table p=1.5", partial(_teacher, (50, 512, 12), nn.ReLU, 40_000, 1.5)),
        Case("softplus table p=1",
             partial(_teacher, (16, 64, 64, 64, 64, 4), nn.Softplus, 5_000, 1.0)),
        Case("tanh rnn series p=1", partial(_series, _rnn)),
        Case("mixed patches p=1", partial(_labels, lambda: Mixer(16, 48, 10))),
        Case("dilated convolutions series p=2", partial(_series, _dilated, p=2.0)),
        Case("fourier features image p=1", _fourier_image),
        Case("gated experts table p=1.5", _experts),
        Case("elu 100-50 on scm1d p=1", partial(_table, "scm1d", _elu_net)),
        Case("skipping autoencoder p=1", _skipping_images, autoencoder=True),
        Case("multiplied units table p=1.5", _multiplied_table),
        Case("pooled sets p=1", sets),
        Case("operator of integrals p=1", integrals),
        Case("gru both ways series p=1", partial(_series, _both_ways)),
        Case("pooling autoencoder p=1", _pooling_images, autoencoder=True, aside=True),
        Case("u-net along series p=1.2", partial(_series, SeriesUNet, p=1.2), aside=True),
        Case("highway table p=1", _highway_table, aside=True),
        Case("graph net p=1", graph, aside=True),
        Case("learnt equation p=2", pendulum, aside=True),
        Case("asked clouds p=1.5", clouds, aside=True),
    ]  # fmt: skip


def _attention(inputs: int, steps: int, outputs: int) -> nn.Module:
    return Attention(inputs, 32, steps, outputs)


def _lstm(inputs: int, _steps: int, outputs: int) -> nn.Module:
    return Recurrent(nn.LSTM, inputs, 48, outputs)


def _rnn(inputs: int, _steps: int, outputs: int) -> nn.Module:
    return Recurrent(nn.RNN, inputs, 64, outputs)


def _gru(inputs: int, _steps: int, outputs: int) -> nn.Module:
    return Recurrent(nn.GRU, inputs, 48, outputs)


def _both_ways(inputs: int, _steps: int, outputs: int) -> nn.Module:
    return Recurrent(nn.GRU, inputs, 32, outputs, both_ways=True)


def _conv1d(inputs: int, steps: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Unflatten(1, (steps,)), nn.Flatten(2)),
        *(nn.Conv1d(steps, 32, 1), nn.GELU(), nn.Conv1d(32, 32, 3, padding=1), nn.GELU()),
        *(nn.Flatten(), nn.Linear(32 * inputs, 64), nn.GELU(), nn.Linear(64, outputs)),
    )


def _dilated(inputs: int, _steps: int, outputs: int) -> nn.Module:
    return Dilated(inputs, 32, outputs)


def _series(net: Callable[[int, int, int], nn.Module], seed: int, p: float = 1.0) -> Instance:
    torch.manual_seed(seed)
    return series(net, seed, p=p)


def _fourier_image(seed: int) -> Instance:
    torch.manual_seed(seed)
    net = nn.Sequential(Fourier(2, 64, 8.0), *chain((128, 64, 64, 3), nn.ReLU))
    return image(net, seed)


def _experts(seed: int) -> Instance:
    torch.manual_seed(seed)
    return teacher_table(Gated(24, 6, 32, 6), 15_000, 24, 6, seed, p=1.5)


def _elu_net(inputs: int, outputs: int) -> nn.Module:
    return chain((inputs, 100, 50, outputs), nn.ELU)


def _teacher(
    widths: tuple[int, ...], activation: Callable[[], nn.Module], n: int, p: float, seed: int
) -> Instance:
    torch.manual_seed(seed)
    return teacher_table(chain(widths, activation), n, widths[0], widths[-1], seed, p=p)


def _multiplied_table(seed: int) -> Instance:
    torch.manual_seed(seed)
    return teacher_table(Multiplied(24, 96, 6), 12_000, 24, 6, seed, p=1.5)


def _highway_table(seed: int) -> Instance:
    torch.manual_seed(seed)
    return teacher_table(Highway(30, 64, 4, 5), 15_000, 30, 5, seed)


def _residual_table(seed: int) -> Instance:
    torch.manual_seed(seed)
    blocks = [ResidualBlock(48) for _ in range(3)]
    net = nn.Sequential(nn.Linear(30, 48), *blocks, nn.LayerNorm(48), nn.Linear(48, 8))
    return teacher_table(net, 20_000, 30, 8, seed)


def _dense_images(
    widths: tuple[int, ...], activation: Callable[[], nn.Module], seed: int
) -> Instance:
    torch.manual_seed(seed)
    net = nn.Sequential(
        *(nn.Flatten(), chain((*widths, *widths[-2::-1]), activation)),
        nn.Unflatten(1, (1, 28, 28)),
    )
    return _outlying(net, "fashion-mnist", 1.0, 0.1, seed)


def _conv_dense_conv(seed: int) -> Instance:
    """Two strided convolutions, a dense code of 32 numbers, two transposed convolutions."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, 2, 1), nn.ELU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ELU()),
        *(nn.Flatten(), nn.Linear(1568, 32), nn.ELU(), nn.Linear(32, 1568), nn.ELU()),
        *(nn.Unflatten(1, (32, 7, 7)), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ELU()),
        nn.ConvTranspose2d(16, 1, 4, 2, 1),
    )
    return _outlying(net, "mnist", 1.2, 0.15, seed)


class _ConvBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(channels, channels, 3, padding=1)
        self.outer = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.outer(nn.functional.silu(self.inner(x)))
        return found


def _residual_images(seed: int) -> Instance:
    torch.manual_seed(seed)
    net = nn.Sequential(
        *(nn.Conv2d(1, 24, 4, 4), _ConvBlock(24), _ConvBlock(24), nn.Conv2d(24, 8, 1)),
        *(nn.Conv2d(8, 24, 1), _ConvBlock(24), nn.ConvTranspose2d(24, 1, 4, 4)),
    )
    return _outlying(net, "fashion-mnist", 1.0, 0.1, seed)


def _skipping_images(seed: int) -> Instance:
    torch.manual_seed(seed)
    return _outlying(SkipAutoencoder(24), "mnist", 1.0, 0.1, seed)


def _pooling_images(seed: int) -> Instance:
    torch.manual_seed(seed)
    return _outlying(PoolingAutoencoder(16), "fashion-mnist", 1.0, 0.1, seed)


def _outlying(net: nn.Module, data: str, p: float, ratio: float, seed: int) -> Instance:
    corrupted, mask = add_outliers(_dataset(data).x_train, ratio, seed=seed)
    return Problem(net, corrupted, p, regularizer=RIDGE), ~mask


def _digit_net() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1568, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def _labels(build: Callable[[], nn.Module], seed: int) -> Instance:
    """A net that tells digits apart; a fifth of the labels wrong."""
    data = _dataset("mnist")
    generator = torch.Generator().manual_seed(400 + seed)
    labels = data.y_train.long().flatten()
    wrong = torch.rand(len(labels), generator=generator) < 0.2
    labels = torch.where(wrong, torch.randint(10, labels.shape, generator=generator), labels)
    torch.manual_seed(seed)
    net = build()
    targets = nn.functional.one_hot(labels, 10).to(data.x_train)
    return Problem(net, (data.x_train, targets), 1.0, regularizer=RIDGE), ~wrong


def _paper_images(data: str, p: float, ratio: float, seed: int) -> Instance:
    torch.manual_seed(seed)
    return _outlying(paper_autoencoder(), data, p, ratio, seed)


def _deep_images(seed: int) -> Instance:
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
    return _outlying(net, "fashion-mnist", 1.0, 0.1, seed)


def _wide_images(seed: int) -> Instance:
    """784-256-64-256-784, 435,536 parameters."""
    torch.manual_seed(seed)
    net = mlp_autoencoder((784, 256, 64), image=(1, 28, 28))
    return _outlying(net, "mnist", 2.0, 0.0, seed)


def _scm1d(seed: int) -> Instance:
    x, y = _standardized(_dataset("scm1d"))
    torch.manual_seed(seed)
    net = paper_regressor(x.shape[1], y.shape[1])
    return Problem(net, (x, y), 2.0, regularizer=RIDGE), None


def _table(name: str, build: Callable[[int, int], nn.Module], seed: int) -> Instance:
    """A net on a real table; 20 % of the rows carry targets of another distribution."""
    x, y = _standardized(_dataset(name))
    y, mask = add_outliers(y, 0.2, "text", seed=seed)
    torch.manual_seed(seed)
    net = build(x.shape[1], y.shape[1])
    return Problem(net, (x, y), 1.0, regularizer=RIDGE), ~mask


def _linear(seed: int) -> Instance:
    plant = planted_regression(
        20_000, 50, 4, outlier_ratio=0.3, noise=0.5, seed=seed, dtype=torch.float32
    )
    return Problem(linear_regressor(50, 4), (plant.x, plant.y), 1.0), None


def _factors(seed: int) -> Instance:
    plant = planted_factorization(
        2_000, 100, 10, non_negative=True, noise=0.05, seed=seed, dtype=torch.float32
    )
    net = Factorization(2_000, 100, 10, non_negative=True, scale=float(plant.x.std()), seed=seed)
    data = (torch.arange(2_000), plant.x, plant.observed)
    return Problem(net, data, 2.0, residual=known_cells, constraint=NonNegative()), None


@lru_cache(maxsize=4)
def _dataset(name: str) -> DataSet:
    return load_dataset(name)


def _standardized(data: DataSet) -> tuple[Tensor, Tensor]:
    return _scaled(data.x_train), _scaled(data.y_train)


def _scaled(values: Tensor) -> Tensor:
    spread = values.std(0)
    return (values - values.mean(0)) / torch.where(spread > 0, spread, 1.0)
