"""How the Jacobian of a chain is computed: in which parts, in which form, with how much memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from torch import Size, Tensor, nn

from proxlin.linearize.layerwise.chain import Chain, Layer, Reshape
from proxlin.linearize.layerwise.geometry import Convolution, Reach
from proxlin.linearize.layerwise.record import Weights, run

# The same work costs more on windows (many small products) than on whole maps (few large ones).
_WINDOW_PENALTY = 2
# A narrow place in the chain is used if it saves at least this share of the work.
_WORTHWHILE = 0.7


@dataclass(frozen=True)
class Part:
    """The stages low, ..., high - 1, with their outputs seen as maps.

    With `below` the Jacobian is a product: that of this part with respect to its input, times
    that of the part below.
    """

    low: int
    high: int
    last: int  # the last layer
    turn: int  # behind this stage sensitivities are stored in full; -1 if nowhere
    frame: tuple[int, ...]  # (channels, *positions) of the outputs
    period: tuple[int, ...]  # outputs this far apart have reaches of the same form
    below: Part | None

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return prod(self.frame)

    def tiles(self, most: int) -> Iterator[tuple[Reach, ...]]:
        """Sets of output positions, each at most `most` and with reaches of one form."""
        for phase in product(
            *(range(min(p, s)) for p, s in zip(self.period, self.frame[1:], strict=True))
        ):
            grid = [
                Reach(start, period, 1, 1 + (size - 1 - start) // period)
                for start, period, size in zip(phase, self.period, self.frame[1:], strict=True)
            ]
            sides: list[int] = []
            places_left = most
            for reach in reversed(grid):
                sides.insert(0, max(1, min(reach.count, places_left)))
                places_left //= sides[0]
            firsts = (range(0, r.count, side) for r, side in zip(grid, sides, strict=True))
            for corner in product(*firsts):
                yield tuple(
                    reach.part(first, min(side, reach.count - first))
                    for reach, first, side in zip(grid, corner, sides, strict=True)
                )


@dataclass(frozen=True)
class ChainPlan:
    """A chain together with the sizes that one row has on its way through it."""

    chain: Chain
    shapes: tuple[Size, ...]  # before the first stage, after it, ..., after the last
    convolutions: dict[int, Convolution]
    parameters: dict[int, int]  # stage -> number of weights of the layer
    trained: frozenset[int]  # stages with trainable parameters
    bytes_per_row: int  # of a record

    @classmethod
    def of(cls, chain: Chain, weights: Weights, x: Tensor) -> ChainPlan:
        """Read the sizes off a run with one row."""
        record = run(chain, weights, x[:1])
        convolutions, parameters, trained = {}, {}, set()
        for number, stage in enumerate(chain.stages):
            if isinstance(stage, Layer):
                layer = weights.network.get_submodule(stage.path)
                before, after = record.shapes[number], record.shapes[number + 1]
                if not isinstance(layer, nn.Linear):
                    convolutions[number] = Convolution.of(layer, before[1:], after[1:])
                parameters[number] = weights.of(stage)["weight"].numel()
                if weights.trains(stage):
                    trained.add(number)
        return cls(
            chain, record.shapes, convolutions, parameters, frozenset(trained), record.bytes_per_row
        )

    @property
    def lowest(self) -> int:
        """The first stage with trainable parameters."""
        return min(self.trained)

    def divide(self, high: int) -> Part:
        """The part that ends before stage `high`, with everything below it."""
        low = self._narrow_place(high)
        below = self.divide(low) if low > self.lowest else None
        last = max((n for n in self.parameters if n < high), default=low)
        if last not in self.convolutions:
            return Part(low, high, last, last, (1, self.shapes[high].numel()), (1,), below)
        turn = -1
        period = [1 for _ in self.convolutions[last].axes]
        window = list(period)
        # Nothing is carried behind the first trainable layer.
        for number in reversed(range(max(low, self.lowest + 1), last + 1)):
            conv = self.convolutions.get(number)
            if conv:
                window = [axis.widest(w) for axis, w in zip(conv.axes, window, strict=True)]
                if conv.transposed:
                    period = [p * axis.stride for p, axis in zip(period, conv.axes, strict=True)]
            wide = conv and _WINDOW_PENALTY * prod(window) > prod(conv.positions_in)
            if wide or self.opens(number):
                turn = number
                break
        return Part(low, high, last, turn, tuple(self.shapes[last + 1]), tuple(period), below)

    def opens(self, number: int) -> bool:
        """Whether every output reaches everything behind the stage."""
        if isinstance(self.chain.stages[number], Layer):
            return number not in self.convolutions
        reshapes = isinstance(self.chain.stages[number], Reshape)
        return reshapes and self.shapes[number] != self.shapes[number + 1]

    def _narrow_place(self, high: int) -> int:
        """The stage at whose input the chain is best cut in two; `lowest` if nowhere.

        Behind a linear layer each output would drag whole maps through the convolutions. Where
        few numbers separate the two, their sensitivities are dragged instead.
        """
        outputs = self.shapes[high].numel()
        linear = [n for n in self.parameters if n < high and n not in self.convolutions]
        layers = [n for n in self.parameters if self.lowest <= n <= max(linear, default=-1)]
        work = {n: self._positions(n) * self.parameters[n] for n in layers}
        best, place = _WORTHWHILE * outputs * sum(work.values()), self.lowest
        for n in layers[1:]:
            width = self.shapes[n].numel()
            joined = (width * (work[m] + outputs * self.parameters[m]) for m in layers if m < n)
            cost = sum(joined) + outputs * sum(work[m] for m in layers if m >= n)
            if width < outputs and cost < best:
                best, place = cost, n
        return place

    def _positions(self, number: int) -> int:
        conv = self.convolutions.get(number)
        return prod(conv.positions_out) if conv else self.shapes[number + 1][:-1].numel()
