"""Which positions of a convolution's input each output reaches, one spatial axis at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)

# Above this many entries the map between two windows costs more as a matrix than as a convolution.
_LARGEST_MATRIX = 2**17

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_CONV_TRANSPOSE = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


@dataclass(frozen=True)
class Reach:
    """Output q = 0, ..., count - 1 reaches the positions start + step * q + [0, size)."""

    start: int
    step: int
    size: int
    count: int

    @property
    def span(self) -> int:
        """The number of positions from the first one reached to the last."""
        return self.step * (self.count - 1) + self.size

    def inside(self, positions: int) -> bool:
        """Whether every position reached exists."""
        return self.start >= 0 and self.start + self.span <= positions

    def part(self, first: int, count: int) -> Reach:
        """The reach of the outputs first, ..., first + count - 1 alone."""
        return Reach(self.start + self.step * first, self.step, self.size, count)


@dataclass(frozen=True)
class Axis:
    """One axis of a convolution: tap t joins input i and output o.

    i = o * stride - padding + t * dilation, or with the roles of i and o exchanged if transposed.
    """

    kernel: int
    stride: int
    padding: int
    dilation: int
    size_in: int
    size_out: int
    transposed: bool

    @property
    def extent(self) -> int:
        """The distance from the first tap to the last, plus one."""
        return (self.kernel - 1) * self.dilation + 1

    def behind(self, near: Reach) -> Reach:
        """The reach at the input of what `near` reaches at the output."""
        if not self.transposed:
            return Reach(
                near.start * self.stride - self.padding,
                near.step * self.stride,
                (near.size - 1) * self.stride + self.extent,
                near.count,
            )
        # Outputs come in arithmetic progressions whose step every such stride divides.
        first = -((self.extent - 1 - near.start - self.padding) // self.stride)
        last = (near.start + near.size - 1 + self.padding) // self.stride
        return Reach(first, near.step // self.stride, max(0, last - first + 1), near.count)

    def widest(self, size: int) -> int:
        """The most positions at the input that any window of `size` positions reaches."""
        if self.transposed:
            return (size + self.extent - 2) // self.stride + 1
        return (size - 1) * self.stride + self.extent

    def sources(self, first: int, length: int) -> Tensor:
        """(length, kernel): the input that each tap joins to output `first + row`.

        Where there is none the entry is size_in, the place of an appended zero.
        """
        outputs = torch.arange(first, first + length)[:, None]
        taps = torch.arange(self.kernel) * self.dilation
        if self.transposed:
            scaled = outputs + self.padding - taps
            inputs = scaled.div(self.stride, rounding_mode="floor")
            exists = scaled % self.stride == 0
        else:
            inputs = outputs * self.stride - self.padding + taps
            exists = torch.ones_like(inputs, dtype=torch.bool)
        exists &= (inputs >= 0) & (inputs < self.size_in)
        exists &= (outputs >= 0) & (outputs < self.size_out)
        return inputs.where(exists, self.size_in)

    def lead(self, near: Reach, far: Reach) -> int:
        """The distance from the first fine position to what tap 0 joins to the first coarse one."""
        coarse, fine = (far, near) if self.transposed else (near, far)
        return fine.start - coarse.start * self.stride + self.padding

    def taps(self, near: Reach, far: Reach) -> Tensor:
        """(near.size, far.size): the tap that joins the two positions, `kernel` where none does."""
        outputs, inputs = torch.arange(near.size)[:, None], torch.arange(far.size)
        coarse, fine = (inputs, outputs) if self.transposed else (outputs, inputs)
        scaled = self.lead(near, far) + fine - coarse * self.stride
        taps = scaled.div(self.dilation, rounding_mode="floor")
        exists = (scaled % self.dilation == 0) & (taps >= 0) & (taps < self.kernel)
        return taps.where(exists, self.kernel)


@dataclass(frozen=True)
class Convolution:
    """A convolution or transposed convolution between maps of known sizes."""

    axes: tuple[Axis, ...]
    groups: int
    channels_in: int
    channels_out: int
    transposed: bool

    @classmethod
    def of(cls, layer: nn.Module, size_in: torch.Size, size_out: torch.Size) -> Convolution:
        """Read the geometry off a layer and the spatial sizes at its two ends."""
        assert isinstance(layer, CONVOLUTIONS + TRANSPOSED)
        transposed = isinstance(layer, TRANSPOSED)
        axes = []
        for n, kernel in enumerate(layer.kernel_size):
            dilation = layer.dilation[n]
            if layer.padding == "same":
                padding = dilation * (kernel - 1) // 2
            else:
                padding = 0 if isinstance(layer.padding, str) else layer.padding[n]
            axes.append(
                Axis(
                    kernel, layer.stride[n], padding, dilation, size_in[n], size_out[n], transposed
                )
            )
        return cls(tuple(axes), layer.groups, layer.in_channels, layer.out_channels, transposed)

    @property
    def positions_in(self) -> tuple[int, ...]:
        """The spatial size of the input."""
        return tuple(axis.size_in for axis in self.axes)

    @property
    def positions_out(self) -> tuple[int, ...]:
        """The spatial size of the output."""
        return tuple(axis.size_out for axis in self.axes)

    @property
    def kernel(self) -> tuple[int, ...]:
        """The number of taps along each axis."""
        return tuple(axis.kernel for axis in self.axes)

    def behind(self, near: tuple[Reach, ...]) -> tuple[Reach, ...]:
        """The reach at the input of what `near` reaches at the output."""
        return tuple(axis.behind(reach) for axis, reach in zip(self.axes, near, strict=True))

    def table(self, near: tuple[Reach, ...]) -> Tensor:
        """Where `unfold` finds its entries in a flat row of the input, with a zero appended."""
        end = prod(self.positions_in)
        places, exists = torch.zeros(1, dtype=torch.long), torch.ones(1, dtype=torch.bool)
        for n, (axis, reach) in enumerate(zip(self.axes, near, strict=True)):
            sources = axis.sources(reach.start, reach.span)
            shape = [1] * (2 * len(self.axes))
            shape[n], shape[len(self.axes) + n] = sources.shape
            places = places * axis.size_in + sources.view(shape)
            exists = exists & (sources < axis.size_in).view(shape)
        channels = torch.arange(self.channels_in).view(-1, *(1 for _ in self.axes)) * end
        dims = len(self.axes)
        places, exists = places.unsqueeze(dims), exists.unsqueeze(dims)
        table = (places + channels).where(exists, self.channels_in * end)
        return table.flatten().to(torch.int32)

    def unfold(self, x: Tensor, near: tuple[Reach, ...], table: Tensor) -> Spread:
        """(B, *spans, C_in * taps): for each output position in the spans, the inputs it sees."""
        flat = functional.pad(x.flatten(1), (0, 1))
        seen = flat.index_select(1, table)
        return Spread(seen.view(len(x), *(reach.span for reach in near), -1), near)

    def matrix(self, weight: Tensor, near: tuple[Reach, ...], far: tuple[Reach, ...]) -> Tensor:
        """The map from sensitivities on `near` (S, C_out) to those on `far` (S', C_in), one group.

        It is the same for every output because the reaches move in step.
        """
        dims = len(self.axes)
        table = functional.pad(weight.transpose(0, 1) if self.transposed else weight, (0, 1) * dims)
        shape = [self.channels_out, self.channels_in]
        for n, axis in enumerate(self.axes):
            taps = axis.taps(near[n], far[n]).to(weight.device)
            table = table.index_select(2 + n, taps.reshape(-1))
            shape += [near[n].size, far[n].size]
        nears, fars = range(2, 2 + 2 * dims, 2), range(3, 3 + 2 * dims, 2)
        table = table.reshape(shape).permute(*nears, 0, *fars, 1)
        return table.reshape(-1, table.shape[1 + dims :].numel())

    def matrix_entries(self, near: Sequence[int]) -> int:
        """The size of `matrix` for windows of the given sizes; 0 if a convolution is cheaper."""
        far = [axis.widest(size) for axis, size in zip(self.axes, near, strict=True)]
        entries = self.channels_in * prod(far) * self.channels_out * prod(near)
        return entries if self.groups == 1 and entries <= _LARGEST_MATRIX else 0

    def pull(
        self, values: Tensor, weight: Tensor, near: tuple[Reach, ...], far: tuple[Reach, ...]
    ) -> Tensor:
        """(M, C_out, *near sizes) -> (M, C_in, *far sizes): the adjoint of the convolution."""
        dims = len(self.axes)
        stride = tuple(axis.stride for axis in self.axes)
        dilation = tuple(axis.dilation for axis in self.axes)
        pads: list[int] = []
        if self.transposed:
            for axis, out, into in reversed(list(zip(self.axes, near, far, strict=True))):
                lead = axis.lead(out, into)
                needed = (into.size - 1) * axis.stride + axis.extent
                pads += [lead, needed - lead - out.size]
            padded = _moved(values, pads)
            return _CONV[dims](padded, weight, None, stride, 0, dilation, self.groups)
        full = _CONV_TRANSPOSE[dims](values, weight, None, stride, 0, 0, self.groups, dilation)
        for axis, out, into in reversed(list(zip(self.axes, near, far, strict=True))):
            lead = axis.lead(out, into)
            pads += [-lead, into.size + lead - (out.size - 1) * axis.stride - axis.extent]
        return _moved(full, pads)


@dataclass(frozen=True)
class Spread:
    """Values at every position that any output reaches, made once and looked at through windows."""

    values: Tensor  # (B, *spans of the hull, F)
    hull: tuple[Reach, ...]

    @classmethod
    def of(cls, maps: Tensor, hull: tuple[Reach, ...], positions: tuple[int, ...]) -> Spread:
        """Spread (B, C, *positions), zero where there is no position."""
        pads: list[int] = []
        for reach, size in reversed(list(zip(hull, positions, strict=True))):
            pads += [-reach.start, reach.start + reach.span - size]
        return cls(_moved(maps, pads).movedim(1, -1).contiguous(), hull)

    def windows(self, reaches: tuple[Reach, ...]) -> Tensor:
        """(B, *counts, *sizes, F): a view of what each output reaches."""
        view = self.values
        for n, (reach, hull) in enumerate(zip(reaches, self.hull, strict=True)):
            view = view.narrow(1 + n, reach.start - hull.start, reach.span)
            # A single output leaves the step unused, and a step of 0 is not allowed.
            view = view.unfold(1 + n, reach.size, max(1, reach.step))
        return view.movedim(1 + len(reaches), -1)


def _moved(values: Tensor, pads: list[int]) -> Tensor:
    """Grow, then cut: of a window wholly in the padding, cutting first would leave nothing."""
    if min(pads) < 0 < max(pads):
        values = functional.pad(values, [max(pad, 0) for pad in pads])
        pads = [min(pad, 0) for pad in pads]
    return functional.pad(values, pads)


def everywhere(positions: tuple[int, ...]) -> tuple[Reach, ...]:
    """The reach of one output that reaches every position."""
    return tuple(Reach(0, 0, size, 1) for size in positions)
