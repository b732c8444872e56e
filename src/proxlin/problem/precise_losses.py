"""Losses and their changes in float64, for rows too large to show a change in float32.

A float32 loss of 10^9 changes by 64 or not at all, which hides what the other rows do. Rows whose
loss is that much larger than the median are evaluated in float64 throughout.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin.problem.loss import Pinball, RowLoss, loss_change
from proxlin.problem.residual import ResidualModule, difference
from proxlin.problem.rows import Batch
from proxlin.problem.scales import median
from proxlin.terms.layout import Layout

_RESOLUTION = 1e-5  # of the median loss: smaller changes of a row need not be seen


class PreciseLosses:
    """The losses of a problem in float32 whose module is evaluated in float64 where needed."""

    def __init__(self, residual: ResidualModule, layout: Layout, loss: RowLoss | Pinball) -> None:
        self._residual, self._layout, self._loss = residual, layout, loss
        self._double: ResidualModule | None = None  # a copy in float64, made for the first row

    def losses(self, theta: Tensor, batch: Batch, losses: Tensor) -> Tensor:
        """The loss of each row in float64, (b,), from those in float32."""
        exact, coarse = losses.double(), _coarse(losses)
        residual = self._evaluate(theta, batch, coarse)
        return exact if residual is None else exact.masked_scatter(coarse, self._loss(residual))

    def sum_of_changes(
        self, before: Tensor, after: Tensor, batch: Batch, losses: tuple[Tensor, Tensor]
    ) -> Tensor:
        """The sum over the rows of how their losses change; `losses` are those in float32.

        Rows too large for float32 enter by their slope times the change of their residual.
        """
        changes = losses[1].double() - losses[0].double()
        coarse = _coarse(losses[0])
        target: Tensor | float = 0.0
        if self._residual.rule is difference and len(batch) == 2:
            # Targets cancel in the change of a residual: they are added at the end.
            target = batch[1].reshape(len(coarse), -1)[coarse].double()
            batch = (batch[0], torch.zeros_like(batch[1]))
        old = self._evaluate(before, batch, coarse)
        new = self._evaluate(after, batch, coarse)
        if old is None or new is None:
            return changes.sum()
        return changes[~coarse].sum() + loss_change(self._loss, old - target, new - old).sum()

    def _evaluate(self, theta: Tensor, batch: Batch, chosen: Tensor) -> Tensor | None:
        """The residual of the chosen rows in float64; None if there are none or it has no such."""
        if not bool(chosen.any()):
            return None
        if self._double is None:
            self._double = self._residual.copied().double()
        values = {name: tensor.double() for name, tensor in self._layout.split(theta).items()}
        rows = [t[chosen].double() if t.is_floating_point() else t[chosen] for t in batch]
        try:
            residual = self._double.at(values, tuple(rows))
        except RuntimeError:  # the module holds constants of its own in float32
            return None
        return residual.double()


def _coarse(losses: Tensor) -> Tensor:
    """Which losses are too large to show changes of a hundred-thousandth of the median, (b,)."""
    return losses > _RESOLUTION / torch.finfo(losses.dtype).eps * median(losses)
