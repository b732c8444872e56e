"""F and J on a batch that is spread over processes: locally on our share, or gathered from all."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.errors import MemoryBudgetError
from proxlin.linearize.linearization import Linearization, linearize, random_signs
from proxlin.problem import Problem
from proxlin.problem.parallel import Communicator
from proxlin.problem.shards import Share


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
        share: Share | None = None,
    ) -> Tensor:
        """Zeros; the signs are drawn all the same, so that generators stay alike."""
        for _ in range(count):
            random_signs(self.residual, 0 if share is None else share.n_rows, generator)
        return self.anchor.new_zeros(count, len(self.anchor))

    def rows(self, out: Tensor | None = None) -> Tensor:
        """No rows."""
        return self.anchor.new_empty(*self.residual.shape, len(self.anchor))


class Gathered(Linearization):
    """F and J of a whole batch on every process, each of which computes its share of it.

    `residual`, `apply` and `rows` give all rows of the batch, `adjoint` takes all of them: for
    solvers whose linear algebra is small beside the derivatives and is done alike everywhere.
    """

    def __init__(self, own: Linearization, share: Share, communicator: Communicator) -> None:
        self._own = own
        self._share = share
        self._communicator = communicator
        self.anchor = own.anchor
        self.residual = share.spread(own.residual, communicator)

    def apply(self, direction: Tensor) -> Tensor:
        """J d, (B, N)."""
        return self._share.spread(self._own.apply(direction), self._communicator)

    def adjoint(self, cotangent: Tensor) -> Tensor:
        """sum_i J_i^T u_i, (d,) for u of shape (B, N); (K, d) for u of shape (K, B, N)."""
        return self._communicator.sum(self._own.adjoint(self._share.of(cotangent)))

    def rows(self, out: Tensor | None = None) -> Tensor:
        """J in full, (B, N, d); refused everywhere if it is too large for one process."""
        found: Tensor | None = None
        reason = ""
        try:
            found = self._own.rows()
        except MemoryBudgetError as error:
            reason = str(error)
        (refused,) = self._communicator.largest([float(found is None)])
        if refused or found is None:
            raise MemoryBudgetError(next(filter(None, self._communicator.each(reason))))
        return self._share.spread(found, self._communicator)


def linearize_share(
    problem: Problem, theta: Tensor, share: Share, *, max_bytes: int = 2**30
) -> Linearization:
    """F and J at theta for our rows of a batch, of which there may be none."""
    if not share.rows:
        return NoRows(problem, theta)
    return linearize(problem, theta, share.batch, max_bytes=max_bytes)


def linearize_gathered(
    problem: Problem, theta: Tensor, share: Share, *, max_bytes: int = 2**30
) -> Linearization:
    """F and J at theta for all rows of a batch, whoever holds them."""
    own = linearize_share(problem, theta, share, max_bytes=max_bytes)
    if share.positions is None:
        return own
    return Gathered(own, share, problem.communicator)
