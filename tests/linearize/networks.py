"""Modules to linearise: the name, a maker, the shape of one input."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Autoencoder(nn.Module):
    """Encoder and decoder as children, as users write it."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(4, 8, 3), nn.Softplus(), nn.ConvTranspose2d(8, 1, 3), nn.Softplus()
        )
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.Softplus(), nn.Conv2d(8, 4, 3), nn.Softplus()
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


class Functional(nn.Module):
    """Activations and reshapes as functions and methods, and sizes read on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(18, 6)
        self.conv = nn.Conv2d(1, 2, 3, stride=2)
        self.unused_dropout = nn.Dropout(0.5)
        self.tail = nn.ConvTranspose1d(2, 3, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.size(0)
        x = functional.relu(self.conv(2 * x - 1), inplace=True)
        x = self.head(x.view(rows, -1)).tanh()
        x = functional.dropout(self.unused_dropout(x), 0.3, self.training)
        x = functional.gelu(self.tail(x.reshape(x.shape[0], 2, 3)))
        return torch.flatten(x, 1) / 3.0


class Selector(nn.Linear):
    """A layer of torch with a method more."""

    def size(self) -> Tensor:
        return self.weight.norm()


class Squared(nn.Linear):
    """A layer of torch that computes something else."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) ** 2


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(torch.tanh(self.first(x)))


class Gated(nn.Module):
    """Runs its children in order and gives their output, as long as the gate is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) + self.gate * x


class Shared(nn.Module):
    """One layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(x)))


def tied() -> nn.Module:
    """Two layers with one weight."""
    network = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    network[2].weight = network[0].weight
    return network


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.attention(x, x, x, need_weights=False)[0])


class ByHand(nn.Module):
    """Attention written out."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return torch.softmax(scores / 2, dim=-1) @ self.value(x)


class Branches(nn.Module):
    """Control flow that depends on the values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        return x.sin() if x.sum() > 0 else x.cos()


def tables() -> nn.Module:
    """The net for tables: convolution, softplus, linear, softplus."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 280)), nn.Conv1d(1, 1, 3), nn.Softplus(), nn.Flatten(),
        nn.Linear(278, 16), nn.Softplus(),
    )  # fmt: skip


def bottleneck() -> nn.Module:
    """Convolutions on both sides of a few numbers."""
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2, padding=1), nn.SiLU(), nn.Conv2d(3, 4, 3, stride=2), nn.Tanh(),
        nn.Flatten(), nn.Linear(36, 3), nn.ELU(), nn.Linear(3, 36), nn.Unflatten(1, (4, 3, 3)),
        nn.ConvTranspose2d(4, 3, 3, stride=2), nn.Sigmoid(),
        nn.ConvTranspose2d(3, 1, 3, stride=2, padding=1, output_padding=1),
    )  # fmt: skip


def gaps_above_a_narrow_place() -> nn.Module:
    """Some outputs depend on nothing below, where the Jacobian is a product of two."""
    return nn.Sequential(
        nn.Conv1d(1, 3, 5), nn.Tanh(), nn.Conv1d(3, 2, 5, stride=10), nn.Flatten(),
        nn.Linear(12, 2), nn.Linear(2, 20), nn.Unflatten(1, (2, 10)),
        nn.ConvTranspose1d(2, 1, 2, stride=4),
    )  # fmt: skip


def stack(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def thin() -> nn.Module:
    """A transposed convolution that leaves gaps: some outputs are the bias alone."""
    return stack(nn.Conv1d(1, 2, 3), nn.Tanh(), nn.ConvTranspose1d(2, 2, 2, stride=4))


CHAINS = {
    "linear alone": (lambda: nn.Linear(4, 3), (4,)),
    "subclass of linear": (lambda: Selector(4, 3), (4,)),
    "subclass inside": (lambda: stack(nn.Linear(4, 3), nn.Tanh(), Selector(3, 2)), (4,)),
    "convolution alone": (lambda: nn.Conv2d(2, 3, 3), (2, 6, 5)),
    "mlp": (lambda: stack(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3), nn.LeakyReLU()), (5,)),
    "mlp over positions": (lambda: stack(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)), (6, 5)),
    "autoencoder": (Autoencoder, (1, 11, 10)),
    "tables": (tables, (280,)),
    "functional": (Functional, (1, 8, 8)),
    "bottleneck": (bottleneck, (1, 14, 14)),
    "gaps": (thin, (1, 9)),
    "gaps above a narrow place": (gaps_above_a_narrow_place, (1, 64)),
    "nested": (
        lambda: stack(stack(nn.Conv1d(2, 3, 3), stack(nn.ReLU())), nn.Flatten(), nn.Linear(18, 4)),
        (2, 8),
    ),
    "conv1d strided": (
        lambda: stack(nn.Conv1d(2, 4, 3, stride=2, padding=2), nn.Tanh(), nn.Conv1d(4, 3, 2)),
        (2, 17),
    ),
    "conv2d padded": (
        lambda: stack(nn.Conv2d(1, 2, 3, padding=1), nn.Softplus(), nn.Conv2d(2, 2, 5, padding=2)),
        (1, 16, 14),
    ),
    "no activation between padded layers": (
        lambda: stack(nn.Conv2d(1, 2, 3, padding=2), nn.Conv2d(2, 2, 3, padding=1, bias=False)),
        (1, 15, 14),
    ),
    "same padding": (
        lambda: stack(nn.Conv1d(1, 2, 4, padding="same", dilation=2), nn.Conv1d(2, 1, 3)),
        (1, 30),
    ),
    "dilated and grouped": (
        lambda: stack(
            nn.Conv2d(2, 4, 3, stride=(2, 1), groups=2), nn.Sigmoid(),
            nn.Conv2d(4, 4, (2, 3), dilation=(2, 3), groups=2, bias=False),
        ),
        (2, 19, 18),
    ),
    "transposed strided": (
        lambda: stack(
            nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2), nn.Tanh(),
            nn.ConvTranspose2d(4, 4, 3, stride=(3, 2), dilation=2, groups=2, bias=False),
        ),
        (2, 3, 2),
    ),
    "transposed 1d": (
        lambda: stack(
            nn.ConvTranspose1d(2, 3, 4, stride=3), nn.Tanh(), nn.ConvTranspose1d(3, 2, 3)
        ),
        (2, 12),
    ),
    "down and up": (
        lambda: stack(
            nn.Conv1d(1, 3, 3, stride=3), nn.ReLU(), nn.Dropout(0.9),
            nn.ConvTranspose1d(3, 2, 5, stride=3, padding=1), nn.Mish(),
            nn.Conv1d(2, 2, 3, padding=1),
        ),
        (1, 40),
    ),
    "convolution after linear": (
        lambda: stack(nn.Linear(6, 24), nn.Unflatten(1, (2, 3, 4)), nn.Conv2d(2, 3, 2), nn.Tanh()),
        (6,),
    ),
    "three dimensions": (
        lambda: stack(nn.Conv3d(1, 2, 2, padding=1), nn.Tanh(), nn.Conv3d(2, 1, 2)),
        (1, 6, 5, 4),
    ),
}  # fmt: skip

GENERAL = {
    "subclass with another forward": (lambda: stack(Squared(4, 3)), (4,)),
    "residual": (Residual, (5,)),
    "gate at zero": (Gated, (5,)),
    "shared": (Shared, (4,)),
    "tied": (tied, (4,)),
    "attention": (Attention, (3, 4)),
    "attention by hand": (ByHand, (3, 4)),
    "layer norm": (lambda: stack(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2)), (4,)),
    "group norm": (lambda: stack(nn.Conv1d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh()), (1, 7)),
    "circular": (lambda: stack(nn.Conv1d(1, 2, 3, padding=1, padding_mode="circular")), (1, 7)),
    "learned slope": (lambda: stack(nn.Linear(3, 3), nn.PReLU()), (3,)),
    "values decide": (Branches, (3,)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), (3,)),
    "row-mixing reshape": (
        lambda: stack(nn.Linear(4, 4), nn.Flatten(0), nn.Unflatten(0, (-1, 4))),
        (4,),
    ),
}  # fmt: skip
