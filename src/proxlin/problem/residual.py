"""The residual as a function of theta and a batch, and what no method could work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from proxlin.errors import InvalidInputError, ProxlinError, UnsupportedModuleError, said
from proxlin.problem.batch_form import Form, rebuilt
from proxlin.problem.module_copy import copied
from proxlin.problem.rows import Batch

Residual = Callable[..., Tensor]  # residual(module, *batch) -> (B, N)

# What code of the caller's raises where it does not fit the data.
_MISFITS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError)
_TRIED_SIZES = 1e-2, 1.0, 1e3  # of targets that a residual may subtract
_ROUNDING = 1e-5  # of differences in float32, relative


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


def row_hint(rows: Any) -> str:
    """What makes rows (B, N) of what was returned instead."""
    dimensions = rows.ndim if isinstance(rows, Tensor) else 3
    if dimensions == 0:
        return "Leave out the mean or sum over samples, such as by reduction='none'."
    return "Use .unsqueeze(1)." if dimensions == 1 else "Use .flatten(1)."


def sign_of_output(residual: Callable[[Tensor, Batch], Tensor], theta: Tensor, batch: Batch) -> int:
    """1 where the rows are outputs minus the batch's last tensor, -1 where that minus outputs.

    0 otherwise. Tried with numbers small and large: a bound or a mask on the targets would show.
    """
    *inputs, target = batch
    if not (inputs and target.is_floating_point()):
        return 0
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(target.shape, generator=generator, dtype=theta.dtype).to(target)
    signs = {1, -1}
    try:
        with torch.no_grad():
            rows = residual(theta, (*inputs, torch.zeros_like(target)))
            if rows.numel() != target.numel():
                return 0
            for size in _TRIED_SIZES:
                change = residual(theta, (*inputs, size * noise)) - rows
                most = _ROUNDING * (size + float(rows.abs().max()))
                signs = {
                    sign
                    for sign in signs
                    if float((change + sign * size * noise.view_as(rows)).abs().max()) <= most
                }
    except Exception:  # code that refuses such targets, in whatever way, does more with them
        return 0
    return signs.pop() if len(signs) == 1 else 0


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
