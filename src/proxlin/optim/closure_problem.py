"""A problem whose rows come from a closure: what `minimize` knows of its data, without the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor, nn

from proxlin.errors import InvalidInputError, NonFiniteError, UnsupportedModuleError, said
from proxlin.linearize.differentiable import Footprint
from proxlin.optim.draws import Draws
from proxlin.optim.row_units import RowUnits, row_units, warn_of_size
from proxlin.problem import Problem
from proxlin.problem.last_layer import penalty_in_units
from proxlin.problem.loss import Exponent, RowLoss
from proxlin.problem.parallel import Communicator, communicator
from proxlin.problem.residual import row_hint
from proxlin.problem.rows import Batch
from proxlin.problem.shards import LocalBatch
from proxlin.terms import Constraint, Penalty, Regularizer
from proxlin.terms.layout import Layout

Closure = Callable[[], Tensor]  # -> residual rows (B, N) of one batch at the present parameters


class ClosureProblem(Problem):
    """(1/B) sum_i ||r_i||_p + g(theta), r the rows that a closure returns for its present batch.

    A batch is the numbers of its rows: the closure alone knows what they are rows of. It is called
    once for each new batch, and again at another theta where a step is checked, with the same
    random numbers of torch: what dropout leaves out is no change of the loss. Of several processes
    each has a closure with rows of its own, and their batches together are one.
    """

    def __init__(
        self,
        parameters: dict[str, Tensor],
        p: Exponent,
        regularizer: Regularizer | None,
        constraint: Constraint | None,
    ) -> None:
        self.loss = RowLoss(p)
        self.parameters = parameters
        self.layout = Layout.of(parameters.items())
        first = next(iter(parameters.values()))
        self.dtype, self.device = first.dtype, first.device
        self.given = Penalty(self.layout, regularizer, constraint)
        self.network = _Anonymous()
        self.affine_in_output, self.output_sign = False, 0
        self.noisy = False  # what the closure drops at random is its own business
        self.undivided = True  # a part of the batch would cost as much as all of its graph
        # The graph is the closure's own: it is kept whole, whatever it holds.
        key = ("footprint", self.dtype, (torch.Size([]), torch.long))
        self.cache: dict[Hashable, Any] = {key: Footprint(bytes_per_row=1, custom=True)}
        self.processes = communicator()
        self.n_outputs = 0  # of the rows taken last
        self.closure: Closure | None = None
        self.batch_loss = math.nan  # of the batch taken last, before its step
        self.begun = False  # whether a step was taken
        self.use(None)
        self._draws = Draws(self.device)
        self._rows = torch.empty(0)  # (B, N) with their graph
        self._point = torch.empty(0)  # (d,) where they were taken

    @property
    def n_rows(self) -> int:
        """Unknown: more than a batch."""
        return 2

    @property
    def streamed(self) -> bool:
        """Rows come by."""
        return True

    @property
    def communicator(self) -> Communicator:
        """The processes that step together."""
        return self.processes

    def use(self, units: RowUnits | None) -> None:
        """See rows and parameters in these units from now on; None: as they are."""
        self.units: RowUnits | None = None
        self._factor: Tensor | None = None
        self._size, self.penalty = 1.0, self.given
        if units is not None:
            factor, size = units.factor(self.layout, self.theta()), units.of_loss(self.loss)
            self.penalty = penalty_in_units(self.given, factor, size)
            self.units, self._factor, self._size = units, factor, size

    def theta(self) -> Tensor:
        """A flat copy of the parameters."""
        theta = torch.cat([tensor.detach().flatten() for tensor in self.parameters.values()])
        return theta if self._factor is None else theta / self._factor

    def outside(self, theta: Tensor) -> dict[str, Tensor]:
        """The parameters by name, as the module has them."""
        return self.layout.split(theta if self._factor is None else theta * self._factor)

    def assign(self, theta: Tensor) -> None:
        """Write theta into the parameters."""
        values = self.outside(theta.detach())
        with torch.no_grad():
            for name, tensor in self.parameters.items():
                tensor.copy_(values[name])

    def choose_units(self) -> None:
        """Find units for the present batch and begin in them; no random number is drawn by it."""
        batch, theta = self.take(slice(None)), self._point

        def rows(theta: Tensor) -> Tensor:
            return batch.gathered(self.residual(theta, batch.tensors).detach())

        if self.penalty.is_quadratic:
            found = row_units(rows, self.layout, theta, self.loss)
            if found is not None:
                units, theta = found
                self.use(units)
        if self.units is None:
            warn_of_size(rows, theta)
        self.assign(theta)
        self._draws.go_back()

    def take(self, index: Tensor | slice) -> LocalBatch:
        """The batch that the closure has now, whatever the index."""
        self._point = self.theta()
        self._draws.keep()
        with torch.enable_grad():
            self._rows = self._evaluated()
        if not self._rows.requires_grad:
            raise InvalidInputError(
                "the closure must return rows that depend on the parameters; got rows without a"
                " gradient. Call the module inside it, without torch.no_grad()."
            )
        count, self.n_outputs = self._rows.shape
        batch = self._together(torch.arange(count, device=self.device))
        if not batch.n_rows:
            raise InvalidInputError("the closure must return at least one row; got none.")
        losses = self.loss(self._rows.detach()).sum(dtype=torch.float64)
        self.batch_loss = self._size * float(self.processes.sum(losses)) / batch.n_rows
        if not (self.begun or math.isfinite(self.batch_loss)):
            raise NonFiniteError(
                "the first batch must have finite residual rows, to begin from; got a mean loss of"
                f" {self.batch_loss}. Scale the data, or leave out rows with NaN."
            )
        if not self.begun:
            self._check_differentiable()
        return batch

    def _check_differentiable(self) -> None:
        try:
            self.pull(torch.ones_like(self._rows))
        except RuntimeError as cause:
            raise UnsupportedModuleError(
                "the rows of the closure must be differentiable by torch.autograd.grad; that ends"
                f" with {said(cause)}."
            ) from cause

    def _together(self, numbers: Tensor) -> LocalBatch:
        """Our rows in the batch of all processes: in turn where all have as many as we."""
        group, own = self.processes, len(numbers)
        if group.size == 1:
            return LocalBatch((numbers,), own)
        counts = torch.zeros(group.size, dtype=torch.float64)
        counts[group.rank] = own
        each = [int(count) for count in group.sum(counts)]
        first, step = sum(each[: group.rank]), 1
        if len(set(each)) == 1:
            first, step = group.rank, group.size
        places = first + step * torch.arange(own)
        return LocalBatch((numbers,), sum(each), places, group)

    def residual(self, theta: Tensor, batch: Batch) -> Tensor:
        """The rows of the present batch at theta; differentiable once where they were taken."""
        if torch.equal(theta.detach(), self._point):
            rows: Tensor = _Pulled.apply(theta, self)  # type: ignore[no-untyped-call]
        else:
            self.assign(theta)
            with torch.no_grad(), self._draws.again():
                rows = self._checked()
            if rows.shape != self._rows.shape:
                raise InvalidInputError(
                    "the closure must use the same batch each time it is called within a step; got"
                    f" rows of shape {tuple(self._rows.shape)} and then {tuple(rows.shape)}. Draw"
                    " the batch before the step."
                )
        return rows if len(batch[0]) == len(rows) else rows[batch[0]]

    def mean_change(
        self, before: Tensor, after: Tensor, batch: LocalBatch, losses: Tensor
    ) -> float:
        """The mean change of the loss of the batch, whose rows had `losses` before."""
        with torch.no_grad():
            changes = self.losses(after, batch.tensors).double() - losses.double()
        return float(self.processes.sum(changes.sum())) / batch.n_rows

    def pull(self, cotangent: Tensor) -> Tensor:
        """sum_i J_i^T u_i of the present batch, (d,)."""
        leaves = list(self.parameters.values())
        parts = torch.autograd.grad(
            self._rows, leaves, cotangent, retain_graph=True, allow_unused=True
        )
        if all(part is None for part in parts):
            raise InvalidInputError(
                "the closure must return rows that depend on the parameters that Probed was given;"
                " got rows of others. Give it those of the module that the closure calls."
            )
        pairs = zip(parts, leaves, strict=True)
        flat = [(torch.zeros_like(t) if g is None else g.to_dense()).flatten() for g, t in pairs]
        slope = torch.cat(flat)
        return slope if self._factor is None else slope * self._factor

    @property
    def present_rows(self) -> Tensor:
        """The rows of the present batch where they were taken, without their graph."""
        return self._rows.detach()

    def release(self) -> None:
        """Give up the batch and its graph."""
        self.closure, self._rows, self._point = None, torch.empty(0), torch.empty(0)

    def _checked(self) -> Tensor:
        try:
            return self._evaluated()
        except RuntimeError as cause:
            if "does not require grad" not in str(cause):
                raise
            raise InvalidInputError(
                "the closure must return rows and no more, as it is called without gradients, too;"
                " leave backward() out of it."
            ) from cause

    def _evaluated(self) -> Tensor:
        assert self.closure is not None
        rows = self.closure()
        if not isinstance(rows, Tensor) or rows.ndim != 2:
            shape = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise InvalidInputError(
                "the closure must return the residual rows of its batch, shape (B, N), not their"
                f" loss; got {shape}. {row_hint(rows)}"
            )
        if not rows.is_floating_point() or not rows.shape[1]:
            raise InvalidInputError(
                "the closure must return rows of real numbers, at least one in each; got"
                f" {rows.shape[1]} of {rows.dtype}."
            )
        rows = rows.to(self.dtype)
        return rows if self.units is None else rows / self.units.scale


class _Anonymous(nn.Module):
    """Stands for a module of which only the parameters are known."""

    def get_submodule(self, _target: str) -> nn.Module:
        return self


class _Pulled(torch.autograd.Function):
    """The present rows as a function of the flat theta."""

    @staticmethod
    def forward(ctx: Any, _theta: Tensor, problem: ClosureProblem) -> Tensor:
        ctx.problem = problem
        return problem.present_rows.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None]:
        return ctx.problem.pull(cotangent), None
