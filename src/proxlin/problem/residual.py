"""The residual as a function of theta and a batch, and what no method could work with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from proxlin._checks import shown
from proxlin.errors import InvalidInputError, ProxlinError, UnsupportedModuleError
from proxlin.problem.batch_form import Form, rebuilt
from proxlin.problem.rows import Batch
from proxlin.terms.layout import Layout

Residual = Callable[..., Tensor]  # residual(module, *batch) -> (B, N)


class ResidualModule(nn.Module):
    """The residual as a module, so that its parameters can be replaced in a call."""

    def __init__(self, module: nn.Module, rule: Residual, form: Form = None) -> None:
        super().__init__()
        self.module = module
        self.rule = rule
        self.form = form  # of the batch that the rule is called with; None: a tuple

    def forward(self, *batch: Tensor) -> Tensor:
        """One row of numbers for each sample."""
        if self.form is None:
            return self.rule(self.module, *batch)
        arguments = rebuilt(self.form, batch)
        return self.rule(
            self.module, *(arguments if isinstance(arguments, tuple) else (arguments,))
        )


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


def evaluated_copy(module: nn.Module) -> nn.Module:
    """A copy in eval mode without gradients of its own, none of its parts compiled."""
    network = copy.deepcopy(module).eval().requires_grad_(False)
    for part in network.modules():
        part._compiled_call_impl = None
        inner = unwrapped(part)
        if inner is not part:
            part.forward = inner.__call__
    return network


def read_parameters(module: nn.Module) -> tuple[Layout, torch.dtype, torch.device]:
    """Where theta lies in the module, its type and its device."""
    if not isinstance(module, nn.Module):
        raise InvalidInputError(f"module must be a torch.nn.Module; got {type(module).__name__}.")
    parameters = [(n, t) for n, t in module.named_parameters() if t.requires_grad]
    for name, tensor in parameters:
        if isinstance(tensor, nn.UninitializedParameter):
            raise InvalidInputError(
                f"module must know the shapes of its parameters; got {name!r} without one. Call it"
                " with a few rows first."
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
    ((dtype, device),) = kinds
    return Layout.of(parameters), dtype, device


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
    try:
        with torch.no_grad():
            first, again = residual(theta, batch), residual(theta, batch)
            alone = residual(theta, tuple(tensor[:1] for tensor in batch))
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as cause:
        if isinstance(cause, ProxlinError):
            raise
        whole = not all(tensor.is_floating_point() for tensor in batch)
        hint = " Whole numbers stay such; where they are inputs, .float() converts them."
        shapes = ", ".join(f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in batch)
        raise InvalidInputError(
            f"module and residual must take rows of the data; on two of them ({shapes}) they end"
            f" with: {shown(cause)}.{hint if whole else ''}"
        ) from cause
    if not isinstance(first, Tensor) or first.ndim != 2 or first.shape[0] != batch[0].shape[0]:
        shape = tuple(first.shape) if isinstance(first, Tensor) else type(first).__name__
        raise InvalidInputError(
            f"residual must return one row of numbers a sample, shape ({batch[0].shape[0]}, N);"
            f" got {shape}. Use .flatten(1)."
        )
    if first.shape[1] == 0 or not first.is_floating_point():
        raise InvalidInputError(
            "residual must return at least one floating-point number a sample; got"
            f" {first.shape[1]} of {first.dtype}."
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
