"""ADMM on all rows: the sub-problem solved exactly, without sampling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin._checks import check_count
from proxlin.errors import MemoryBudgetError
from proxlin.linearize import Linearization
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.normal_equations import (
    ConjugateGradient,
    DenseRows,
    Gram,
    NormalEquations,
    RowOperator,
    dense_side_fits,
    gram_of,
    on_smaller_side,
    product_of_columns,
)
from proxlin.methods.subproblem.solver import Deadline, SubproblemResult, time_is_up
from proxlin.methods.subproblem.splitting import Prox, SplitProblem, SplittingRules, minimize_split

_BYTES_PER_NUMBER = 64  # b, A x + b, its copy, its multiplier and what a step makes of them
_BLOCK_NUMBERS = 2**22  # of residuals and activations that one block of rows may bring along


@dataclass(frozen=True, kw_only=True)
class ADMM(SplittingRules):
    """The minimiser of the model over all rows, to `tolerance`: the exact road, and an oracle.

    Everything is done in float64. The quadratic part of g joins the linear system; what is left of
    g and the constraint gets its own copy of theta, or none if nothing is left. The Jacobian of all
    rows is kept if it fits `max_bytes`; otherwise its products are computed block by block in each
    step, with the Gram matrix summed up once if that fits, and by conjugate gradients if not.
    """

    max_steps: int = 5000
    tolerance: float = 1e-6
    floor: float = 1e-9
    max_bytes: int = 2**30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("ADMM(max_bytes=...)", self.max_bytes)

    def solve(
        self,
        model: ConvexModel,
        *,
        iteration: int = 0,
        generator: torch.Generator | None = None,
        deadline: Deadline | None = None,
    ) -> SubproblemResult:
        """Minimise the model; `iteration` and `generator` play no part."""
        anchor = model.anchor.double()
        blocks = _Blocks(model, self.max_bytes)
        self._check_memory(blocks.numbers)
        matrix: Tensor | None = getattr(model.metric, "matrix", None)
        operator, equations = self._equations(blocks, anchor.numel(), matrix)
        # x = theta - anchor. The two quadratic terms, h/2 |x|^2 and a/2 |x + anchor|^2, are one
        # with weight h + a and centre -a anchor / (h + a).
        ridge = model.penalty.quadratic.to(anchor)
        weights = model.metric.weights(anchor)
        weights = weights + (ridge if bool(ridge.any()) else 0.0)
        split = SplitProblem(
            operator,
            equations,
            blocks.residual(),
            torch.where(weights > 0, -ridge * anchor / weights, 0.0),
            weights,
            model.loss,
            _shifted_proxes(model, anchor),
            getattr(model.metric, "stiffness", 0.0),
            matrix,
        )
        start = torch.zeros_like(anchor)
        state = minimize_split(split, self, start, lambda: time_is_up(deadline))
        # The copy is the one that lies in C.
        shift = state.parts[-1].value if state.parts else state.x
        theta = model.penalty.project((anchor + shift).to(model.anchor))
        return SubproblemResult(theta, state.steps, state.primal, state.dual, state.converged)

    def _check_memory(self, numbers: int) -> None:
        needed = _BYTES_PER_NUMBER * numbers
        if needed > self.max_bytes:
            raise MemoryBudgetError(
                f"ADMM on all rows keeps copies of all {numbers:,} residuals, {needed / 2**20:.0f}"
                f" MiB, and max_bytes allows {self.max_bytes / 2**20:.0f} MiB; use SADM, which"
                " samples rows, or raise max_bytes."
            )

    def _equations(
        self, blocks: _Blocks, size: int, matrix: Tensor | None
    ) -> tuple[RowOperator, NormalEquations]:
        numbers = blocks.numbers
        dense = 8 * numbers * size
        if matrix is not None:  # d x d is there already
            held = DenseRows(blocks.gathered(size)) if dense <= self.max_bytes else None
            gram = (
                gram_of(blocks.dense(), size) if held is None else product_of_columns(held.matrix)
            )
            return held or blocks, Gram(gram, matrix)
        try:
            if dense_side_fits(min(numbers, size), self.max_bytes - dense):
                held = DenseRows(blocks.gathered(size))
                return held, on_smaller_side(held)
            if dense_side_fits(size, self.max_bytes // 2):
                return blocks, Gram(gram_of(blocks.dense(), size))
        except MemoryBudgetError:  # the Jacobian of a single row is too large already
            pass
        return blocks, ConjugateGradient(blocks)


def _shifted_proxes(model: ConvexModel, anchor: Tensor) -> tuple[Prox, ...]:
    """Those of G without its quadratic part and of the proximal term, in theta - anchor.

    That of a proximal term which keeps theta positive comes last: its copy is the answer.
    """
    proxes: list[Prox] = []
    if not model.penalty.is_quadratic:
        proxes.append(model.penalty.rest.prox)
    own: Prox | None = getattr(model.metric, "prox", None)
    if own is not None:
        proxes.append(own)
    return tuple(
        lambda shift, step, prox=prox: prox(anchor + shift, step) - anchor for prox in proxes
    )


class _Blocks:
    """All rows of the model as an operator in float64, a bounded number of rows at a time."""

    def __init__(self, model: ConvexModel, max_bytes: int) -> None:
        self._model = model
        outputs = model.linearization(torch.zeros(1, dtype=torch.long)).residual.shape[1]
        self.numbers = model.n_rows * outputs
        self._rows = max(1, _BLOCK_NUMBERS // outputs)
        # Dense rows in the model's type, in float64, and the product's copy of them.
        row_bytes = 3 * 8 * outputs * model.anchor.numel()
        self._dense_rows = max(1, min(self._rows, max_bytes // (4 * row_bytes)))
        # One block is kept; more are linearised again whenever they are needed.
        self._only = model.linearization() if self._rows >= model.n_rows else None

    def dense(self) -> Iterator[Tensor]:
        """The Jacobian of each block of rows, (rows, N, d)."""
        return (part.rows() for part in self._parts(self._dense_rows))

    def gathered(self, size: int) -> Tensor:
        """The Jacobian of all rows in float64, (n, N, d), filled block by block."""
        n = self._model.n_rows
        rows = self._model.anchor.new_empty(n, self.numbers // n, size, dtype=torch.float64)
        first = 0
        for block in self.dense():
            rows[first : first + len(block)] = block
            first += len(block)
        return rows

    def residual(self) -> Tensor:
        """F at the anchor, (n, N)."""
        return torch.cat([part.residual.double() for part in self._parts(self._rows)])

    def apply(self, direction: Tensor) -> Tensor:
        """J x, (n, N)."""
        short = direction.to(self._model.anchor)
        return torch.cat([part.apply(short).double() for part in self._parts(self._rows)])

    def adjoint(self, rows: Tensor) -> Tensor:
        """J^T u, (d,)."""
        blocks = torch.split(rows.to(self._model.anchor), self._rows)
        total = torch.zeros(self._model.anchor.shape, dtype=torch.float64, device=rows.device)
        for part, block in zip(self._parts(self._rows), blocks, strict=True):
            total += part.adjoint(block).double()
        return total

    def _parts(self, size: int) -> Iterator[Linearization]:
        if self._only is not None and size >= self._model.n_rows:
            yield self._only
            return
        for index in torch.split(torch.arange(self._model.n_rows), size):
            yield self._model.linearization(index)
