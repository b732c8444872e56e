"""Nets kept aside: no setting of `probed` was chosen while looking at them.

Data of their own, too: paths of a pendulum, a process on a graph, clouds of points.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from benchmarks.architectures import Instance, chain, corrupted


class SeriesUNet(nn.Module):
    """Convolutions along a series, coarser and finer again, with a shortcut past the coarse."""

    def __init__(self, inputs: int, steps: int, outputs: int, width: int = 24) -> None:
        super().__init__()
        self.first = nn.Conv1d(inputs, width, 5, padding=2)
        self.coarse = nn.Conv1d(width, 2 * width, 5, 2, 2)
        self.back = nn.ConvTranspose1d(2 * width, width, 4, 2, 1)
        self.head = nn.Linear(2 * width * steps, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, inputs) -> (B, outputs), T even."""
        fine = torch.relu(self.first(x.transpose(1, 2)))
        back = torch.relu(self.back(torch.relu(self.coarse(fine))))
        found: Tensor = self.head(torch.cat([fine, back], 1).flatten(1))
        return found


class Highway(nn.Module):
    """Layers that mix what they make of their input with the input itself, by a gate."""

    def __init__(self, inputs: int, width: int, depth: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.new = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) -> (B, outputs)."""
        x = self.first(x)
        for new, gate in zip(self.new, self.gates, strict=True):
            x = torch.lerp(x, torch.tanh(new(x)), torch.sigmoid(gate(x)))
        found: Tensor = self.head(x)
        return found


class GraphNet(nn.Module):
    """Three rounds in which every node of a graph hears the mean of its neighbours."""

    links: Tensor  # (K, K), rows sum to 1

    def __init__(self, links: Tensor, inputs: int, width: int) -> None:
        super().__init__()
        self.register_buffer("links", links)
        sides = ((inputs, width), (width, width), (width, width))
        self.own = nn.ModuleList(nn.Linear(*side) for side in sides)
        self.heard = nn.ModuleList(nn.Linear(*side, bias=False) for side in sides)
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, K, inputs) -> (B, K), a number a node."""
        for own, heard in zip(self.own, self.heard, strict=True):
            x = nn.functional.gelu(own(x) + heard(self.links @ x))
        found: Tensor = self.head(x).squeeze(-1)
        return found


class Flow(nn.Module):
    """Where a learnt differential equation leads to: midpoint steps of a small net."""

    def __init__(self, inputs: int, width: int, steps: int) -> None:
        super().__init__()
        self.speed = chain((inputs, width, width, inputs), nn.Tanh)
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) -> (B, inputs)."""
        for _ in range(self.steps):
            x = x + self.speed(x + self.speed(x) / (2 * self.steps)) / self.steps
        return x


class Queries(nn.Module):
    """Learnt queries look at the points of a set, as in Perceiver; a net sees what they saw."""

    def __init__(self, inputs: int, width: int, queries: int, outputs: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(queries, width) / math.sqrt(width))
        self.point = nn.Linear(inputs, width)
        self.look = nn.MultiheadAttention(width, 4, batch_first=True)
        self.whole = chain((queries * width, 64, outputs), nn.SiLU)

    def forward(self, points: Tensor) -> Tensor:
        """(B, K, inputs) -> (B, outputs), whatever the order of the K points."""
        seen = nn.functional.silu(self.point(points))
        asked = self.queries.expand(len(points), -1, -1)
        found: Tensor = self.whole(self.look(asked, seen, seen, need_weights=False)[0].flatten(1))
        return found


class PoolingAutoencoder(nn.Sequential):
    """Convolutions with pooling, and with repeated pixels on the way back."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            nn.Conv2d(1, channels, 3, padding=1), nn.LeakyReLU(0.1), nn.MaxPool2d(2),
            nn.Conv2d(channels, 8, 3, padding=1), nn.LeakyReLU(0.1), nn.MaxPool2d(2),
            nn.Conv2d(8, channels, 3, padding=1), nn.LeakyReLU(0.1), nn.Upsample(scale_factor=2),
            nn.Conv2d(channels, channels, 3, padding=1), nn.LeakyReLU(0.1),
            nn.Upsample(scale_factor=2), nn.Conv2d(channels, 1, 3, padding=1),
        )  # fmt: skip


def graph(seed: int) -> Instance:
    """Numbers on 30 nodes to what a bent diffusion makes of them; 15 % wrong."""
    generator = torch.Generator().manual_seed(700 + seed)
    near = (torch.rand(30, 30, generator=generator) < 0.12).float()
    near = ((near + near.T).clamp_max(1) + torch.eye(30)).clamp_max(1)
    links = near / near.sum(1, keepdim=True)
    x = torch.randn(5_000, 30, 3, generator=generator)
    y = torch.tanh(links @ (x[..., 0] * x[..., 1]).unsqueeze(-1) * 2).squeeze(-1)
    y = (links @ (y + x[..., 2].sin()).unsqueeze(-1)).squeeze(-1)
    y = y + 0.02 * torch.randn(y.shape, generator=generator)
    torch.manual_seed(seed)
    return corrupted(GraphNet(links, 3, 32), (x, y), 0.15, seed)


def pendulum(seed: int) -> Instance:
    """Where two coupled pendulums stand a second later; 10 % wrong."""
    generator = torch.Generator().manual_seed(800 + seed)
    start = 2 * torch.randn(10_000, 4, generator=generator)
    place, speed = start[:, :2], start[:, 2:]
    for _ in range(200):
        speed = speed - 0.005 * (3 * place.sin() + 2 * (place - place.flip(1)) + 0.1 * speed)
        place = place + 0.005 * speed
    end = torch.cat([place, speed], 1)
    torch.manual_seed(seed)
    return corrupted(Flow(4, 48, 6), (start, end), 0.1, seed, p=2.0)


def clouds(seed: int) -> Instance:
    """Clouds of 20 points from two groups to the centres of both, left one first; 20 % wrong."""
    generator = torch.Generator().manual_seed(900 + seed)
    centres = torch.randn(8_000, 2, 2, generator=generator)
    centres = centres.gather(1, centres[..., :1].argsort(1).expand(-1, -1, 2))
    group = torch.randint(2, (8_000, 20, 1), generator=generator).expand(-1, -1, 2)
    points = centres.gather(1, group) + 0.2 * torch.randn(8_000, 20, 2, generator=generator)
    torch.manual_seed(seed)
    return corrupted(Queries(2, 32, 4, 4), (points, centres.flatten(1)), 0.2, seed, p=1.5)
