"""The caller's module: where theta lies in it, and the copy that is evaluated."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from proxlin.errors import InvalidInputError, UnsupportedModuleError, said
from proxlin.problem.parallel import Communicator
from proxlin.terms.layout import Layout

Kind = tuple[torch.Size, torch.dtype, torch.device]


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


def _trainable(module: nn.Module) -> tuple[Layout, torch.dtype, torch.device]:
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


def _fixed_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Frozen parameters and buffers."""
    frozen = {n: t for n, t in module.named_parameters() if not t.requires_grad}
    return frozen | dict(module.named_buffers())


def kinds_of_fixed(module: nn.Module) -> dict[str, Kind]:
    """The shape, type and device of each frozen parameter and buffer."""
    return {n: (t.shape, t.dtype, t.device) for n, t in _fixed_tensors(module).items()}


def read_parameters(module: nn.Module) -> tuple[Layout, torch.dtype, torch.device]:
    """Where theta lies in the module, its type and its device."""
    if not isinstance(module, nn.Module):
        raise InvalidInputError(f"module must be a torch.nn.Module; got {type(module).__name__}.")
    layout, dtype, device = _trainable(module)
    check_apart(dict(module.named_parameters()))
    for name, tensor in module.named_parameters():
        hooks = tensor._backward_hooks or tensor._post_accumulate_grad_hooks
        if tensor.requires_grad and hooks:
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


def renewed(
    network: nn.Module,
    module: nn.Module,
    kind: tuple[Layout, torch.dtype, torch.device],
    kinds: dict[str, Kind],
    communicator: Communicator,
) -> bool:
    """Whether frozen parameters or buffers of the module have changed; its copy has them then.

    Those of rank 0 count. A module whose trainable parameters are not of this kind, or whose fixed
    tensors are not of these kinds, is refused.
    """
    names = kind[0].names
    seen = {n: t for n, t in _fixed_tensors(network).items() if n not in names}
    fixed = _fixed_tensors(module)
    alike = fixed.keys() == seen.keys() and kinds_of_fixed(module) == kinds
    try:
        same = alike and _trainable(module) == kind
    except InvalidInputError:  # none is trainable, or not all are of one type
        same = False
    if any(communicator.largest([float(not same)])):
        raise InvalidInputError(
            "the module must have the parameters and buffers that it had when its Problem was"
            " made; since then some were added, removed, replaced, frozen, freed or converted."
            " Make a new Problem(module, ...)."
        )
    changed = False
    with torch.no_grad():
        for name, tensor in fixed.items():
            leading = communicator.broadcast(tensor.detach().clone())
            for other in (tensor, seen[name]):
                if not torch.equal(other, leading):
                    if other.shape != leading.shape:
                        other.data = torch.empty_like(leading)
                    other.copy_(leading)
                    changed = True
    return changed


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
