"""F(theta + d) ~ F(theta) + J d on a batch: F, J and its transpose as operators, dense rows."""

from __future__ import annotations

import logging
from functools import cached_property

import torch
from torch import Tensor

from proxlin._checks import check_count
from proxlin.errors import InvalidInputError, MemoryBudgetError, UnsupportedModuleError
from proxlin.linearize.differentiable import Differentiable, rows_of
from proxlin.linearize.general import General
from proxlin.linearize.layerwise.chain import read_chain
from proxlin.linearize.layerwise.jacobian_rows import Layerwise
from proxlin.linearize.layerwise.record import NotAChainError, Weights
from proxlin.linearize.products import Products
from proxlin.problem.rows import Batch
from proxlin.problem.shards import LocalBatch

_LOG = logging.getLogger("proxlin")


class Linearization:
    """F and J = dF/dtheta at an anchor, for the samples of one batch.

    Attributes
    ----------
    anchor
        theta, shape (d,).
    residual
        F(theta), shape (B, N), detached.
    """

    def __init__(
        self, problem: Differentiable, theta: Tensor, batch: Batch, max_bytes: int = 2**30
    ) -> None:
        self.anchor = theta.detach()
        self.max_bytes = check_count("linearize(max_bytes=...)", max_bytes)
        self._problem = problem
        self._batch = batch
        self._products = Products(problem, self.anchor, batch, self.max_bytes)
        self.residual = self._products.residual

    def apply(self, direction: Tensor) -> Tensor:
        """J d, shape (B, N), for d of shape (d,)."""
        self._check("direction", direction, self.anchor.shape)
        return self._products.apply(direction.detach())

    def adjoint(self, cotangent: Tensor) -> Tensor:
        """sum_i J_i^T u_i, shape (d,), for u of shape (B, N); (K, d) for u of shape (K, B, N)."""
        several = cotangent.ndim == self.residual.ndim + 1
        expected = (*cotangent.shape[:1], *self.residual.shape) if several else self.residual.shape
        self._check("cotangent", cotangent, expected)
        return self._products.adjoint(cotangent.detach())

    def probes(
        self,
        weights: Tensor,
        count: int,
        generator: torch.Generator | None = None,
        batch: LocalBatch | None = None,
    ) -> Tensor:
        """v = J^T (sqrt(w) * signs) / sqrt(B), shape (count, d), with new random signs for each.

        E[v v^T] = (1/B) sum_i J_i^T diag(w_i) J_i for weights w >= 0 of shape (B, N). For this
        process's rows of a `batch`, B and the signs are those of the whole of it: the sum over all
        processes is the probe that one process would have drawn.
        """
        self._check("weights", weights, self.residual.shape)
        check_count("count", count)
        batch = batch or LocalBatch(self._batch, len(weights))
        scale = weights.detach().sqrt() / batch.n_rows**0.5
        at_once = max(1, self.max_bytes // 4 // max(1, scale.nbytes))
        probes: list[Tensor] = []
        for first in range(0, count, at_once):
            # One draw for each probe: the bits do not depend on how many are taken together.
            signs = [
                batch.own(random_signs(scale, batch.n_rows, generator))
                for _ in range(min(at_once, count - first))
            ]
            probes.append(self._products.adjoint(torch.stack(signs).mul_(scale)))
        return probes[0] if len(probes) == 1 else torch.cat(probes)

    @property
    def path(self) -> str:
        """How `rows` are computed: "chain" (layer by layer) or "general" (torch.func)."""
        return "general" if self._layerwise is None else "chain"

    def rows(self, out: Tensor | None = None) -> Tensor:
        """J in full, shape (B, N, d), within `max_bytes` together with what its making needs.

        With `out`, a tensor of that shape, its memory is used again: where J is computed in a
        loop, fresh memory from the system can cost as much as the computation.
        """
        outputs, size = self.residual.shape[1], len(self.anchor)
        result = self.residual.numel() * size * self.anchor.itemsize
        layerwise = self._layerwise
        general = General(self._problem, self.anchor, self._products.row_bytes)
        least = layerwise.workspace.least if layerwise else general.per_direction(outputs)
        if result + least > self.max_bytes:
            raise MemoryBudgetError(self._too_large(result + least))
        if result + least + self._products.graph_bytes > self.max_bytes // 2:
            self._products.release()
        free = self.max_bytes - result - self._products.graph_bytes
        if out is not None:
            self._check("out", out, (*self.residual.shape, size))
        rows = self.residual.new_empty(*self.residual.shape, size) if out is None else out
        if layerwise is not None:
            self._fill(rows, layerwise, free)
            if layerwise.correct is None:
                layerwise.correct = self._is_correct(rows[0])
            if layerwise.correct is not False:
                return rows
            _LOG.warning(
                "The layers of %s do not reproduce its derivative; torch.func is used instead.",
                type(self._problem.network).__name__,
            )
            del self._layerwise
        general.fill(rows, self._batch, free)
        return rows

    def _check(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
        if tensor.shape != torch.Size(shape) or tensor.dtype != self.anchor.dtype:
            raise InvalidInputError(
                f"{name} must have shape {tuple(shape)} and type {self.anchor.dtype};"
                f" got {tuple(tensor.shape)} and {tensor.dtype}."
            )

    def _too_large(self, needed: int) -> str:
        batch, outputs = self.residual.shape
        return (
            f"dense Jacobian rows of {batch} samples x {outputs} outputs x {len(self.anchor)}"
            f" parameters need {needed / 2**20:.1f} MiB and max_bytes allows"
            f" {self.max_bytes / 2**20:.1f} MiB; lower the batch size, raise max_bytes, or use a"
            " matrix-free solver, which needs J d and J^T u only."
        )

    @cached_property
    def _layerwise(self) -> Layerwise | None:
        """The pass through the layers, kept for samples of the same shape."""
        problem, x = self._problem, self._batch[0]
        if not problem.affine_in_output or x.dtype != self.anchor.dtype:
            return None
        chain = read_chain(problem)
        if chain is None:
            return None
        key = ("layerwise", chain, x.shape[1:], x.dtype, x.device)
        if key not in problem.cache:
            try:
                problem.cache[key] = Layerwise(chain, self._weights, x)
            except NotAChainError as reason:
                _LOG.debug("%s is not a chain: %s", type(problem.network).__name__, reason)
                return None
        layerwise: Layerwise = problem.cache[key]
        usable = layerwise.outputs == self.residual.shape[1] and layerwise.correct is not False
        return layerwise if usable else None

    @property
    def _weights(self) -> Weights:
        return Weights(self._problem.network, self._problem.layout.split(self.anchor))

    def _fill(self, rows: Tensor, layerwise: Layerwise, max_bytes: int) -> None:
        layout = self._problem.layout
        columns = {name: layout.slice(name) for name in layout.names}
        layerwise.fill(rows, self._batch[0], self._weights, columns, max_bytes=max_bytes)

    def _is_correct(self, rows: Tensor) -> bool | None:
        """Whether J_1^T u agrees with automatic differentiation for one u of random signs.

        None if that cannot be said, because theta has diverged.
        """
        first = Products(self._problem, self.anchor, rows_of(self._batch, slice(0, 1)), 2**62)
        signs = random_signs(first.residual, 1, torch.Generator(rows.device).manual_seed(0))
        error = signs.flatten() @ rows - first.adjoint(signs)
        if not bool(error.isfinite().all()):
            return None
        tolerance = 1e-3 if rows.dtype == torch.float32 else 1e-8
        return bool(error.norm() <= tolerance * rows.abs().sum(0).norm())


def linearize(
    problem: Differentiable, theta: Tensor, batch: Batch, *, max_bytes: int = 2**30
) -> Linearization:
    """F(theta + d) ~ F(theta) + J d: F and J at theta for the samples of `batch`.

    >>> from torch import nn
    >>> from proxlin.problem import Problem
    >>> x = torch.tensor([[1.0, 2.0]])
    >>> problem = Problem(nn.Linear(2, 1), (x, torch.zeros(1, 1)))
    >>> linearize(problem, problem.theta(), (x, torch.zeros(1, 1))).rows()
    tensor([[[1., 2., 1.]]])
    """
    return Linearization(problem, theta, batch, max_bytes)


def has_products(problem: Differentiable, theta: Tensor, batch: Batch) -> bool:
    """Whether the module has products J d; some operations know J^T u alone."""
    try:
        linearize(problem, theta, batch).apply(torch.ones_like(theta))
    except UnsupportedModuleError:
        return False
    return True


def random_signs(like: Tensor, rows: int, generator: torch.Generator | None) -> Tensor:
    """+1 and -1 at random, as many rows as said, each like those of `like` (B, N)."""
    # A generator belongs to a device, which need not be that of the data.
    device = like.device if generator is None else generator.device
    signs = torch.empty((rows, *like.shape[1:]), dtype=like.dtype, device=device)
    return signs.random_(0, 2, generator=generator).mul_(2).sub_(1).to(like.device)
