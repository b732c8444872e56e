"""dF_o / d(values after a stage) for many outputs o at once, and its way back through the stages.

Two forms. An output of a convolution reaches a small window of each earlier map, so that all else
is zero and not stored. Behind a linear layer, and where windows have grown large, everything is
stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Size, Tensor

from proxlin.linearize.layerwise.geometry import Convolution, Reach, Spread, everywhere


@dataclass(frozen=True)
class Windowed:
    """dF_o/dx on the window of x that output o reaches."""

    values: Tensor  # (B, *counts, channels of o, *window, C)
    reaches: tuple[Reach, ...]
    hull: tuple[Reach, ...]  # what the outputs reach together, those of other tiles included
    positions: tuple[int, ...]  # the spatial size of x
    clean: bool = True  # whether entries at positions that do not exist are zero

    @classmethod
    def start(cls, diagonal: Spread, tile: tuple[Reach, ...]) -> Windowed:
        """dF_o/dx_o on windows of one position, for the outputs of a tile."""
        positions = tuple(reach.size for reach in diagonal.hull)
        own = torch.diag_embed(diagonal.windows(tile).flatten(1 + len(tile)))
        shape = (*own.shape[:-1], *(1 for _ in tile), own.shape[-1])
        return cls(own.view(shape), tile, diagonal.hull, positions)

    def scaled(self, slope: Spread) -> Windowed:
        """Through an activation; slopes outside the map are zero, which cleans the windows."""
        values = self.values.mul_(slope.windows(self.reaches).unsqueeze(1 + len(self.reaches)))
        return replace(self, values=values, clean=True)

    def cleaned(self) -> Windowed:
        """Zero at positions that do not exist."""
        if self.clean:
            return self
        ones = self.values.new_ones(1, 1, *self.positions)
        return self.scaled(Spread.of(ones, self.hull, self.positions))

    def bias_rows(self) -> Tensor:
        """(B, Q, O, C): dF_o/db of the convolution whose output x is."""
        dims = len(self.reaches)
        return self.values.flatten(2 + dims, 1 + 2 * dims).sum(2 + dims).flatten(1, dims)

    def weight_rows(self, conv: Convolution, seen: Spread) -> Tensor:
        """(B, Q, O, *weight): dF_o/dW of the convolution whose output x is."""
        dims, groups = len(self.reaches), conv.groups
        batch, channels = self.values.shape[0], self.values.shape[1 + dims]
        rows = self.values.shape[: 1 + dims].numel()
        view = seen.windows(self.reaches)
        size = view.shape[1 + dims : -1].numel()
        # A copy in which each output has its own matrix: positions times what they see.
        inputs = view.reshape(rows, size, groups, -1).transpose(1, 2)
        values = self.values.reshape(rows, channels, size, groups, -1).permute(0, 3, 1, 4, 2)
        values = values.reshape(rows * groups, -1, size)
        product = _matmul(values, inputs.flatten(0, 1))
        shape = (batch, -1, groups, channels, product.shape[1] // channels, product.shape[2])
        return _as_weight(product.view(shape).transpose(2, 3), conv)

    def behind(self, conv: Convolution, weight: Tensor, matrix: Tensor | None) -> Windowed:
        """Through the convolution whose output x is, to its input; the matrix does the same."""
        dims, near = len(self.reaches), self.reaches
        far = conv.behind(near)
        lead = self.values.shape[: 2 + dims]
        if matrix is None:
            maps = self.values.flatten(0, 1 + dims).movedim(-1, 1)
            pulled = conv.pull(maps, weight, near, far).movedim(1, -1)
        else:
            pulled = self.values.reshape(lead.numel(), -1) @ matrix
        return Windowed(
            pulled.reshape(*lead, *(reach.size for reach in far), conv.channels_in),
            far,
            conv.behind(self.hull),
            conv.positions_in,
            all(reach.inside(axis.size_in) for reach, axis in zip(far, conv.axes, strict=True)),
        )

    def dense(self) -> Dense:
        """The same with all its zeros."""
        dims = len(self.reaches)
        padding = [
            (max(0, -r.start), max(0, r.start + r.span - size))
            for r, size in zip(self.reaches, self.positions, strict=True)
        ]
        padded = [a + size + b for (a, b), size in zip(padding, self.positions, strict=True)]
        lead, channels = self.values.shape[: 2 + dims], self.values.shape[-1]
        full = self.values.new_zeros(*lead, *padded, channels)
        strides = list(full.stride())
        offset = 0
        for n, reach in enumerate(self.reaches):
            # The next output along an axis writes into its own map, one step further.
            offset += (padding[n][0] + reach.start) * strides[2 + dims + n]
            strides[1 + n] += reach.step * strides[2 + dims + n]
        full.as_strided(self.values.shape, strides, offset).copy_(self.values)
        for n, ((before, _), size) in enumerate(zip(padding, self.positions, strict=True)):
            full = full.narrow(2 + dims + n, before, size)
        return Dense(full.movedim(-1, 2 + dims).flatten(1, dims))


@dataclass(frozen=True)
class Dense:
    """dF_o/dx for all of x."""

    values: Tensor  # (B, Q, O, *shape of x): O channels at Q positions of the output

    def scaled(self, slope: Tensor) -> Dense:
        """Through an activation."""
        return Dense(self.values * slope[:, None, None])

    def cleaned(self) -> Dense:
        """Nothing to clean: every entry is at a position that exists."""
        return self

    def reshaped(self, shape: Size) -> Dense:
        """Through a reshape, to the shape before it."""
        return Dense(self.values.reshape(*self.values.shape[:3], *shape))

    def linear_bias_rows(self) -> Tensor:
        """(B, Q, O, C_out): dF_o/db of a linear layer, which acts on the last dimension."""
        return self.values.flatten(3, -2).sum(3) if self.values.ndim > 4 else self.values

    def linear_weight_rows(self, x: Tensor) -> Tensor:
        """(B, Q, O, C_out, C_in): dF_o/dW of a linear layer."""
        if x.ndim == 2:
            return self.values.unsqueeze(-1) * x[:, None, None, None, :]
        flat = self.values.flatten(3, -2).transpose(3, 4)
        rows = torch.bmm(flat.flatten(1, 3), x.flatten(1, -2))
        return rows.view(*flat.shape[:4], -1)

    def behind_linear(self, weight: Tensor) -> Dense:
        """Through a linear layer, to its input."""
        return Dense(self.values @ weight)

    def bias_rows(self) -> Tensor:
        """(B, Q, O, C): dF_o/db of the convolution whose output x is."""
        return self.values.flatten(4).sum(4)

    def weight_rows(self, conv: Convolution, seen: Spread) -> Tensor:
        """(B, Q, O, *weight): dF_o/dW of the convolution whose output x is."""
        batch, groups, outputs = len(self.values), conv.groups, self.values.shape[1:3]
        inputs = seen.values.flatten(1, -2)
        inputs = inputs.view(batch, inputs.shape[1], groups, -1).transpose(1, 2).flatten(0, 1)
        values = self.values.reshape(batch, outputs.numel(), groups, -1, inputs.shape[1])
        values = values.transpose(1, 2).reshape(batch * groups, -1, inputs.shape[1])
        product = torch.bmm(values, inputs)
        product = product.view(batch, groups, *outputs, -1, inputs.shape[2])
        return _as_weight(product.movedim(1, 3), conv)

    def behind(self, conv: Convolution, weight: Tensor) -> Dense:
        """Through the convolution whose output x is, to its input."""
        near, far = everywhere(conv.positions_out), everywhere(conv.positions_in)
        pulled = conv.pull(self.values.flatten(0, 2), weight, near, far)
        return Dense(torch.unflatten(pulled, 0, self.values.shape[:3]))


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    """Matrix products of a batch; outer products are faster entry by entry."""
    return left * right if left.shape[2] == 1 else torch.bmm(left, right)


def _as_weight(product: Tensor, conv: Convolution) -> Tensor:
    """(B, Q, O, groups, C_out/groups, C_in/groups * taps) -> the weight's order, still split."""
    split = torch.unflatten(product, -1, (conv.channels_in // conv.groups, *conv.kernel))
    return split.transpose(4, 5) if conv.transposed else split
