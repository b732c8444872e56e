"""Dense Jacobian rows of a chain, layer by layer.

For every output o the sensitivity dF_o/dz_l at the output z_l of each layer is carried from the
last layer to the first; the rows are its products with the layers' inputs,
dF_o/dW_l = sum_s dF_o/dz_l[s] x_l[s]^T over the positions s that o reaches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Size, Tensor

from proxlin.linearize.layerwise.chain import Activation, Chain, Layer
from proxlin.linearize.layerwise.chain_plan import ChainPlan, Part
from proxlin.linearize.layerwise.geometry import Convolution, Reach, Spread, everywhere
from proxlin.linearize.layerwise.record import Record, Weights, run
from proxlin.linearize.layerwise.sensitivity import Dense, Windowed
from proxlin.linearize.layerwise.workspace import workspace_of

Sensitivity = Windowed | Dense


class Layerwise:
    """The Jacobian rows of a chain, for samples of one shape: what they need, and the rows."""

    def __init__(self, chain: Chain, weights: Weights, sample: Tensor) -> None:
        self.plan = ChainPlan.of(chain, weights, sample)
        self.part = self.plan.divide(len(chain.stages))
        self.workspace = workspace_of(self.plan, self.part, sample)
        self.correct: bool | None = None  # whether its rows are, once they were checked
        self._tables: dict[int, Tensor] = {}

    @property
    def outputs(self) -> int:
        """The number N of outputs of one sample."""
        return self.part.outputs

    def fill(
        self,
        rows: Tensor,
        x: Tensor,
        weights: Weights,
        columns: Mapping[str, slice],
        *,
        max_bytes: int,
    ) -> None:
        """Write dF/dtheta at x into `rows` (B, N, d) with at most `max_bytes` of workspace."""
        matrices: dict[Hashable, Tensor] = {}
        block, outputs = self.workspace.block_sizes(len(x), prod(self.part.frame[1:]), max_bytes)
        for first in range(0, len(x), block):
            some = slice(first, first + block)
            record = run(self.plan.chain, weights, x[some])
            backward = _BackwardPass(self.plan, weights, record, outputs, matrices, self._tables)
            backward.fill(self.part, rows[some], columns)


@dataclass(frozen=True)
class _Target:
    """Where the rows of one tile go."""

    rows: Tensor  # (B, *counts, O, d): a view of the result
    edge: Tensor | None  # (B, *counts, O, F): a view of the sensitivities at the part's input
    columns: Mapping[str, slice]

    def put(self, name: str, values: Tensor) -> None:
        """Copy dF/d(parameter), (B, Q, O, *its entries in order)."""
        _copy(self.rows[..., self.columns[name]], values)

    def zero(self, names: Iterable[str]) -> None:
        """The outputs of the tile do not depend on these parameters, nor on the part's input."""
        for name in names:
            if name in self.columns:
                self.rows[..., self.columns[name]] = 0
        if self.edge is not None:
            self.edge.zero_()


@dataclass(frozen=True)
class _BackwardPass:
    """From the outputs of one block of samples back to the first trainable layer."""

    plan: ChainPlan
    weights: Weights
    record: Record
    outputs: int  # positions of a tile at most
    matrices: dict[Hashable, Tensor]  # maps between windows, by stage and form
    tables: dict[int, Tensor]  # where the inputs of outputs are found, by stage
    spreads: dict[int, Spread] = field(default_factory=dict)  # by stage, for this record

    def fill(self, part: Part, rows: Tensor, columns: Mapping[str, slice]) -> None:
        """Write the rows of the part's outputs, with respect to all parameters up to there."""
        width = self.plan.shapes[part.low].numel()
        edge = rows.new_empty(*rows.shape[:2], width) if part.below else None
        diagonal = self._diagonal(part, len(rows))
        for tile in part.tiles(self.outputs):
            target = _Target(
                _view(rows, part, tile), None if edge is None else _view(edge, part, tile), columns
            )
            self._tile(part, Windowed.start(diagonal, tile), target)
        if part.below and edge is not None:
            self._join(part.below, edge, rows, columns)

    def _diagonal(self, part: Part, batch: int) -> Spread:
        """dF_o/dz_o at the output z of the part's last layer: behind it are only activations."""
        some = next(iter(self.record.inputs.values()))
        values = some.new_ones(batch, *part.frame)
        for number in range(part.last + 1, part.high):
            if number in self.record.slopes:
                values *= self.record.slopes[number].view_as(values)
        positions = part.frame[1:]
        return Spread.of(values, everywhere(positions), positions)

    def _join(self, below: Part, edge: Tensor, rows: Tensor, columns: Mapping[str, slice]) -> None:
        """dF/dtheta = dF/dz dz/dtheta for the parameters below the narrow place z."""
        inner: dict[str, slice] = {}
        size = 0
        for name in self._names(0, below.high):
            if name in columns:
                span = columns[name].stop - columns[name].start
                inner[name] = slice(size, size + span)
                size += span
        lower = rows.new_empty(len(rows), below.outputs, size)
        self.fill(below, lower, inner)
        for name, place in inner.items():
            rows[..., columns[name]] = torch.bmm(edge, lower[..., place])

    def _tile(self, part: Part, state: Sensitivity, target: _Target) -> None:
        """Carry the sensitivities of one tile through the part and write its rows."""
        for number in reversed(range(part.low, part.last + 1)):
            stage = self.plan.chain.stages[number]
            if isinstance(stage, Activation):
                if isinstance(state, Windowed):
                    state = state.scaled(self._slopes(number, state))
                else:
                    state = state.scaled(self.record.slopes[number])
            elif isinstance(stage, Layer):
                onward = self._layer(state, number, stage, target)
                if number == part.turn and isinstance(onward, Windowed):
                    onward = onward.dense()
                if onward is None:
                    return target.zero(self._names(part.low, number))
                state = onward
            elif isinstance(state, Dense) or self.plan.opens(number):
                state = _dense(state, self.plan.shapes[number])
        if target.edge is not None:
            shape = self.plan.shapes[part.low]
            _copy(target.edge, _dense(state, shape).values)
        return None

    def _slopes(self, number: int, state: Windowed) -> Spread:
        if number not in self.spreads:
            slope = self.record.slopes[number]
            self.spreads[number] = Spread.of(slope, state.hull, state.positions)
        return self.spreads[number]

    def _seen(self, number: int, conv: Convolution, state: Sensitivity) -> Spread:
        if number not in self.spreads:
            full = everywhere(conv.positions_out)
            hull = state.hull if isinstance(state, Windowed) else full
            inputs = self.record.inputs[number]
            if number not in self.tables:
                self.tables[number] = conv.table(hull).to(inputs.device)
            self.spreads[number] = conv.unfold(inputs, hull, self.tables[number])
        return self.spreads[number]

    def _layer(
        self, state: Sensitivity, number: int, stage: Layer, target: _Target
    ) -> Sensitivity | None:
        """Write the layer's rows and step behind it; None if nothing is left to carry."""
        weight = self.weights.of(stage)["weight"]
        conv = self.plan.convolutions.get(number)
        weights_wanted = stage.parameter("weight") in target.columns
        bias_wanted = stage.parameter("bias") in target.columns
        if conv is None:
            dense = _dense(state, self.plan.shapes[number + 1])
            if weights_wanted:
                values = dense.linear_weight_rows(self.record.inputs[number])
                target.put(stage.parameter("weight"), values)
            if bias_wanted:
                target.put(stage.parameter("bias"), dense.linear_bias_rows())
            return None if number == self.plan.lowest else dense.behind_linear(weight)
        maps = state.cleaned()
        if weights_wanted:
            values = maps.weight_rows(conv, self._seen(number, conv, maps))
            target.put(stage.parameter("weight"), values)
        if bias_wanted:
            target.put(stage.parameter("bias"), maps.bias_rows())
        if number == self.plan.lowest:
            return None
        if isinstance(maps, Dense):
            return maps.behind(conv, weight)
        if any(reach.size == 0 for reach in conv.behind(maps.reaches)):
            return None
        return maps.behind(conv, weight, self._matrix(number, conv, weight, maps))

    def _matrix(
        self, number: int, conv: Convolution, weight: Tensor, state: Windowed
    ) -> Tensor | None:
        near = state.reaches
        if not conv.matrix_entries([reach.size for reach in near]):
            return None
        far = conv.behind(near)
        leads = (axis.lead(n, f) for axis, n, f in zip(conv.axes, near, far, strict=True))
        key = (number, *leads, *(reach.size for reach in near))
        if key not in self.matrices:
            self.matrices[key] = conv.matrix(weight, near, far)
        return self.matrices[key]

    def _names(self, low: int, high: int) -> list[str]:
        """The parameters of the stages low, ..., high - 1."""
        layers = [s for s in self.plan.chain.stages[low:high] if isinstance(s, Layer)]
        return [layer.parameter(kind) for layer in layers for kind in ("weight", "bias")]


def _dense(state: Sensitivity, shape: Size) -> Dense:
    whole = state if isinstance(state, Dense) else state.dense()
    return whole.reshaped(shape)


def _copy(place: Tensor, values: Tensor) -> None:
    """(B, Q, O, *entries) -> (B, *counts, O, entries), whatever the strides of either."""
    values = torch.unflatten(values, 1, place.shape[1:-2])
    torch.unflatten(place, -1, values.shape[place.ndim - 1 :]).copy_(values)


def _view(rows: Tensor, part: Part, tile: tuple[Reach, ...]) -> Tensor:
    """(B, N, d) -> (B, *counts, O, d): the rows of the tile's outputs."""
    maps = torch.unflatten(rows, 1, part.frame).movedim(1, -2)
    picks = (slice(r.start, r.start + r.span, max(1, r.step)) for r in tile)
    return maps[(slice(None), *picks)]
