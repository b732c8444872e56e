"""Nets of many kinds on data of many kinds: what nobody chose a setting of `probed` on.

Series, implicit images, a differential equation, tables from a thousand to a hundred thousand rows,
categories; recurrent nets, attention, residual nets, deep and narrow or wide ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from proxlin import Problem, Ridge
from proxlin.data import add_outliers

RIDGE = Ridge(1e-4)
Instance = tuple[Problem, Tensor | None]  # a problem, and which of its rows are clean


class Recurrent(nn.Module):
    """A recurrent net whose last state is mapped to the forecast."""

    def __init__(
        self,
        kind: type[nn.LSTM | nn.GRU | nn.RNN],
        inputs: int,
        hidden: int,
        outputs: int,
        *,
        both_ways: bool = False,
    ) -> None:
        super().__init__()
        self.cell = kind(inputs, hidden, batch_first=True, bidirectional=both_ways)
        self.head = nn.Linear(2 * hidden if both_ways else hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, inputs) -> (B, outputs)."""
        found: Tensor = self.head(self.cell(x)[0][:, -1])
        return found


class Attention(nn.Module):
    """Two layers of self-attention over the steps of a series."""

    def __init__(self, inputs: int, width: int, steps: int, outputs: int) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.place = nn.Parameter(0.02 * torch.randn(steps, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, inputs) -> (B, outputs)."""
        found: Tensor = self.head(self.layers(self.embed(x) + self.place).mean(1))
        return found


class Sine(nn.Module):
    """x -> sin(frequency * x)."""

    def __init__(self, frequency: float) -> None:
        super().__init__()
        self.frequency = frequency

    def forward(self, x: Tensor) -> Tensor:
        """Entry by entry."""
        return torch.sin(self.frequency * x)


class ResidualBlock(nn.Module):
    """x + W2 gelu(W1 norm(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        found: Tensor = x + self.outer(nn.functional.gelu(self.inner(self.norm(x))))
        return found


class Categories(nn.Module):
    """Embedded categories beside numbers, then two hidden layers."""

    def __init__(self, levels: tuple[int, ...], numbers: int, width: int, outputs: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, 8) for count in levels)
        self.net = chain((8 * len(levels) + numbers, width, width, outputs), nn.ReLU)

    def forward(self, codes: Tensor, x: Tensor) -> Tensor:
        """(B, K) categories and (B, numbers) -> (B, outputs)."""
        parts = [table(codes[:, k]) for k, table in enumerate(self.tables)]
        found: Tensor = self.net(torch.cat([*parts, x], 1))
        return found


class Mixer(nn.Module):
    """Mixes the patches of an image, then their features, twice; one vector a patch at the end."""

    def __init__(self, patches: int, width: int, outputs: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, width, 7, 7)
        self.across = nn.ModuleList(nn.Linear(patches, patches) for _ in range(2))
        self.within = nn.ModuleList(chain((width, 2 * width, width), nn.GELU) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.head = nn.Linear(width, outputs)

    def forward(self, image: Tensor) -> Tensor:
        """(B, 1, 28, 28) -> (B, outputs)."""
        x = self.embed(image).flatten(2).transpose(1, 2)  # (B, patches, width)
        for k, (across, within) in enumerate(zip(self.across, self.within, strict=True)):
            x = x + across(self.norms[2 * k](x).transpose(1, 2)).transpose(1, 2)
            x = x + within(self.norms[2 * k + 1](x))
        found: Tensor = self.head(x.mean(1))
        return found


class Dilated(nn.Module):
    """Causal convolutions along a series whose reach doubles from layer to layer."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(width if k else inputs, width, 2, dilation=2**k) for k in range(4)
        )
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, inputs) -> (B, outputs)."""
        x = x.transpose(1, 2)
        for k, layer in enumerate(self.layers):
            x = nn.functional.leaky_relu(layer(nn.functional.pad(x, (2**k, 0))))
        found: Tensor = self.head(x[:, :, -1])
        return found


class Fourier(nn.Module):
    """x -> sines and cosines of fixed random frequencies."""

    def __init__(self, inputs: int, count: int, scale: float) -> None:
        super().__init__()
        self.frequencies: Tensor
        self.register_buffer("frequencies", scale * torch.randn(inputs, count))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) -> (B, 2 count)."""
        angles = x @ self.frequencies
        return torch.cat([angles.sin(), angles.cos()], 1)


class Gated(nn.Module):
    """Experts of one hidden layer, added with weights that a gate gives them row by row."""

    def __init__(self, inputs: int, experts: int, width: int, outputs: int) -> None:
        super().__init__()
        self.gate = nn.Linear(inputs, experts)
        self.experts = nn.ModuleList(
            chain((inputs, width, outputs), nn.ReLU) for _ in range(experts)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs)."""
        answers = torch.stack([expert(x) for expert in self.experts], 2)
        found: Tensor = (answers * self.gate(x).softmax(1)[:, None]).sum(2)
        return found


class SkipAutoencoder(nn.Module):
    """Convolutions down and up again, with a shortcut past the narrow part."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, channels, 4, 4)
        self.narrow = nn.Conv2d(channels, 2 * channels, 3, 2, 1)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 3, 2)
        self.last = nn.ConvTranspose2d(2 * channels, 1, 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, 28, 28) -> (B, 1, 28, 28)."""
        coarse = torch.tanh(self.down(x))  # (B, channels, 7, 7)
        back = nn.functional.gelu(self.up(nn.functional.gelu(self.narrow(coarse)))[..., :7, :7])
        pooled = nn.functional.avg_pool2d(coarse, 7).expand_as(coarse)
        found: Tensor = self.last(torch.cat([back, pooled], 1))
        return found


class Multiplied(nn.Module):
    """Hidden layers whose units are products of a linear part and a gate (SwiGLU)."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        sides = ((inputs, width), (width, width))
        self.values = nn.ModuleList(nn.Linear(*side) for side in sides)
        self.gates = nn.ModuleList(nn.Linear(*side) for side in sides)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs)."""
        for value, gate in zip(self.values, self.gates, strict=True):
            x = value(x) * nn.functional.silu(gate(x))
        found: Tensor = self.head(x)
        return found


class PooledSet(nn.Module):
    """A net for each point of a set, the mean and the largest over the points, another net."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.point = chain((inputs, width, width), nn.ReLU)
        self.whole = chain((2 * width, width, outputs), nn.ReLU)

    def forward(self, points: Tensor) -> Tensor:
        """(B, K, inputs) -> (B, outputs), whatever the order of the K points."""
        each = self.point(points)
        found: Tensor = self.whole(torch.cat([each.mean(1), each.amax(1)], 1))
        return found


class Operator(nn.Module):
    """A function given by its values, and a place: the inner product of what two nets make of them.

    The form of DeepONet.
    """

    def __init__(self, values: int, width: int) -> None:
        super().__init__()
        self.branch = chain((values, width, width), nn.Tanh)
        self.trunk = chain((1, width, width, width), nn.Tanh)

    def forward(self, values: Tensor, place: Tensor) -> Tensor:
        """(B, values) and (B, 1) -> (B, 1)."""
        found: Tensor = (self.branch(values) * self.trunk(place)).sum(1, keepdim=True)
        return found


def chain(widths: tuple[int, ...], activation: Callable[[], nn.Module]) -> nn.Sequential:
    """Linear layers with an activation between each two."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def series(net: Callable[[int, int, int], nn.Module], seed: int, *, p: float = 1.0) -> Instance:
    """Four coupled oscillations with noise: 24 steps seen, 6 predicted; 15 % of targets wrong."""
    generator = torch.Generator().manual_seed(seed)
    n, seen, ahead = 6_000, 24, 6
    time = torch.arange(seen + ahead, dtype=torch.float32)
    rate = 0.1 + 0.5 * torch.rand(n, 1, 4, generator=generator)
    phase = 6.3 * torch.rand(n, 1, 4, generator=generator)
    drift = 0.02 * torch.randn(n, 1, 4, generator=generator)
    clock = time[None, :, None]
    paths = torch.sin(rate * clock + phase) + drift * clock
    paths = paths + 0.5 * paths.roll(1, 2) * paths.roll(2, 2)
    paths = paths + 0.05 * torch.randn(paths.shape, generator=generator)
    x, y = paths[:, :seen].contiguous(), paths[:, seen:].flatten(1).contiguous()
    return corrupted(net(4, seen, 4 * ahead), (x, y), 0.15, seed, p=p)


def image(net: nn.Module, seed: int) -> Instance:
    """Coordinates to colours of a picture of 128 x 128 with edges and texture; 20 % wrong."""
    line = torch.linspace(-1, 1, 128)
    v, u = torch.meshgrid(line, line, indexing="ij")
    place = torch.stack([u, v], -1).reshape(-1, 2)
    ring = (u.square() + v.square() < 0.4).float()
    stripes = torch.sin(25 * u + 10 * v * v)
    colours = torch.stack([ring * stripes, torch.sin(8 * u * v), ring - 0.5 * (v > u).float()], -1)
    return corrupted(net, (place, colours.reshape(-1, 3)), 0.2, seed)


def sine_net_start(net: nn.Sequential, frequency: float) -> nn.Sequential:
    """The start that nets of sines need: uniform, as wide as the frequency and the inputs say."""
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for number, layer in enumerate(linear):
            inputs = layer.in_features
            bound = 1 / inputs if number == 0 else math.sqrt(6 / inputs) / frequency
            layer.weight.uniform_(-bound, bound)
    return net


def sine_image(seed: int) -> Instance:
    """`image` by a net of sines."""
    torch.manual_seed(seed)
    net = chain((2, 96, 96, 96, 96, 3), lambda: Sine(20.0))
    return image(sine_net_start(net, 20.0), seed)


def teacher_table(
    net: nn.Module, n: int, inputs: int, outputs: int, seed: int, *, p: float = 1.0
) -> Instance:
    """Rows of a random two-layer function with noise; 20 % of the targets wrong."""
    generator = torch.Generator().manual_seed(100 + seed)
    x = torch.randn(n, inputs, generator=generator)
    first = torch.randn(inputs, 3 * outputs, generator=generator) / math.sqrt(inputs)
    second = torch.randn(3 * outputs, outputs, generator=generator) / math.sqrt(3 * outputs)
    y = torch.sin(2 * x @ first) @ second + 0.5 * (x[:, :outputs] * x[:, outputs : 2 * outputs])
    y = y + 0.1 * torch.randn(y.shape, generator=generator)
    return corrupted(net, (x, y), 0.2, seed, p=p)


def category_table(seed: int) -> Instance:
    """Four categories of up to 200 levels and six numbers; 10 % of the targets wrong."""
    generator = torch.Generator().manual_seed(200 + seed)
    levels, n = (200, 50, 20, 5), 20_000
    codes = torch.stack([torch.randint(k, (n,), generator=generator) for k in levels], 1)
    x = torch.randn(n, 6, generator=generator)
    effects = [torch.randn(k, 6, generator=generator) for k in levels]
    mixed = torch.stack([e[codes[:, k]] for k, e in enumerate(effects)], 0)
    y = torch.stack([(mixed[0] * x).sum(1), torch.sin(mixed[1:].sum((0, 2))), mixed[1, :, 0]], 1)
    y = y + 0.1 * torch.randn(y.shape, generator=generator)
    dirty, mask = add_outliers(y, 0.1, "text", seed=seed)
    torch.manual_seed(seed)
    net = Categories(levels, 6, 64, 3)

    def residual(module: nn.Module, codes: Tensor, x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = module(codes, x) - y
        return found

    problem = Problem(net, (codes, x, dirty), 1.0, residual=residual, regularizer=RIDGE)
    return problem, ~mask


def burgers(seed: int) -> Instance:
    """A physics-informed net: u_t + u u_x = 0.02 u_xx on points, and what is known at the edge."""
    generator = torch.Generator().manual_seed(300 + seed)
    inside = torch.rand(6_000, 2, generator=generator) * torch.tensor([2.0, 1.0]) - torch.tensor(
        [1.0, 0.0]
    )
    begin = torch.stack([2 * torch.rand(2_000, generator=generator) - 1, torch.zeros(2_000)], 1)
    place = torch.cat([inside, begin])
    known = torch.cat([torch.zeros(6_000), -torch.sin(math.pi * begin[:, 0])]).unsqueeze(1)
    kind = torch.cat([torch.zeros(6_000), torch.ones(2_000)]).unsqueeze(1)
    torch.manual_seed(seed)
    net = chain((2, 40, 40, 40, 40, 1), nn.Tanh)

    def residual(module: nn.Module, place: Tensor, known: Tensor, kind: Tensor) -> Tensor:
        with torch.enable_grad():
            at = place.detach().requires_grad_(True)
            u = module(at)
            (slope,) = torch.autograd.grad(u.sum(), at, create_graph=True)
            (second,) = torch.autograd.grad(slope[:, 0].sum(), at, create_graph=True)
        physics = slope[:, 1:] + u * slope[:, :1] - 0.02 * second[:, :1]
        return torch.cat([(1 - kind) * physics, 3 * kind * (u - known)], 1)

    data = (place, known, kind)
    return Problem(net, data, 1.0, residual=residual, regularizer=Ridge(1e-6)), None


def sets(seed: int) -> Instance:
    """Clouds of 16 points to their centre, spread and farthest point; 20 % wrong."""
    generator = torch.Generator().manual_seed(500 + seed)
    centre = torch.randn(8_000, 1, 3, generator=generator)
    spread = 0.2 + torch.rand(8_000, 1, 3, generator=generator)
    points = centre + spread * torch.randn(8_000, 16, 3, generator=generator)
    far = points.norm(dim=2).amax(1, keepdim=True)
    y = torch.cat([centre[:, 0], spread[:, 0], far], 1)
    torch.manual_seed(seed)
    return corrupted(PooledSet(3, 48, 7), (points, y), 0.2, seed)


def integrals(seed: int) -> Instance:
    """A random function's values and a place to its integral up to there; 15 % wrong."""
    generator = torch.Generator().manual_seed(600 + seed)
    n, terms = 20_000, 6
    weights = torch.randn(n, terms, generator=generator) / torch.arange(1, terms + 1)
    rates = math.pi * torch.arange(1, terms + 1)
    values = weights @ torch.sin(rates[:, None] * torch.linspace(0, 1, 40))
    place = torch.rand(n, 1, generator=generator)
    integral = (weights * (1 - torch.cos(rates * place)) / rates).sum(1, keepdim=True)
    dirty, mask = add_outliers(integral, 0.15, "text", seed=seed)
    torch.manual_seed(seed)

    def residual(module: nn.Module, values: Tensor, place: Tensor, y: Tensor) -> Tensor:
        found: Tensor = module(values, place) - y
        return found

    data = (values, place, dirty)
    return Problem(Operator(40, 48), data, 1.0, residual=residual, regularizer=RIDGE), ~mask


def corrupted(
    net: nn.Module, data: tuple[Tensor, Tensor], ratio: float, seed: int, *, p: float = 1.0
) -> Instance:
    """The net on rows and targets, a share of which is wrong."""
    dirty, mask = add_outliers(data[1], ratio, "text", seed=seed)
    return Problem(net, (data[0], dirty), p, regularizer=RIDGE), ~mask
