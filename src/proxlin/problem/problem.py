"""Problem: (1/n) sum_i ||F(theta; x_i)||_p + g(theta) over theta in C, for any torch module."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

from proxlin._checks import check_count
from proxlin.errors import InvalidInputError, UnsupportedModuleError
from proxlin.problem.batch_form import with_tensors
from proxlin.problem.loss import Exponent, Pinball, Redescending, RowLoss, check_pinball
from proxlin.problem.module_copy import (
    evaluated_copy,
    kinds_of_fixed,
    read_parameters,
    renewed,
    unwrapped,
)
from proxlin.problem.parallel import Communicator, communicator
from proxlin.problem.precise_losses import PreciseLosses
from proxlin.problem.residual import (
    Residual,
    ResidualModule,
    check_residual,
    difference,
    has_slope,
    sign_of_output,
)
from proxlin.problem.row_stream import shards_of
from proxlin.problem.rows import Batch, Rows, evenly_spread
from proxlin.problem.scales import median
from proxlin.problem.shards import LocalBatch, Shards, own_rows
from proxlin.problem.train_mode import TrainMode
from proxlin.terms import Constraint, Penalty, Regularizer

_SAMPLE = 2048  # rows that tell the scale of the losses
_FEW = 64  # rows of which some depend on the parameters
_CHUNK_NUMBERS = 2**18  # input or output numbers of a chunk: small enough for the cache


class Problem:
    """Minimise (1/n) sum_i ||F(theta; x_i)||_p + g(theta) subject to theta in C.

    Parameters
    ----------
    module
        Any torch module; theta are its parameters that require a gradient. It is not changed until
        `minimize` writes the best parameters into it, also where an error ends it. The objective
        is that of eval mode; dropout of a module in train mode is active in the steps of
        `"probed"`, `"sgd"` and `"adam"`.
    data
        Tensors or numpy arrays, rows first: one, a tuple, or a dictionary of them; a torch Dataset
        or DataLoader; or, also beside tensors, arrays of `np.load(path, mmap_mode="r")`, whose rows
        are read from the file when they are needed. A loader that visits each row once stands for
        its data set: the method draws its own batches. Other loaders and iterable data sets are
        streams: steps take the rows as they come, and the objective is that of the first 4,096.
    p
        A number >= 1, `inf`, or `"mse"` for the squared Euclidean norm.
    loss
        `Pinball(tau)` instead of the norm, for quantiles.
    residual
        `residual(module, *batch)` returns one row of numbers for each sample. By default
        `module(x) - x` for one tensor and `module(x) - y` for two; x may be a tuple or dictionary
        of inputs, `module(*x)` or `module(**x)`.
    regularizer, constraint
        g and C, from `proxlin.terms`.

    Under torchrun every process holds all of `data` and works on its part of each batch. For data
    that are spread over the processes use `Problem.sharded`.

    >>> x = torch.randn(100, 5)
    >>> problem = Problem(nn.Linear(5, 2), (x, x[:, :2]), p=1)
    >>> problem.n_rows, problem.n_outputs, problem.layout.names
    (100, 2, ('weight', 'bias'))
    """

    def __init__(
        self,
        module: nn.Module,
        data: Any,
        p: Exponent = 1.0,
        *,
        loss: Pinball | None = None,
        residual: Residual | None = None,
        regularizer: Regularizer | None = None,
        constraint: Constraint | None = None,
        chunk_rows: int | None = None,
    ) -> None:
        self.loss: RowLoss | Pinball = RowLoss(p) if loss is None else check_pinball(loss)
        module = unwrapped(module)
        self.module = module
        self.layout, self.dtype, self.device = read_parameters(module)
        if not isinstance(data, Shards):
            data = shards_of(with_tensors(data, self.dtype), communicator(), self.dtype)
        self.shards: Shards = data
        self.penalty = Penalty(self.layout, regularizer, constraint)
        # The copy is what is evaluated, in eval mode: the caller's module keeps its mode and its
        # parameters until a run is over.
        self.network = evaluated_copy(module)
        self._kinds = kinds_of_fixed(module)  # which a forward pass may change later
        self.affine_in_output = residual is None
        self.cache: dict[Hashable, Any] = {}  # of linearisations, from batch to batch
        self.example: Batch = self.shards.example()
        self._residual = ResidualModule(self.network, residual or difference, self.shards.form())
        self._precise = PreciseLosses(self._residual, self.layout, self.loss)
        self.train_mode = TrainMode(module, self.network, self.device)
        self.n_outputs = check_residual(self.residual, self.theta(), self.example)
        self._check_slope()
        # s where the residual is s * (output - last tensor of the batch), the target; else 0.
        self.output_sign = 1 if self.affine_in_output else self._sign_of_output()
        # Whether the module, in the mode in which it was given, drops at random.
        self.noisy = self.train_mode.draws(lambda: self.residual(self.theta(), self.example))
        self.undivided = self.noisy  # rows of a batch are to be linearised together
        self._latest: tuple[Tensor, float] | None = None  # the point evaluated last, its objective
        self.chunk_rows = (
            _default_chunk(self) if chunk_rows is None else check_count("chunk_rows", chunk_rows)
        )

    def _check_slope(self) -> None:
        """Refuse a residual that no parameter moves, on no process."""
        theta = self.theta()
        try:
            found = has_slope(self.residual, theta, self.example)
        except UnsupportedModuleError:
            self._residual.called_again = True  # it may be the parameters that were gone then
            found = has_slope(self.residual, theta, self.example)
        if not found and self.shards.rows is not None:  # two rows may be special: look at more
            found = has_slope(self.residual, theta, next(self.chunks(_FEW)))
        if not any(self.communicator.largest([float(found)])):
            raise InvalidInputError(
                "the residual must depend on the module's parameters; got rows without a gradient."
                " Call the module that residual(module, ...) is given, without torch.no_grad(),"
                " inference_mode() or .detach()."
            )

    def _sign_of_output(self) -> int:
        """That of a residual of the caller's own, if the rows of all processes agree on it."""
        sign = sign_of_output(self.residual, self.theta(), self.example)
        alike = self.communicator.first((sign,))[0] == sign
        return sign if not any(self.communicator.largest([float(not alike)])) else 0

    @classmethod
    def sharded(
        cls,
        module: nn.Module,
        data: Any,
        p: Exponent = 1.0,
        *,
        loss: Pinball | None = None,
        residual: Residual | None = None,
        regularizer: Regularizer | None = None,
        constraint: Constraint | None = None,
        chunk_rows: int | None = None,
    ) -> Problem:
        """A problem whose rows are spread over the processes; `data` are those of this process.

        All processes call it at the same time. The shards may differ in size; a process without
        rows passes None or no rows. Rows are numbered rank by rank, starting with those of rank 0.
        """
        dtype = read_parameters(unwrapped(module))[1]
        return cls(
            module,
            own_rows(with_tensors(data, dtype), communicator(), dtype),
            p,
            loss=loss,
            residual=residual,
            regularizer=regularizer,
            constraint=constraint,
            chunk_rows=chunk_rows,
        )

    @property
    def p(self) -> Exponent | Literal["pinball"]:
        """The exponent of the norm, "mse" or "pinball"."""
        return self.loss.p

    @property
    def n_rows(self) -> int:
        """The number n of rows, over all processes."""
        return self.shards.n_rows

    @property
    def rows(self) -> Rows:
        """The rows that this process holds; all of them, unless the problem is sharded."""
        if self.shards.rows is None:
            raise InvalidInputError("this process holds no rows; ask one that does.")
        return self.shards.rows

    @property
    def streamed(self) -> bool:
        """Whether batches come from a stream, of which only a sample is held."""
        return self.shards.streamed

    @property
    def communicator(self) -> Communicator:
        """The processes that work on this problem."""
        return self.shards.communicator

    def theta(self) -> Tensor:
        """A flat copy of the module's present parameters."""
        return self.layout.join(
            {name: tensor.detach() for name, tensor in self.module.named_parameters()}
        ).clone()

    def refresh(self) -> None:
        """Take over what the module's frozen parameters and buffers have become since.

        Those of rank 0 count. A module whose trainable parameters are others now is refused.
        """
        kind = self.layout, self.dtype, self.device
        if renewed(self.network, self.module, kind, self._kinds, self.communicator):
            self._latest = None
            self._precise = PreciseLosses(self._residual, self.layout, self.loss)

    def assign(self, theta: Tensor) -> None:
        """Write theta into the module."""
        values = self.layout.split(theta.detach())
        with torch.no_grad():
            for name, tensor in self.module.named_parameters():
                if name in values:
                    tensor.copy_(values[name])

    def residual(self, theta: Tensor, batch: Batch) -> Tensor:
        """F(theta; x) for each row of the batch, (B, N); differentiable in theta."""
        values = self.layout.split(theta)
        with nullcontext() if self.train_mode.seed is None else self.train_mode.applied():
            return self._residual.at(values, batch)

    @contextmanager
    def dropping(self, generator: torch.Generator) -> Iterator[None]:
        """Within it dropout is active, with the same mask in every call for a batch."""
        if not self.noisy:
            yield
            return
        seed = int(torch.randint(2**62, (), generator=generator))
        with self.train_mode.drawn(seed + self.communicator.rank):
            yield

    def losses(self, theta: Tensor, batch: Batch) -> Tensor:
        """||F(theta; x_i)||_p of each row of the batch, (B,)."""
        return self.loss(self.residual(theta, batch))

    def exact_losses(self, theta: Tensor, batch: Batch) -> Tensor:
        """The loss of each row in float64, (b,), for sums in which small changes matter."""
        with torch.no_grad():
            losses = self.losses(theta, batch)
            return self._precise.losses(theta, batch, losses) if self._fine else losses.double()

    def mean_change(
        self, before: Tensor, after: Tensor, batch: LocalBatch, losses: Tensor
    ) -> float:
        """The mean change of the loss of a batch whose rows here have `losses` before, (b,).

        Changes are taken row by row and summed in float64 over all processes.
        """
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        if batch.count:
            with torch.no_grad():
                pair = losses, self.losses(after, batch.tensors)
                if self._fine:
                    total = self._precise.sum_of_changes(before, after, batch.tensors, pair)
                else:
                    total = (pair[1].double() - pair[0].double()).sum()
        return float(batch.communicator.sum(total)) / batch.n_rows

    @property
    def _fine(self) -> bool:
        """Whether float64 would show more than the type of the parameters does."""
        return self.dtype != torch.float64 and self.train_mode.seed is None

    def take(self, index: Tensor | slice) -> LocalBatch:
        """This process's rows of the batch with these row numbers."""
        return self.shards.take(index)

    def value_and_gradient(self, theta: Tensor, batch: Batch | LocalBatch) -> tuple[float, Tensor]:
        """Mean loss of the batch plus g, and one sub-gradient of it (0 is chosen at a kink).

        Of the rows of all processes, or of a plain tuple of tensors alone.
        """
        if not isinstance(batch, LocalBatch):
            batch = LocalBatch(batch, batch[0].shape[0])
        point = theta.detach().requires_grad_(True)
        with torch.enable_grad():
            value = self._part_of_mean(point, batch)
            if batch.communicator.leads:
                value = value + self.penalty.value(point)
            # A process without rows has nothing that depends on the point.
            gradient = torch.zeros_like(theta)
            if value.requires_grad:
                (gradient,) = torch.autograd.grad(value, point)
        value, gradient = batch.communicator.sum_together([value.detach(), gradient])
        return float(value), gradient

    def _part_of_mean(self, theta: Tensor, batch: LocalBatch) -> Tensor:
        """What this process's rows add to the mean loss of the batch."""
        if not batch.count:
            return theta.new_zeros(())
        return batch.part_of_mean(self.losses(theta, batch.tensors))

    def chunks(self, rows: int | None = None, index: Tensor | None = None) -> Iterator[Batch]:
        """This process's part of all rows or of those of `index`, a bounded number at a time."""
        return self.shards.chunks(rows or self.chunk_rows, index)

    def mean(self, values: list[Tensor], n_rows: int) -> float:
        """The mean over `n_rows` rows, in float64; `values` are those of this process."""
        if self.communicator.size == 1:
            return float(torch.cat(values).mean())
        own = torch.zeros((), dtype=torch.float64, device=self.device)
        total = sum((part.sum(dtype=torch.float64) for part in values), own)
        return float(self.communicator.sum(total)) / n_rows

    def restricted(self, index: Tensor) -> Problem:
        """The same problem on the rows of `index` alone."""
        return self.with_shards(self.shards.restricted(index))

    def with_data(self, data: Any) -> Problem:
        """The same problem on other rows, spread as those of this one; both share the module."""
        data = with_tensors(data, self.dtype)
        if self.communicator.size == 1:
            return self.with_shards(shards_of(data, self.communicator, self.dtype))
        return self.with_shards(self.shards.replaced(data, self.dtype))

    def redescending(self, limit: float) -> Problem:
        """The same problem, whose rows pull ever less as their norm goes beyond `limit`."""
        assert isinstance(self.loss, RowLoss)
        other = copy.copy(self)
        other.loss, other._latest = Redescending(self.loss.p, limit), None
        other._precise = PreciseLosses(self._residual, self.layout, other.loss)
        return other

    def with_shards(self, shards: Shards) -> Problem:
        """The same problem on the rows of other shards."""
        other = copy.copy(self)
        other.shards, other.example, other._latest = shards, shards.example(), None
        other._residual = ResidualModule(self.network, self._residual.rule, shards.form())
        other._residual.called_again = self._residual.called_again
        other._precise = PreciseLosses(other._residual, self.layout, self.loss)
        outputs = check_residual(other.residual, other.theta(), other.example)
        if outputs != self.n_outputs:
            raise InvalidInputError(
                f"data must give residual rows of {self.n_outputs} numbers, as those of the"
                f" problem do; got {outputs}."
            )
        return other

    def row_losses(self, theta: Tensor) -> Tensor:
        """||F(theta; x_i)||_p of every row, (n,), on every process."""
        with torch.no_grad():
            own = [self.losses(theta, batch) for batch in self.chunks()]
        if self.communicator.size == 1:
            return torch.cat(own)
        everyone = LocalBatch((), self.n_rows, self.shards.numbers(), self.communicator)
        return everyone.gathered(torch.cat([theta.new_empty(0), *own]))

    def median_loss(self, theta: Tensor) -> float:
        """The median loss of a row, on a sample of them evenly spread; the same everywhere."""
        batch = self.take(evenly_spread(self.n_rows, _SAMPLE))
        with torch.no_grad():
            own = self.losses(theta, batch.tensors) if batch.count else theta.new_empty(0)
        return float(median(batch.gathered(own)))

    def data_term(self, theta: Tensor, index: Tensor | None = None) -> float:
        """(1/n) sum_i ||F(theta; x_i)||_p over all rows or those of `index`, summed in float64."""
        total = 0.0
        for batch in self.chunks(index=index):
            total += float(self.exact_losses(theta, batch).sum())
        summed = self.communicator.sum(torch.tensor(total, dtype=torch.float64))
        return float(summed) / (self.n_rows if index is None else len(index))

    def objective(self, theta: Tensor, index: Tensor | None = None) -> float:
        """The objective, data term plus g; infinite where theta is not finite.

        Over all rows, or over those of `index` as an estimate.
        """
        if index is None and self._latest is not None and torch.equal(self._latest[0], theta):
            return self._latest[1]
        value = self.data_term(theta, index) + float(self.penalty.value(theta))
        value = math.inf if math.isnan(value) else value
        if index is None:
            self._latest = (theta.detach().clone(), value)
        return value


def _default_chunk(problem: Problem) -> int:
    widest = max([problem.n_outputs, *(tensor[:1].numel() for tensor in problem.example)])
    return max(16, _CHUNK_NUMBERS // widest)
