"""What linearisation needs of a problem, and the memory that its graph of one sample takes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from proxlin.problem.rows import Batch
from proxlin.terms.layout import Layout


class Differentiable(Protocol):
    """F: theta -> one residual row for each sample, as a pure function of theta."""

    @property
    def layout(self) -> Layout:
        """The order of the trainable parameters in theta."""
        ...

    @property
    def network(self) -> nn.Module:
        """The module that `residual` evaluates, in eval mode."""
        ...

    @property
    def affine_in_output(self) -> bool:
        """Whether residual(theta, batch) = (network(batch[0]) - constant).flatten(1)."""
        ...

    @property
    def cache(self) -> dict[Hashable, Any]:
        """What linearisations keep from batch to batch; it lives as long as the problem."""
        ...

    def residual(self, theta: Tensor, batch: Batch) -> Tensor:
        """F(theta; batch), shape (B, N); row i depends on sample i only."""
        ...


@dataclass(frozen=True)
class Footprint:
    """What the graph of one sample holds."""

    bytes_per_row: int  # beyond theta, the batch and the module's own tensors
    custom: bool  # whether a user's autograd.Function is part of it


def footprint(problem: Differentiable, theta: Tensor, batch: Batch) -> Footprint:
    """Look at the graph of F(theta; one sample); remembered for samples of the same shape."""
    key = ("footprint", theta.dtype, *((t.shape[1:], t.dtype) for t in batch))
    if key not in problem.cache:
        leaf = theta.detach().requires_grad_(True)
        with torch.enable_grad():
            residual = problem.residual(leaf, rows_of(batch, slice(0, 1)))
        shared = (leaf, *batch, *problem.network.state_dict().values())
        own = {_block(tensor)[0] for tensor in shared}
        nodes = list(_nodes(residual))
        held = dict(_block(tensor) for node in nodes for tensor in _saved(node))
        total = sum(size for place, size in held.items() if place not in own)
        custom = any(map(_is_custom, nodes))
        problem.cache[key] = Footprint(total + residual.nbytes, custom)
    measured: Footprint = problem.cache[key]
    return measured


def rows_of(batch: Batch, some: slice) -> Batch:
    """The chosen samples of a batch."""
    return tuple(tensor[some] for tensor in batch)


def _block(tensor: Tensor) -> tuple[int, int]:
    """Where a tensor's memory is and how large: views of one tensor share it."""
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    except RuntimeError:  # wrapped by a derivative taken inside the residual
        return id(tensor), tensor.nbytes


def _nodes(value: Tensor) -> Iterator[Any]:
    """The operations behind `value`."""
    seen: set[Any] = set()
    pending: list[Any] = [value.grad_fn]
    while pending:
        node = pending.pop()
        if node is not None and node not in seen:
            seen.add(node)
            pending += [parent for parent, _ in node.next_functions]
            yield node


def _is_custom(node: Any) -> bool:
    """Whether a user has written the operation; torch itself has that of full backward hooks."""
    return isinstance(node, BackwardCFunction) and "BackwardHookFunction" not in type(node).__name__


def _saved(node: Any) -> Iterator[Tensor]:
    """The tensors that an operation keeps for the way back."""
    names = [name for name in dir(node) if name.startswith("_saved_")]
    for name in (*names, "saved_tensors"):
        item = getattr(node, name, None)
        parts = item if isinstance(item, tuple | list) else (item,)
        yield from (part for part in parts if isinstance(part, Tensor))
