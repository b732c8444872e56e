"""F and J on a batch that is spread over processes: locally on our rows, or gathered from all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.errors import MemoryBudgetError
from proxlin.linearize.linearization import Linearization, linearize, random_signs
from proxlin.problem import Problem
from proxlin.problem.scales import Scales, scales_of
from proxlin.problem.shards import LocalBatch


class NoRows(Linearization):
    """F and J of no rows, on a process that has none of the batch."""

    def __init__(self, problem: Problem, theta: Tensor) -> None:
        self.anchor = theta.detach()
        self.residual = theta.new_empty(0, problem.n_outputs)

    def apply(self, direction: Tensor) -> Tensor:
        """No rows."""
        return torch.empty_like(self.residual)

    def adjoint(self, cotangent: Tensor) -> Tensor:
        """The empty sum."""
        return self.anchor.new_zeros(*cotangent.shape[:-2], len(self.anchor))

    def probes(
        self,
        weights: Tensor,
        count: int,
        generator: torch.Generator | None = None,
        batch: LocalBatch | None = None,
    ) -> Tensor:
        """Zeros; the signs are drawn all the same, so that generators stay alike."""
        for _ in range(count):
            random_signs(self.residual, 0 if batch is None else batch.n_rows, generator)
        return self.anchor.new_zeros(count, len(self.anchor))

    def rows(self, out: Tensor | None = None) -> Tensor:
        """No rows."""
        return self.anchor.new_empty(*self.residual.shape, len(self.anchor))


class Gathered(Linearization):
    """F and J of a whole batch on every process, each of which computes those of its own rows.

    `residual`, `apply` and `rows` give all rows of the batch, `adjoint` takes all of them: for
    solvers whose linear algebra is small beside the derivatives and is done alike everywhere.
    """

    def __init__(self, own: Linearization, batch: LocalBatch) -> None:
        self._own = own
        self._local = batch
        self.anchor = own.anchor
        self.residual = batch.gathered(own.residual)

    def apply(self, direction: Tensor) -> Tensor:
        """J d, (B, N)."""
        return self._local.gathered(self._own.apply(direction))

    def adjoint(self, cotangent: Tensor) -> Tensor:
        """sum_i J_i^T u_i, (d,) for u of shape (B, N); (K, d) for u of shape (K, B, N)."""
        return self._local.communicator.sum(self._own.adjoint(self._local.own(cotangent)))

    def rows(self, out: Tensor | None = None) -> Tensor:
        """J in full, (B, N, d); refused everywhere if it is too large for one process."""
        communicator = self._local.communicator
        own: Tensor | None = None
        reason = ""
        try:
            own = self._own.rows()
        except MemoryBudgetError as error:
            reason = str(error)
        (refused,) = communicator.largest([float(own is None)])
        if refused or own is None:
            raise MemoryBudgetError(next(filter(None, communicator.each(reason))))
        return self._local.gathered(own)


def linearize_local(
    problem: Problem, theta: Tensor, batch: LocalBatch, *, max_bytes: int = 2**30
) -> Linearization:
    """F and J at theta for our rows of a batch, of which there may be none."""
    if not batch.count:
        return NoRows(problem, theta)
    return linearize(problem, theta, batch.tensors, max_bytes=max_bytes)


def linearize_gathered(
    problem: Problem, theta: Tensor, batch: LocalBatch, *, max_bytes: int = 2**30
) -> Linearization:
    """F and J at theta for all rows of a batch, whoever holds them."""
    own = linearize_local(problem, theta, batch, max_bytes=max_bytes)
    return own if batch.communicator.size == 1 else Gathered(own, batch)


@dataclass(frozen=True)
class LinearizedPart:
    """A part of a batch at theta: our rows of it, and what all rows of it are like."""

    batch: LocalBatch
    model: Linearization
    losses: Tensor  # (b,) of our rows
    scales: Scales


def linearize_parts(
    problem: Problem, theta: Tensor, batch: LocalBatch, size: int
) -> Iterator[LinearizedPart]:
    """Each `size` rows of the batch, linearised, with their losses and scales."""
    parts = batch.parts(size)
    if batch.communicator.size == 1:  # one after the other, while its numbers are in the cache
        for part in parts:
            yield from _opened(problem, theta, [part])
    else:
        yield from _opened(problem, theta, list(parts))


def _opened(problem: Problem, theta: Tensor, parts: list[LocalBatch]) -> Iterator[LinearizedPart]:
    models = [linearize_local(problem, theta, part) for part in parts]
    residuals = [model.residual for model in models]
    losses = [problem.loss(residual) for residual in residuals]
    scales = scales_of(parts, residuals, losses, clip=problem.loss.bounded_slope)
    yield from map(LinearizedPart, parts, models, losses, scales)
