"""Problem: (1/n) sum_i ||F(theta; x_i)||_p + g(theta) over theta in C, for any torch module."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from proxlin._checks import check_count
from proxlin.errors import InvalidInputError, UnsupportedModuleError
from proxlin.layout import Layout
from proxlin.loss import Exponent, RowLoss
from proxlin.rows import Batch, Rows, as_rows
from proxlin.terms import Constraint, Penalty, Regularizer

Residual = Callable[..., Tensor]  # residual(module, *batch) -> (B, N)

_CHUNK_NUMBERS = 2**18  # input or output numbers of a chunk: small enough for the cache


class Problem:
    """Minimise (1/n) sum_i ||F(theta; x_i)||_p + g(theta) subject to theta in C.

    Parameters
    ----------
    module
        Any torch module; theta are its parameters that require a gradient. It is left alone until
        `minimize` writes the best parameters into it.
    data
        A tensor, a tuple of tensors (rows first), or a map-style torch Dataset.
    p
        A number >= 1, `inf`, or `"mse"` for the squared Euclidean norm.
    residual
        `residual(module, *batch)` returns one row of numbers for each sample. By default
        `module(x) - x` for one tensor and `module(x) - y` for two.
    regularizer, constraint
        Parts of `proxlin.terms`: g and C.

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
        residual: Residual | None = None,
        regularizer: Regularizer | None = None,
        constraint: Constraint | None = None,
        chunk_rows: int | None = None,
    ) -> None:
        self.loss = RowLoss(p)
        self.module = module
        self.rows: Rows = as_rows(data)
        self.layout, self.dtype, self.device = _read_parameters(module)
        self.penalty = Penalty(self.layout, regularizer, constraint)
        # The copy is what is evaluated, always in eval mode: the caller's module keeps its mode
        # and its parameters until a run is over.
        self.network = copy.deepcopy(module).eval().requires_grad_(False)
        self.affine_in_output = residual is None
        self._residual = _ResidualModule(self.network, residual or _difference)
        self.n_outputs = _check_residual(self)
        self.chunk_rows = (
            _default_chunk(self) if chunk_rows is None else check_count("chunk_rows", chunk_rows)
        )

    @property
    def p(self) -> Exponent:
        """The exponent of the norm, or "mse"."""
        return self.loss.p

    @property
    def n_rows(self) -> int:
        """The number n of rows."""
        return len(self.rows)

    def theta(self) -> Tensor:
        """A flat copy of the module's present parameters."""
        return self.layout.join(
            {name: tensor.detach() for name, tensor in self.module.named_parameters()}
        ).clone()

    def assign(self, theta: Tensor) -> None:
        """Write theta into the module."""
        values = self.layout.split(theta.detach())
        with torch.no_grad():
            for name, tensor in self.module.named_parameters():
                if name in values:
                    tensor.copy_(values[name])

    def residual(self, theta: Tensor, batch: Batch) -> Tensor:
        """F(theta; x) for each row of the batch, (B, N); differentiable in theta."""
        values = {f"module.{name}": t for name, t in self.layout.split(theta).items()}
        residual: Tensor = functional_call(self._residual, values, batch)
        return residual

    def losses(self, theta: Tensor, batch: Batch) -> Tensor:
        """||F(theta; x_i)||_p of each row of the batch, (B,)."""
        return self.loss(self.residual(theta, batch))

    def value_and_gradient(self, theta: Tensor, batch: Batch) -> tuple[float, Tensor]:
        """Mean loss of the batch plus g, and one sub-gradient of it (0 is chosen at a kink)."""
        point = theta.detach().requires_grad_(True)
        with torch.enable_grad():
            value = self.losses(point, batch).mean() + self.penalty.value(point)
            (gradient,) = torch.autograd.grad(value, point)
        return float(value.detach()), gradient

    def chunks(self, rows: int | None = None, index: Tensor | None = None) -> Iterator[Batch]:
        """All rows in order, or those of `index`, a bounded number at a time."""
        size = rows or self.chunk_rows
        if index is not None:
            yield from (self.rows.take(part) for part in torch.split(index, size))
            return
        for first in range(0, self.n_rows, size):
            yield self.rows.take(slice(first, min(first + size, self.n_rows)))

    def restricted(self, index: Tensor) -> Problem:
        """The same problem on the rows of `index` alone."""
        return self.with_data(self.rows.take(index))

    def with_data(self, data: Any) -> Problem:
        """The same problem on other rows; both share the module."""
        other = copy.copy(self)
        other.rows = as_rows(data)
        outputs = _check_residual(other)
        if outputs != self.n_outputs:
            raise InvalidInputError(
                f"data must give residual rows of {self.n_outputs} numbers, as those of the"
                f" problem do; got {outputs}."
            )
        return other

    def row_losses(self, theta: Tensor) -> Tensor:
        """||F(theta; x_i)||_p of every row, (n,)."""
        with torch.no_grad():
            return torch.cat([self.losses(theta, batch) for batch in self.chunks()])

    def data_term(self, theta: Tensor, index: Tensor | None = None) -> float:
        """(1/n) sum_i ||F(theta; x_i)||_p over all rows or those of `index`, summed in float64."""
        total, rows = 0.0, 0
        with torch.no_grad():
            for batch in self.chunks(index=index):
                losses = self.losses(theta, batch)
                total += float(losses.sum(dtype=torch.float64))
                rows += losses.shape[0]
        return total / rows

    def objective(self, theta: Tensor, index: Tensor | None = None) -> float:
        """The objective, data term plus g; infinite where theta is not finite.

        Over all rows, or over those of `index` as an estimate.
        """
        value = self.data_term(theta, index) + float(self.penalty.value(theta))
        return math.inf if math.isnan(value) else value


class _ResidualModule(nn.Module):
    """The residual as a module, so that its parameters can be replaced in a call."""

    def __init__(self, module: nn.Module, rule: Residual) -> None:
        super().__init__()
        self.module = module
        self.rule = rule

    def forward(self, *batch: Tensor) -> Tensor:
        return self.rule(self.module, *batch)


def _difference(module: nn.Module, x: Tensor, *target: Tensor) -> Tensor:
    """Module(x) - x for one tensor, module(x) - y for two."""
    if len(target) > 1:
        raise InvalidInputError(
            f"data of {1 + len(target)} tensors needs residual=...; without it give one or two."
        )
    output = module(x)
    y = target[0] if target else x
    y = y.unsqueeze(1) if y.ndim == 1 and output.ndim == 2 else y
    if output.shape != y.shape:
        raise InvalidInputError(
            f"the module's output must have the shape of its target {tuple(y.shape)};"
            f" got {tuple(output.shape)}. Change the module's last layer or give residual=...."
        )
    difference: Tensor = (output - y).reshape(output.shape[0], -1)
    return difference


def _read_parameters(module: nn.Module) -> tuple[Layout, torch.dtype, torch.device]:
    if not isinstance(module, nn.Module):
        raise InvalidInputError(f"module must be a torch.nn.Module; got {type(module).__name__}.")
    parameters = [(n, t) for n, t in module.named_parameters() if t.requires_grad]
    if not parameters:
        raise InvalidInputError("module must have parameters that require a gradient; got none.")
    kinds = {(tensor.dtype, tensor.device) for _, tensor in parameters}
    if len(kinds) > 1 or next(iter(kinds))[0] not in (torch.float32, torch.float64):
        found = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise InvalidInputError(
            "module must hold its parameters as float32 or float64, all alike on one device;"
            f" got {found}. Convert it with .to(...)."
        )
    for name, child in module.named_modules():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            raise UnsupportedModuleError(
                f"module {name or type(child).__name__!r} is a batch normalisation: its running"
                " statistics mix rows and would never be updated; use GroupNorm or LayerNorm."
            )
    ((dtype, device),) = kinds
    return Layout.of(parameters), dtype, device


def _check_residual(problem: Problem) -> int:
    """Evaluate two rows once and refuse what no method could work with; returns N."""
    batch = problem.rows.take(slice(0, min(2, problem.n_rows)))
    for position, tensor in enumerate(batch):
        if tensor.is_floating_point() and tensor.dtype != problem.dtype:
            raise InvalidInputError(
                f"data[{position}] must have the module's type {problem.dtype};"
                f" got {tensor.dtype}. Convert one of them with .to(...)."
            )
        if tensor.device != problem.device:
            raise InvalidInputError(
                f"data[{position}] must be on the module's device {problem.device};"
                f" got {tensor.device}. Move one of them with .to(...)."
            )
    theta = problem.theta()
    with torch.no_grad():
        first, again = problem.residual(theta, batch), problem.residual(theta, batch)
        alone = problem.residual(theta, tuple(tensor[:1] for tensor in batch))
    if not isinstance(first, Tensor) or first.ndim != 2 or first.shape[0] != batch[0].shape[0]:
        shape = tuple(first.shape) if isinstance(first, Tensor) else type(first).__name__
        raise InvalidInputError(
            f"residual must return one row of numbers a sample, shape ({batch[0].shape[0]}, N);"
            f" got {shape}. Use .flatten(1)."
        )
    if not torch.equal(first, again) and not bool(torch.isnan(first).any()):
        raise UnsupportedModuleError(
            "module must give the same output for the same input in eval mode; two calls differed."
            " Remove the sampling from its forward pass."
        )
    if not torch.allclose(first[:1], alone, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise UnsupportedModuleError(
            "the residual of a row must depend on that row alone; it changed with the other rows"
            " of the batch. Remove what mixes rows, such as normalisation over the batch."
        )
    return int(first.shape[1])


def _default_chunk(problem: Problem) -> int:
    batch = problem.rows.take(slice(0, 1))
    widest = max([problem.n_outputs, *(tensor.numel() for tensor in batch)])
    return max(16, _CHUNK_NUMBERS // widest)
