"""Run a chain once and keep what its derivatives need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn
from torch.func import functional_call

from proxlin.linearize.layerwise.chain import Activation, Chain, Layer, Reshape
from proxlin.linearize.layerwise.geometry import CONVOLUTIONS, TRANSPOSED


class NotAChainError(Exception):
    """The run showed that the chain does not keep the rows of a batch apart."""


@dataclass(frozen=True)
class Record:
    """What one run of a chain leaves behind."""

    shapes: tuple[Size, ...]  # of one row: before the first stage, after it, ..., after the last
    inputs: Mapping[int, Tensor]  # stage -> (B, ...) input of a layer with trainable parameters
    slopes: Mapping[int, Tensor]  # stage -> (B, ...) f' of an activation

    @property
    def bytes_per_row(self) -> int:
        """The memory that one row of the record holds."""
        held = [*self.inputs.values(), *self.slopes.values()]
        return sum(t.nbytes // max(1, len(t)) for t in held)


@dataclass(frozen=True)
class Weights:
    """The parameters of a chain: from theta where they are trainable, else from the network."""

    network: nn.Module
    trainable: Mapping[str, Tensor]

    def of(self, layer: Layer) -> dict[str, Tensor]:
        """The tensors of a layer by "weight" and "bias"."""
        own = self.network.get_submodule(layer.path).named_parameters(recurse=False)
        return {
            kind: self.trainable.get(layer.parameter(kind), tensor).detach() for kind, tensor in own
        }

    def trains(self, layer: Layer) -> bool:
        """Whether any tensor of the layer belongs to theta."""
        return any(layer.parameter(kind) in self.trainable for kind in ("weight", "bias"))


def first_trained(chain: Chain, weights: Weights) -> int:
    """The number of the first stage with trainable parameters."""
    return next(
        number
        for number, stage in enumerate(chain.stages)
        if isinstance(stage, Layer) and weights.trains(stage)
    )


def run(chain: Chain, weights: Weights, x: Tensor) -> Record:
    """Pass x through the chain and keep the inputs of layers and the slopes of activations."""
    rows = len(x)
    sizes = {chain.source: x.shape}
    shapes = [x.shape[1:]]
    inputs: dict[int, Tensor] = {}
    slopes: dict[int, Tensor] = {}
    value = x.detach()
    lowest = first_trained(chain, weights)
    for number, stage in enumerate(chain.stages):
        before = value
        match stage:
            case Layer():
                layer = weights.network.get_submodule(stage.path)
                with torch.no_grad():
                    value = functional_call(layer, weights.of(stage), (before,))
                if isinstance(layer, CONVOLUTIONS + TRANSPOSED) and before.ndim != 2 + len(
                    layer.kernel_size
                ):
                    raise NotAChainError(f"{stage.path} takes a whole batch for one sample")
                if weights.trains(stage):
                    inputs[number] = before
            case Activation():
                value, slope = _with_slope(stage, before)
                if number > lowest:
                    slopes[number] = slope
            case Reshape():
                value = stage.function(before, sizes)
                if value.shape[:1] != (rows,) or value.numel() != before.numel():
                    raise NotAChainError(f"{stage.name} mixes the rows of a batch")
        sizes[stage.name] = value.shape
        shapes.append(value.shape[1:])
    return Record(tuple(shapes), inputs, slopes)


def _with_slope(stage: Activation, x: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        # The copy keeps activations that work in place away from the leaf.
        value = stage.function(leaf.clone())
        (slope,) = torch.autograd.grad(value, leaf, torch.ones_like(value))
    return value.detach(), slope
