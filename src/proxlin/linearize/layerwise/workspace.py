"""How much memory the Jacobian rows of a chain need beyond the result, before they are computed."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor

from proxlin.linearize.layerwise.chain import Activation
from proxlin.linearize.layerwise.chain_plan import ChainPlan, Part
from proxlin.linearize.layerwise.geometry import Reach, everywhere
from proxlin.linearize.torch_modes import unfolds

# Tiles of about this many bytes stay near the processor.
_COMFORTABLE = 2**24
# With fewer outputs at a time the calls cost more than the work.
_FEWEST = 64
_INDEX_BYTES = 2 * 8  # while a table of places is made, in whole numbers of 8 bytes


@dataclass
class Workspace:
    """Bytes on top of the result, estimated from above."""

    fixed: int = 0  # whatever the number of samples
    per_row: int = 0  # for each sample of a block
    per_output: int = 0  # for each sample and each output position of a tile

    @property
    def least(self) -> int:
        """What one output of one sample needs."""
        return self.fixed + self.per_row + self.per_output

    def block_sizes(self, rows: int, positions: int, max_bytes: int) -> tuple[int, int]:
        """How many samples a block and how many output positions a tile may have."""
        free = max_bytes - self.fixed
        tile_bytes = min(_COMFORTABLE, max(free // 2, free - self.per_row))
        at_once = max(1, tile_bytes // self.per_output)
        block = max(1, at_once // min(_FEWEST, positions))
        while block > 1 and block * self.per_row + tile_bytes > free:
            block -= 1
        block = min(block, rows)
        at_once = min(at_once, max(1, (free - block * self.per_row) // self.per_output))
        return block, max(1, at_once // block)


def workspace_of(plan: ChainPlan, part: Part, like: Tensor) -> Workspace:
    """Follow the way back through a part, and through those below, and add up what it holds."""
    patches = unfolds(like.dtype)
    needs = _Estimate(plan, like.element_size(), patches).part(part)
    # While the record is made, a layer's input, its output and a copy are held besides.
    widest = max(shape.numel() for shape in plan.shapes)
    kernels = [prod(conv.kernel) for conv in plan.convolutions.values()]
    copies = 3 + max(kernels, default=0) * patches
    needs.per_row += plan.bytes_per_row + copies * widest * like.element_size()
    return needs


@dataclass
class _Sensitivity:
    """The sizes of a sensitivity on its way back, for one channel of one output position."""

    window: list[int]
    hull: tuple[Reach, ...] | None  # None once everything is stored
    shape: tuple[int, ...]  # (channels, *positions) of the values, or any shape once all is stored

    @property
    def size(self) -> int:
        return prod(self.shape) if self.hull is None else self.shape[0] * prod(self.window)

    def open(self, shape: tuple[int, ...]) -> None:
        self.hull, self.shape = None, shape


@dataclass(frozen=True)
class _Estimate:
    plan: ChainPlan
    item: int  # bytes of a number
    unfolds: bool  # whether convolutions write out their patches

    def part(self, part: Part) -> Workspace:
        shapes = self.plan.shapes
        needs = self.part(part.below) if part.below else Workspace()
        if part.below:
            width = shapes[part.low].numel()
            weights = [n for n in self.plan.trained if n < part.low]
            size = sum(self.plan.parameters[n] + shapes[n + 1].numel() for n in weights)
            needs.per_row += (part.outputs * width + width * size) * self.item
            needs.per_row += part.outputs * max(self.plan.parameters.values()) * self.item
        channels = part.frame[0]
        state = _Sensitivity([1] * (len(part.frame) - 1), everywhere(part.frame[1:]), part.frame)
        most = 0
        for number in reversed(range(part.low, part.last + 1)):
            if number in self.plan.convolutions:
                most = max(most, self._convolution(number, part.turn, state, needs))
            elif number in self.plan.parameters:
                state.open(tuple(shapes[number + 1]))
                held, onward = state.size, shapes[number].numel()
                most = max(most, 2 * held + max(self.plan.parameters[number], onward))
                state.shape = tuple(shapes[number])
            elif isinstance(self.plan.chain.stages[number], Activation) and state.hull:
                needs.per_row += state.shape[0] * prod(r.span for r in state.hull) * self.item
            elif state.hull is None or self.plan.opens(number):
                state.open(tuple(shapes[number]))
            most = max(most, 3 * state.size)
        needs.per_output = max(needs.per_output, most * channels * self.item)
        return needs

    def _convolution(self, number: int, turn: int, state: _Sensitivity, needs: Workspace) -> int:
        """The most numbers that one output holds while it passes a convolution."""
        conv = self.plan.convolutions[number]
        taps = conv.channels_in * prod(conv.kernel)
        held = state.size
        spans = [reach.span for reach in state.hull or everywhere(conv.positions_out)]
        rows = 0
        if number in self.plan.trained:
            needs.per_row += taps * prod(spans) * self.item
            needs.fixed += taps * prod(spans) * _INDEX_BYTES
            seen = taps * prod(state.window) if state.hull else 0
            rows = 2 * held + seen + conv.channels_out * taps
        if number == self.plan.lowest:
            return rows
        matrix = conv.matrix_entries(state.window) if state.hull else 0
        if state.hull:
            needs.fixed += 2 * matrix * self.item
            state.window = [a.widest(s) for a, s in zip(conv.axes, state.window, strict=True)]
            state.hull = conv.behind(state.hull)
        before = (conv.channels_in, *conv.positions_in)
        state.shape = before
        # A product with the matrix and its slopes, or a convolution with its margins cut off.
        onward = 2 * state.size if matrix else 3 * state.size
        if self.unfolds and not matrix:
            onward += prod(conv.kernel) * max(held, state.size)
        if number == turn:
            padded = conv.channels_in * prod(r.span for r in state.hull or ())
            state.open(before)
            onward += 2 * max(padded, state.size)
        return held + max(rows, onward)
