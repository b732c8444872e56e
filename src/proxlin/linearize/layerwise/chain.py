"""Read a module's forward pass as a chain of layers, activations and reshapes, if it is one.

The pass is traced, not guessed from the order of the children: a skip connection, a layer used
twice or anything unknown makes `read_chain` return None.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, fx, nn
from torch.nn import functional

from proxlin.linearize.differentiable import Differentiable
from proxlin.linearize.layerwise.geometry import CONVOLUTIONS, TRANSPOSED
from proxlin.terms.layout import Layout

_LOG = logging.getLogger("proxlin")

LAYERS = (nn.Linear, *CONVOLUTIONS, *TRANSPOSED)
_ACTIVATIONS = (
    nn.Softplus, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU,
    nn.SELU, nn.CELU, nn.Mish, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid,
    nn.Softsign, nn.Tanhshrink, nn.Softshrink, nn.Hardshrink, nn.Threshold,
)  # fmt: skip
_IDENTITIES = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
_RESHAPES = (nn.Flatten, nn.Unflatten)

_ACTIVATION_FUNCTIONS: frozenset[Any] = frozenset({
    *(getattr(functional, name) for name in (
        "softplus", "tanh", "sigmoid", "gelu", "silu", "relu", "relu6", "leaky_relu", "elu",
        "selu", "celu", "mish", "hardtanh", "hardswish", "hardsigmoid", "logsigmoid", "softsign",
    )),
    torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.sin, torch.cos, torch.square, torch.neg,
    operator.neg, operator.add, operator.sub, operator.mul, operator.truediv, operator.pow,
})  # fmt: skip
_ACTIVATION_METHODS = frozenset({"relu", "tanh", "sigmoid", "exp", "sin", "cos", "square", "neg"})
_RESHAPE_FUNCTIONS: frozenset[Any] = frozenset(
    {torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze, torch.unflatten}
)
_RESHAPE_METHODS = frozenset(
    {"flatten", "view", "reshape", "squeeze", "unsqueeze", "unflatten", "contiguous"}
)
_DROPOUT_FUNCTIONS: frozenset[Any] = frozenset(
    {functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d}
)
_SHAPE_FUNCTIONS: frozenset[Any] = frozenset(
    {getattr, operator.getitem, operator.mul, operator.floordiv}
)

Shapes = Mapping[str, Size]  # the shape that each traced value has in the present run


@dataclass(frozen=True)
class Layer:
    """x -> W x + b: a linear layer or a convolution, found in the module under `path`."""

    name: str
    path: str

    def parameter(self, kind: str) -> str:
        """The full name of the layer's "weight" or "bias"."""
        return f"{self.path}.{kind}" if self.path else kind


@dataclass(frozen=True)
class Activation:
    """x -> f(x), entry by entry."""

    name: str
    function: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Reshape:
    """x -> x in another shape, each row on its own and in the same order."""

    name: str
    function: Callable[[Tensor, Shapes], Tensor]


Stage = Layer | Activation | Reshape


@dataclass(frozen=True)
class Chain:
    """A forward pass as a composition of stages, first applied first."""

    source: str  # the name under which reshapes know the input
    stages: tuple[Stage, ...]


def read_chain(problem: Differentiable) -> Chain | None:
    """The chain that the network's forward pass is, with every trainable parameter in it."""
    if "chain" not in problem.cache:
        problem.cache["chain"] = _trace(problem.network)
    chain: Chain | None = problem.cache["chain"]
    return chain if chain and _can_stand_for(chain, problem.network, problem.layout) else None


def _can_stand_for(chain: Chain, network: nn.Module, layout: Layout) -> bool:
    for module in network.modules():
        if module._forward_hooks or module._forward_pre_hooks:
            return False
    names: list[str] = []
    tensors: list[int] = []
    for stage in chain.stages:
        if isinstance(stage, Layer):
            layer = network.get_submodule(stage.path)
            if not _is_layer(layer) or getattr(layer, "padding_mode", "zeros") != "zeros":
                return False
            own = dict(layer.named_parameters(recurse=False))
            if own.keys() - {"weight", "bias"} or "weight" not in own:
                return False
            names += [stage.parameter(kind) for kind in own]
            tensors += [id(tensor) for tensor in own.values()]
    # Shared tensors and parameters outside the layers need the general road.
    return len(set(tensors)) == len(tensors) and set(layout.names) <= set(names)


def _is_layer(module: nn.Module) -> bool:
    """Whether the module computes what a layer of torch does, subclasses included."""
    for kind in LAYERS:
        if isinstance(module, kind):
            own = [getattr(type(module), name, None) for name in ("forward", "_conv_forward")]
            return own == [getattr(kind, name, None) for name in ("forward", "_conv_forward")]
    return False


class _Tracer(fx.Tracer):
    """Looks into everything but the modules of torch and their plain subclasses."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return _is_layer(m) or super().is_leaf_module(m, module_qualified_name)


def _trace(network: nn.Module) -> Chain | None:
    if _is_layer(network):
        return Chain("x", (Layer("y", ""),))
    try:
        graph = _Tracer().trace(network)
    except Exception as reason:  # the user's code met a symbolic tensor: anything can happen
        _LOG.debug("%s is not read as a chain: %s", type(network).__name__, reason)
        return None
    return _read(graph, network)


def _read(graph: fx.Graph, network: nn.Module) -> Chain | None:
    source: fx.Node | None = None
    current: fx.Node | None = None
    stages: list[Stage] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            if source is None:
                source = current = node
            elif node.users:
                return None
        elif node.op == "output":
            # Whatever is not on the line from input to output was refused on the way.
            return Chain(source.name, tuple(stages)) if source and node.args == (current,) else None
        elif not _is_shape(node):
            stage = _stage(node, current, network)
            if stage is None:
                return None
            stages.append(stage)
            current = node
    return None


def _stage(node: fx.Node, current: fx.Node | None, network: nn.Module) -> Stage | None:
    """The stage that `node` is, if `current` is the one tensor that it takes."""
    target: Any = node.target
    others = [arg for arg in (*node.args, *node.kwargs.values()) if arg is not current]
    parts = [part for arg in others for part in _nodes(arg)]
    if node.args.count(current) != 1 or not all(_is_shape(part) for part in parts):
        return None
    if node.op == "call_module":
        return _module_stage(node, network) if not others else None
    if target in _DROPOUT_FUNCTIONS and node.kwargs.get("training") is False:
        return Reshape(node.name, _unchanged)
    if target in (*_ACTIVATION_FUNCTIONS, *_ACTIVATION_METHODS) and not parts:
        return Activation(node.name, _activation(node, current))
    if target in (*_RESHAPE_FUNCTIONS, *_RESHAPE_METHODS) and node.args[0] is current:
        return Reshape(node.name, _reshape(node))
    return None


def _module_stage(node: fx.Node, network: nn.Module) -> Stage | None:
    layer = network.get_submodule(str(node.target))
    kind = type(layer)
    if _is_layer(layer):
        return Layer(node.name, str(node.target))
    if kind in _ACTIVATIONS:
        return Activation(node.name, layer)
    if kind in _IDENTITIES and not (layer.training and kind is not nn.Identity):
        return Reshape(node.name, _unchanged)
    if kind in _RESHAPES:
        return Reshape(node.name, lambda x, _shapes: layer(x))
    return None


def _unchanged(x: Tensor, _shapes: Shapes) -> Tensor:
    return x


def _activation(node: fx.Node, current: fx.Node | None) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        args = [x if arg is current else arg for arg in node.args]
        value: Tensor = _callable(node)(*args, **node.kwargs)
        return value

    return function


def _reshape(node: fx.Node) -> Callable[[Tensor, Shapes], Tensor]:
    def function(x: Tensor, shapes: Shapes) -> Tensor:
        args = [_resolve(arg, shapes) for arg in node.args[1:]]
        kwargs = {key: _resolve(arg, shapes) for key, arg in node.kwargs.items()}
        value: Tensor = _callable(node)(x, *args, **kwargs)
        return value

    return function


def _callable(node: fx.Node) -> Callable[..., Any]:
    if callable(node.target):
        return node.target
    return getattr(Tensor, node.target)  # type: ignore[no-any-return]


def _nodes(arg: Any) -> list[fx.Node]:
    nodes: list[fx.Node] = []
    fx.map_arg(arg, lambda node: nodes.append(node) or node)  # type: ignore[func-returns-value]
    return nodes


def _is_shape(node: fx.Node) -> bool:
    """Whether the value is a size, or whole numbers made of sizes."""
    if node.op == "call_method":
        return node.target == "size"
    if node.op != "call_function" or node.target not in _SHAPE_FUNCTIONS:
        return False
    if node.target is getattr:
        return node.args[1] == "shape"
    return all(_is_shape(part) for part in _nodes(node.args)) and bool(_nodes(node.args))


def _resolve(arg: Any, shapes: Shapes) -> Any:
    """Replace traced sizes by the sizes of the present run."""

    def value(node: fx.Node) -> Any:
        if node.op == "call_method" or node.target is getattr:
            shape = shapes[str(node.args[0])]
            dims = [int(str(dim)) for dim in node.args[1:]] if node.op == "call_method" else []
            return shape[dims[0]] if dims else shape
        return _callable(node)(*_resolve(node.args, shapes))

    return fx.map_arg(arg, value)
