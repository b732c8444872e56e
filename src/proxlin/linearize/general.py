"""Dense Jacobian rows of any module by torch.func, a bounded number of directions at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from proxlin.linearize.differentiable import Differentiable, rows_of
from proxlin.linearize.torch_modes import all_derivatives, unfolds
from proxlin.problem.rows import Batch

_LOG = logging.getLogger("proxlin")

# A batched pass holds, for each direction, about this many times what a forward pass keeps.
_COPIES = 4
# More directions at once do not run faster.
_COMFORTABLE = 2**26


@dataclass(frozen=True)
class General:
    """The Jacobian rows of a residual at one theta: what they need, and the rows."""

    problem: Differentiable
    anchor: Tensor
    row_bytes: int  # kept by the forward pass of one sample

    def per_direction(self, outputs: int) -> int:
        """The bytes of workspace for one direction of one sample."""
        copies = _COPIES
        if unfolds(self.anchor.dtype):
            kernels = (getattr(m, "kernel_size", 1) for m in self.problem.network.modules())
            copies += max(prod(k) if isinstance(k, tuple) else 1 for k in kernels)
        return copies * (self.row_bytes + self.anchor.nbytes) + 4 * outputs * self.anchor.itemsize

    def fill(self, rows: Tensor, batch: Batch, max_bytes: int) -> None:
        """Write dF/dtheta into `rows` (B, N, d) with at most `max_bytes` of workspace."""
        at_once = max(1, min(_COMFORTABLE, max_bytes) // self.per_direction(rows.shape[1]))
        roads: list[Callable[[Tensor, Batch, int], None]] = [self._reverse, self._one_by_one]
        if rows.shape[1] > rows.shape[2]:
            roads.insert(0, self._forward)
        for road in roads:
            try:
                with all_derivatives():
                    return road(rows, batch, at_once)
            except RuntimeError as reason:
                if road == roads[-1]:
                    raise
                _LOG.debug("%s cannot be batched: %s", type(self.problem.network).__name__, reason)
        return None

    def _reverse(self, rows: Tensor, batch: Batch, at_once: int) -> None:
        """J^T e_o for blocks of outputs o."""

        def pulled(units: Tensor, sample: Batch) -> Tensor:
            pull = vjp(lambda theta: self._single(theta, sample), self.anchor)[1]
            block: Tensor = vmap(lambda unit: pull(unit)[0])(units)
            return block

        _fill_blocks(rows, batch, at_once, pulled)

    def _forward(self, rows: Tensor, batch: Batch, at_once: int) -> None:
        """J e_j for blocks of parameters j."""

        def pushed(units: Tensor, sample: Batch) -> Tensor:
            def push(unit: Tensor) -> Tensor:
                tangent: Tensor = jvp(
                    lambda theta: self._single(theta, sample), (self.anchor,), (unit,)
                )[1]
                return tangent

            block: Tensor = vmap(push)(units)
            return block

        _fill_blocks(rows.transpose(1, 2), batch, at_once, pushed)

    def _one_by_one(self, rows: Tensor, batch: Batch, _at_once: int) -> None:
        """J^T e_o for one output of one sample at a time: slow, and possible for every module."""
        leaf = self.anchor.detach().requires_grad_(True)
        for i in range(len(rows)):
            with torch.enable_grad():
                residual = self.problem.residual(leaf, rows_of(batch, slice(i, i + 1)))[0]
            if not residual.requires_grad:
                rows[i] = 0
                continue
            for o in range(rows.shape[1]):
                (rows[i, o],) = torch.autograd.grad(residual[o], leaf, retain_graph=True)

    def _single(self, theta: Tensor, sample: Batch) -> Tensor:
        return self.problem.residual(theta, tuple(tensor.unsqueeze(0) for tensor in sample))[0]


def _fill_blocks(
    rows: Tensor, batch: Batch, at_once: int, block: Callable[[Tensor, Batch], Tensor]
) -> None:
    """rows[i] = block(identity, sample i) for rows (B, K, ...), so many unit vectors at once."""
    count = rows.shape[1]
    width = min(count, at_once)
    samples = max(1, at_once // width)
    numbers = torch.arange(count, device=rows.device)
    for first in range(0, count, width):
        units = (numbers[first : first + width, None] == numbers).to(rows.dtype)
        for i in range(0, len(rows), samples):
            some = slice(i, i + samples)
            part = vmap(block, in_dims=(None, 0))(units, rows_of(batch, some))
            rows[some, first : first + width] = part
