"""The convex model of the objective around an anchor: F is linearised, the norm is kept (Eq. 7)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from proxlin.errors import InvalidInputError
from proxlin.linearize import Linearization, linearize, linearize_gathered
from proxlin.methods.subproblem.bregman import Bregman, bound
from proxlin.methods.subproblem.metric import Euclidean, Metric
from proxlin.problem import Problem
from proxlin.problem.rows import Batch
from proxlin.terms import Penalty

_LONGEST = 1e3  # median losses


class ConvexModel:
    """theta -> (1/n) sum_i ||F_i + J_i s||_p + g(theta) + 1/2 ||s||_H^2 with s = theta - anchor.

    F_i and J_i are taken at the anchor; H is the metric of the proximal term (h I in Eq. 6). Rows
    whose loss is beyond a thousand medians are shortened to that: their slope, which is all that
    they say about a step, stays, and float32 still shows how a step changes them.
    """

    def __init__(
        self,
        problem: Problem,
        anchor: Tensor,
        metric: Metric | Bregman | None = None,
        *,
        max_bytes: int = 2**30,
    ) -> None:
        if problem.p == "mse":
            raise InvalidInputError(
                'the convex model keeps a norm, so p must be a number >= 1 or inf; got "mse".'
                ' Use p=2, or method="probed" for the mean squared error.'
            )
        self.problem = problem
        self.anchor = anchor.detach()
        self.metric: Metric = bound(metric or Euclidean(), problem, self.anchor)
        self.metric.weights(self.anchor)  # refuses weights of another length at once
        self.max_bytes = max_bytes
        self._longest = _LONGEST * problem.median_loss(self.anchor)
        self.loss = problem.loss
        self.p = problem.p

    @property
    def penalty(self) -> Penalty:
        """The regulariser and the constraint as one proximal object."""
        return self.problem.penalty

    @property
    def n_rows(self) -> int:
        """The number n of rows."""
        return self.problem.n_rows

    def sample(self, size: int, generator: torch.Generator) -> Tensor:
        """Row numbers drawn independently and uniformly (App. E)."""
        return torch.randint(self.n_rows, (size,), generator=generator)

    def linearization(self, index: Tensor | None = None) -> Linearization:
        """F and J at the anchor on the given rows, or on all."""
        batch = self.problem.take(slice(0, self.n_rows) if index is None else index)
        rows = linearize_gathered(self.problem, self.anchor, batch, max_bytes=self.max_bytes)
        return self._shortened(rows)

    def _linearize(self, batch: Batch) -> Linearization:
        rows = linearize(self.problem, self.anchor, batch, max_bytes=self.max_bytes)
        return self._shortened(rows)

    def _shortened(self, rows: Linearization) -> Linearization:
        losses = self.problem.loss(rows.residual).unsqueeze(1)
        if 0 < self._longest < float(losses.max()):
            rows.residual = rows.residual * (self._longest / losses).clamp_max(1.0)
        return rows

    def value(self, theta: Tensor, index: Tensor | None = None) -> float:
        """The model at theta over all rows, or over a sample of them."""
        losses = [
            self.problem.loss(predicted).double()
            for _, predicted in self._predictions(theta, index)
        ]
        return self._mean(losses, index) + self._terms(theta)

    def decrease(self, theta: Tensor, index: Tensor | None = None) -> float:
        """Delta of Eq. 17: the model at theta minus the model at the anchor, on the same rows."""
        loss = self.problem.loss
        changes = [
            loss(predicted).double() - loss(residual).double()
            for residual, predicted in self._predictions(theta, index)
        ]
        return self._mean(changes, index) + self._terms(theta) - self._terms(self.anchor)

    def _mean(self, values: list[Tensor], index: Tensor | None) -> float:
        return self.problem.mean(values, self.n_rows if index is None else len(index))

    def _predictions(self, theta: Tensor, index: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
        """F and F + J (theta - anchor) of all rows or a sample, a bounded number at a time."""
        size = max(1, self.problem.chunk_rows // 2)  # two passes at once need half the rows
        for batch in self.problem.chunks(size, index):
            linearization = self._linearize(batch)
            predicted = linearization.residual + linearization.apply(theta - self.anchor)
            yield linearization.residual, predicted

    def _terms(self, theta: Tensor) -> float:
        """g(theta) + 1/2 ||theta - anchor||_H^2 in float64: `decrease` is a small difference."""
        exact = theta.double()
        distance = self.metric.distance(exact, self.anchor.double())
        return float(self.penalty.value(exact) + distance)
