"""J d and J^T u without J, on the graph of one forward pass or, if that is too large, on slices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.autograd import forward_ad

from proxlin.errors import UnsupportedModuleError
from proxlin.linearize.differentiable import Differentiable, footprint, rows_of
from proxlin.linearize.torch_modes import all_derivatives, quietly
from proxlin.problem.rows import Batch

_LOG = logging.getLogger("proxlin")

# Forward values are kept once for J^T u, and about twice more for J d.
_GRAPHS = 3
# Below this many bytes of graph, calls cost more than work, and cotangents are worth batching.
_SMALL_GRAPH = 2**21


class Products:
    """F(anchor), d -> J d and u -> sum_i J_i^T u_i for the samples of a batch."""

    def __init__(
        self, problem: Differentiable, anchor: Tensor, batch: Batch, max_bytes: int
    ) -> None:
        self.problem = problem
        self.anchor = anchor
        self.batch = batch
        self.row_bytes = footprint(problem, anchor, batch).bytes_per_row
        rows = len(batch[0])
        self._slice = max(1, min(rows, max_bytes // (_GRAPHS * self.row_bytes)))
        self._tape = _Tape(problem, anchor, batch) if self._slice == rows else None
        if self._tape is not None:
            self.residual = self._tape.residual.detach()
        else:
            with torch.no_grad():
                parts = [problem.residual(anchor, part) for part in self._parts()]
            self.residual = torch.cat(parts)

    @property
    def graph_bytes(self) -> int:
        """The memory that the kept graph holds."""
        return 0 if self._tape is None else _GRAPHS * self.row_bytes * len(self.residual)

    def release(self) -> None:
        """Give up the kept graph; it is made again when it is needed."""
        self._tape = None

    def apply(self, direction: Tensor) -> Tensor:
        """J d, shape (B, N)."""
        if self._slice == len(self.residual):
            return self._kept().apply(direction)
        pieces = (_Tape(self.problem, self.anchor, part) for part in self._parts())
        return torch.cat([tape.apply(direction) for tape in pieces])

    def adjoint(self, cotangents: Tensor) -> Tensor:
        """sum_i J_i^T u_i, shape (d,), for u of shape (B, N); (K, d) for u of shape (K, B, N)."""
        if self._slice == len(self.residual):
            return self._kept().adjoint(cotangents)
        total = cotangents.new_zeros(*cotangents.shape[:-2], len(self.anchor))
        pieces = torch.split(cotangents, self._slice, dim=-2)
        for part, piece in zip(self._parts(), pieces, strict=True):
            total += _Tape(self.problem, self.anchor, part).adjoint(piece)
        return total

    def _parts(self) -> Iterator[Batch]:
        for first in range(0, len(self.batch[0]), self._slice):
            yield rows_of(self.batch, slice(first, first + self._slice))

    def _kept(self) -> _Tape:
        if self._tape is None:
            self._tape = _Tape(self.problem, self.anchor, self.batch)
        return self._tape


class _Tape:
    """The graph of F(anchor; batch), kept for as many products as are asked for."""

    def __init__(self, problem: Differentiable, anchor: Tensor, batch: Batch) -> None:
        self.problem = problem
        self.batch = batch
        self.leaf = anchor.detach().requires_grad_(True)
        self.print = footprint(problem, anchor, batch)
        with torch.enable_grad():
            self.residual = problem.residual(self.leaf, batch)
        self._twice: tuple[Tensor, Tensor] | None = None
        self._plain: _Tape | None = None
        self._road: Callable[[Tensor], Tensor] | None = None

    def adjoint(self, cotangents: Tensor) -> Tensor:
        """J^T u for one u (B, N) or for several (K, B, N)."""
        if not self.residual.requires_grad:
            return cotangents.new_zeros(*cotangents.shape[:-2], len(self.leaf))
        if cotangents.ndim == 2:
            return self._pull(cotangents)
        if len(cotangents) == 1:
            return self._pull(cotangents[0]).unsqueeze(0)
        held = self.print.bytes_per_row * len(self.residual)
        if held <= _SMALL_GRAPH:
            try:
                at_once = max(1, _SMALL_GRAPH * 8 // held)
                with quietly():
                    pulled: Tensor = torch.vmap(self._pull, chunk_size=at_once)(cotangents)
                return pulled
            except RuntimeError as reason:
                _LOG.debug("cotangents are taken one by one: %s", reason)
        return torch.stack([self._pull(cotangent) for cotangent in cotangents])

    def _pull(self, cotangent: Tensor) -> Tensor:
        return torch.autograd.grad(self.residual, self.leaf, cotangent, retain_graph=True)[0]

    def apply(self, direction: Tensor) -> Tensor:
        """J d by the first road that the module's operations allow."""
        if not self.residual.requires_grad:
            return torch.zeros_like(self.residual)
        if self._road is not None:
            return self._road(direction)
        # Forward mode costs up to twice as much and may load torch's compiler, which takes seconds.
        roads = [self._backward_twice, self._plain_backward_twice, self._forward]
        # A backward pass of the user's own may hide from the second differentiation what it
        # does, while forward mode says so.
        if self.print.custom:
            roads = [self._forward, self._checked_backward_twice]
        reasons: list[str] = []
        for road in roads:
            try:
                product = road(direction)
            except RuntimeError as reason:
                reasons.append(str(reason).split("\n")[0])
            else:
                self._road = road
                return product
        raise UnsupportedModuleError(
            "J d needs forward-mode or twice differentiable operations and the module has one that"
            f" is neither ({reasons[-1].rstrip('.')}). Replace that operation, or use a method that"
            " needs gradients only: Adam(), or Probed(batch_size=...) with fewer than all rows."
        )

    def _backward_twice(self, direction: Tensor) -> Tensor:
        """J d = d/du <J^T u, d>, for u -> J^T u is linear."""
        if self._twice is None:
            at = torch.zeros_like(self.residual, requires_grad=True)
            with torch.enable_grad():
                (pulled,) = torch.autograd.grad(self.residual, self.leaf, at, create_graph=True)
            self._twice = (pulled, at)
        pulled, at = self._twice
        return torch.autograd.grad(pulled, at, direction, retain_graph=True)[0]

    def _checked_backward_twice(self, direction: Tensor) -> Tensor:
        product = self._backward_twice(direction)
        here, there = product.square().sum(), self._pull(product).dot(direction)
        if (here - there).abs() > 1e-3 * here:
            raise RuntimeError("its backward pass is not differentiable")
        return product

    def _forward(self, direction: Tensor) -> Tensor:
        with all_derivatives(), forward_ad.dual_level():
            dual = forward_ad.make_dual(self.leaf.detach(), direction)  # type: ignore[no-untyped-call]
            value = self.problem.residual(dual, self.batch)
            tangent: Tensor | None = forward_ad.unpack_dual(value).tangent  # type: ignore[no-untyped-call]
        return torch.zeros_like(self.residual) if tangent is None else tangent.detach()

    def _plain_backward_twice(self, direction: Tensor) -> Tensor:
        with all_derivatives():
            if self._plain is None:
                self._plain = _Tape(self.problem, self.leaf, self.batch)
            return self._plain._backward_twice(direction)
