"""The residual as a function of theta and a batch, and what no method could work with."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from proxlin.errors import InvalidInputError, ProxlinError, UnsupportedModuleError
from proxlin.problem.batch_form import Form, rebuilt
from proxlin.problem.rows import Batch
from proxlin.terms.layout import Layout

Residual = Callable[..., Tensor]  # residual(module, *batch) -> (B, N)

# What code of the caller's raises where it does not fit the data.
_MISFITS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError)


class ResidualModule(nn.Module):
    """The residual as a module, so that its parameters can be replaced in a call."""

    def __init__(self, module: nn.Module, rule: Residual, form: Form = None) -> None:
        super().__init__()
        self.module = module
        self.rule = rule
        self.form = form  # of the batch that the rule is called with; None: a tuple
        self.called_again = False  # on the way back, as by torch.utils.checkpoint
        names = dict(module.named_parameters(remove_duplicate=False))
        self.tied = len(names) > len(dict(module.named_parameters()))

    def forward(self, *batch: Tensor) -> Tensor:
        """One row of numbers for each sample."""
        if self.form is None:
            return self.rule(self.module, *batch)
        arguments = rebuilt(self.form, batch)
        return self.rule(
            self.module, *(arguments if isinstance(arguments, tuple) else (arguments,))
        )

    def at(self, values: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """The rows with the module's parameters replaced by `values`."""
        if self.called_again and torch.is_grad_enabled():
            rows: Tensor = self._standing_at(values)(*batch)
        else:
            named = {f"module.{name}": tensor for name, tensor in values.items()}
            # Looking for tied parameters in each call would take longer than a small layer.
            rows = functional_call(self, named, batch, tie_weights=self.tied)
        return rows

    def _standing_at(self, values: Mapping[str, Tensor]) -> ResidualModule:
        """A copy whose parameters are `values` as long as a graph remembers it."""
        tensors = (*self.module.parameters(), *self.module.buffers())
        module = copied(self.module, {id(tensor): tensor for tensor in tensors})
        replaced = {
            id(tensor): values[name] for name, tensor in module.named_parameters() if name in values
        }
        for part in module.modules():
            for name, tensor in part._parameters.items():
                part._parameters[name] = replaced.get(id(tensor), tensor)  # type: ignore[assignment]
        return ResidualModule(module, self.rule, self.form)

    def copied(self) -> ResidualModule:
        """Another one; a rule that is no module stays the caller's own."""
        rule = copied(self.rule) if isinstance(self.rule, nn.Module) else self.rule
        return ResidualModule(copied(self.module), rule, self.form)


def difference(module: nn.Module, x: Any, *target: Tensor) -> Tensor:
    """Module(x) - x for one tensor, module(x) - y for two; x may hold several inputs."""
    if len(target) > 1:
        raise InvalidInputError(
            f"data of {1 + len(target)} parts needs residual=...; without it give one or two."
        )
    y = target[0] if target else x
    if not isinstance(y, Tensor):
        raise InvalidInputError(
            f"data without a tensor as target needs residual=...; got {type(y).__name__}."
            " Give (inputs, y), or residual(module, batch)."
        )
    if isinstance(x, Tensor):
        output = module(x)
    else:
        output = module(**x) if isinstance(x, dict) else module(*x)
    if not isinstance(output, Tensor):
        raise InvalidInputError(
            f"the module must return a tensor; got {type(output).__name__}. Give residual=..., such"
            " as lambda module, x, y: module(x)[0] - y."
        )
    y = y.unsqueeze(1) if y.ndim == 1 and output.ndim == 2 else y
    if output.shape != y.shape:
        raise InvalidInputError(
            f"the module's output must have the shape of its target {tuple(y.shape)};"
            f" got {tuple(output.shape)}. Change the module's last layer or give residual=...."
        )
    difference: Tensor = (output - y).reshape(output.shape[0], -1)
    return difference


def unwrapped(module: nn.Module) -> nn.Module:
    """The module that `torch.compile` was given: its graphs allow neither J d nor two passes."""
    inner: nn.Module = getattr(module, "_orig_mod", module)
    return inner


def copied(module: nn.Module, kept: Mapping[int, Tensor] | None = None) -> nn.Module:
    """A deep copy; outputs that the module remembers come without their graph.

    `kept` are the tensors, by their id, that are not copied.
    """
    held = [tensor for part in module.modules() for tensor in _tensors_in(vars(part))]
    memo = {id(tensor): tensor.detach().clone() for tensor in held if not tensor.is_leaf}
    try:
        return copy.deepcopy(module, memo | dict(kept or {}))
    except (TypeError, RuntimeError, AttributeError) as cause:
        raise UnsupportedModuleError(
            f"module must be one that copy.deepcopy copies; it ends with {said(cause)}. Keep what"
            " cannot be copied, such as locks and files, outside of it."
        ) from cause


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors_in(item)


def evaluated_copy(module: nn.Module) -> nn.Module:
    """A copy in eval mode without gradients of its own, none of its parts compiled."""
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedModuleError(
            "module must be a plain torch.nn.Module, whose parameters can be replaced; got a"
            " ScriptModule. Give the module that was scripted or traced."
        )
    network = copied(module)
    if any(map(operator.is_, module.modules(), network.modules())):
        raise UnsupportedModuleError(
            "module must be one that copy.deepcopy copies; it gave the module itself or a part of"
            " it. Leave out its __deepcopy__."
        )
    network.eval().requires_grad_(False)
    for part in network.modules():
        part._compiled_call_impl = None
        if isinstance(part, nn.Embedding | nn.EmbeddingBag):
            part.sparse = False  # theta is one dense vector
        inner = unwrapped(part)
        if inner is not part:
            part.forward = inner.__call__
    return network


def trainable(module: nn.Module) -> tuple[Layout, torch.dtype, torch.device]:
    """The layout of the parameters that require a gradient, their type and their device."""
    parameters = [(n, t) for n, t in module.named_parameters() if t.requires_grad]
    for name, tensor in parameters:
        if isinstance(tensor, nn.UninitializedParameter):
            raise InvalidInputError(
                f"module must know the shapes of its parameters; got {name!r} without one. Call it"
                " with a few rows first."
            )
    if torch.is_inference_mode_enabled() or any(t.is_inference() for _, t in parameters):
        raise InvalidInputError(
            "module must be made and trained outside of torch.inference_mode(), which keeps no"
            " gradients."
        )
    if not parameters:
        raise InvalidInputError("module must have parameters that require a gradient; got none.")
    kinds = {(tensor.dtype, tensor.device) for _, tensor in parameters}
    if len(kinds) > 1 or next(iter(kinds))[0] not in (torch.float32, torch.float64):
        listed = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise InvalidInputError(
            "module must hold its parameters as float32 or float64, all alike on one device;"
            f" got {listed}. Convert it with .to(...)."
        )
    ((dtype, device),) = kinds
    return Layout.of(parameters), dtype, device


def fixed_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Frozen parameters and buffers."""
    frozen = {n: t for n, t in module.named_parameters() if not t.requires_grad}
    return frozen | dict(module.named_buffers())


def read_parameters(module: nn.Module) -> tuple[Layout, torch.dtype, torch.device]:
    """Where theta lies in the module, its type and its device."""
    if not isinstance(module, nn.Module):
        raise InvalidInputError(f"module must be a torch.nn.Module; got {type(module).__name__}.")
    layout, dtype, device = trainable(module)
    check_apart(dict(module.named_parameters()))
    for name, tensor in module.named_parameters():
        if tensor.requires_grad and tensor._backward_hooks:
            raise UnsupportedModuleError(
                f"parameter {name!r} has a hook on its gradient, which no step would call. Remove"
                " it; torch.nn.utils.prune keeps zeros, and requires_grad_(False) whole parameters."
            )
    for name, child in module.named_modules():
        if not isinstance(child, nn.modules.batchnorm._BatchNorm):
            continue
        if child.running_mean is None:
            raise UnsupportedModuleError(
                f"module {name or type(child).__name__!r} is a batch normalisation without running"
                " statistics, which mixes rows in eval mode, too; use GroupNorm or LayerNorm, or"
                " proxlin.optim.Probed in a training loop of your own."
            )
        if child.training:
            raise UnsupportedModuleError(
                f"module {name or type(child).__name__!r} is a batch normalisation: its running"
                " statistics mix rows and would never be updated; use GroupNorm or LayerNorm, or"
                " call its .eval() to keep the statistics that it has."
            )
    return layout, dtype, device


def check_apart(parameters: dict[str, Tensor]) -> None:
    """Refuse parameters of which one number in memory is two of theta."""
    by_storage: dict[int, list[str]] = {}
    for name, tensor in parameters.items():
        if tensor.is_meta:
            continue
        by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    for names in by_storage.values():
        tensors = [parameters[name] for name in names]
        if _follow_each_other(tensors) or not any(t.requires_grad for t in tensors):
            continue
        storage = tensors[0].untyped_storage()
        numbers = torch.arange(storage.nbytes() // tensors[0].itemsize)
        places = torch.cat(
            [numbers.as_strided(t.shape, t.stride(), t.storage_offset()).flatten() for t in tensors]
        )
        if len(torch.unique(places)) < len(places):
            shared = " and ".join(map(repr, names))
            raise InvalidInputError(
                f"numbers of parameters must not share memory; those of {shared} do. Tie parameters"
                " by giving both parts the same nn.Parameter, or use one of them twice in forward."
            )


def _follow_each_other(tensors: list[Tensor]) -> bool:
    """Whether each takes a piece of their memory of its own, as the usual ones do."""
    spans = sorted((t.storage_offset(), t.storage_offset() + t.numel()) for t in tensors)
    apart = all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    return apart and all(tensor.is_contiguous() for tensor in tensors)


def check_residual(residual: Callable[[Tensor, Batch], Tensor], theta: Tensor, batch: Batch) -> int:
    """Evaluate two rows once and refuse what no method could work with; returns N."""
    for position, tensor in enumerate(batch):
        if tensor.is_floating_point() and tensor.dtype != theta.dtype:
            raise InvalidInputError(
                f"data[{position}] must have the module's type {theta.dtype};"
                f" got {tensor.dtype}. Convert one of them with .to(...)."
            )
        if tensor.device != theta.device:
            raise InvalidInputError(
                f"data[{position}] must be on the module's device {theta.device};"
                f" got {tensor.device}. Move one of them with .to(...)."
            )
    # Copies of the rows: what a forward pass does to its inputs is not done to the caller's.
    batch = tuple(tensor.detach().clone() for tensor in batch)
    point = theta.detach().clone()
    versions = [tensor._version for tensor in (point, *batch)]
    try:
        with torch.no_grad():
            first, again = residual(point, batch), residual(point, batch)
            alone = residual(point, tuple(tensor[:1] for tensor in batch))
    except _MISFITS as cause:
        if isinstance(cause, ProxlinError):
            raise
        whole = not all(tensor.is_floating_point() for tensor in batch)
        hint = " Whole numbers stay such; where they are inputs, .float() converts them."
        shapes = ", ".join(f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in batch)
        raise InvalidInputError(
            f"module and residual must take rows of the data; on two of them ({shapes}) they end"
            f" with {said(cause)}.{hint if whole else ''}"
        ) from cause
    if not isinstance(first, Tensor) or first.ndim != 2 or first.shape[0] != batch[0].shape[0]:
        shape = tuple(first.shape) if isinstance(first, Tensor) else type(first).__name__
        raise InvalidInputError(
            f"residual must return one row of numbers a sample, shape ({batch[0].shape[0]}, N);"
            f" got {shape}. {row_hint(first)}"
        )
    if first.shape[1] == 0 or not first.is_floating_point():
        raise InvalidInputError(
            "residual must return at least one floating-point number a sample; got"
            f" {first.shape[1]} of {first.dtype}."
        )
    for position, tensor in enumerate((point, *batch)):
        if tensor._version != versions[position]:
            what, hint = f"data[{position - 1}]", "Take an operation that makes a new tensor"
            if not position:
                what, hint = (
                    "its parameters",
                    "Leave out what does, such as Embedding(max_norm=...)",
                )
            raise UnsupportedModuleError(
                f"module and residual must leave what they are called with as it is; they changed"
                f" {what} in place. {hint}."
            )
    if not torch.equal(first, again) and not bool(torch.isnan(first).any()):
        raise UnsupportedModuleError(
            "module must give the same output for the same input in eval mode; two calls differed."
            " Remove the sampling from its forward pass."
        )
    if not torch.allclose(first[:1], alone, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise UnsupportedModuleError(
            "the residual of a row must depend on that row alone; it changed with the other rows"
            " of the batch. Remove what mixes rows, such as normalisation over the batch."
        )
    return int(first.shape[1])


def said(cause: Exception) -> str:
    """What an exception is and the first line of what it says, without its full stop."""
    return f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0].rstrip('.')}"


def row_hint(rows: Any) -> str:
    """What makes rows (B, N) of what was returned instead."""
    dimensions = rows.ndim if isinstance(rows, Tensor) else 3
    if dimensions == 0:
        return "Leave out the mean or sum over samples, such as by reduction='none'."
    return "Use .unsqueeze(1)." if dimensions == 1 else "Use .flatten(1)."


def has_slope(residual: Callable[[Tensor, Batch], Tensor], theta: Tensor, batch: Batch) -> bool:
    """Whether the residual depends on theta; refused where it cannot be differentiated."""
    leaf = theta.detach().clone().requires_grad_(True)
    try:
        with torch.enable_grad():
            rows = residual(leaf, batch)
            if not rows.requires_grad:
                return False
            # With a cotangent of our own: the first such call in a process makes torch import much,
            # which is no part of the time of a run.
            slope = torch.autograd.grad(rows, leaf, torch.ones_like(rows), allow_unused=True)[0]
    except _MISFITS as cause:
        if isinstance(cause, ProxlinError):
            raise
        raise UnsupportedModuleError(
            "module and residual must be differentiable by torch.autograd.grad; on rows of the data"
            f" that ends with {said(cause)}."
        ) from cause
    return slope is not None
