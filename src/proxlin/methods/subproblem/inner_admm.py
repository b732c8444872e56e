"""The inner ADMM of SADM: min_x (1/B) sum_i ||A_i x + b_i||_p + 1/2 (x - c)^T diag(m) (x - c)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from proxlin._checks import check_count, check_exponent
from proxlin.errors import InvalidInputError, MemoryBudgetError
from proxlin.linearize import Linearization
from proxlin.methods.subproblem.normal_equations import (
    ConjugateGradient,
    DenseRows,
    NormalEquations,
    RowOperator,
    dense_side_fits,
    on_smaller_side,
)
from proxlin.methods.subproblem.splitting import SplitProblem, SplittingRules, minimize_split
from proxlin.problem.loss import Pinball, RowLoss


@dataclass(frozen=True)
class InnerResult:
    """A minimiser as far as ADMM got."""

    x: Tensor  # (d,)
    y: Tensor  # (B, N) the copy of A x + b
    multiplier: Tensor  # (B, N) near a sub-gradient of the loss at y; diag(m) (x - c) = -A^T of it
    steps: int
    primal: float  # ||A x + b - y||
    dual: float  # penalty * ||A (x - x before)||
    converged: bool  # both residuals are as small as asked


@dataclass(frozen=True, kw_only=True)
class InnerADMM(SplittingRules):
    """argmin_x (1/B) sum_i ||A_i x + b_i||_p + 1/2 (x - c)^T diag(m) (x - c)  (Eq. 12-13, App. E).

    One Cholesky of the smaller of d x d and (B N) x (B N); conjugate gradients through A and A^T
    when the rows and that matrix would need more than `max_bytes`.

    >>> import torch
    >>> rows, offset = torch.eye(2).unsqueeze(0), torch.tensor([[-3.0, -0.5]])
    >>> InnerADMM(tolerance=1e-6).solve(rows, offset, torch.zeros(2), torch.tensor(1.0), 1.0).x
    tensor([1.0000, 0.5000])
    """

    max_bytes: int = 2**30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("InnerADMM(max_bytes=...)", self.max_bytes)

    def solve(
        self,
        rows: Tensor | Linearization,
        offset: Tensor,
        centre: Tensor,
        weights: Tensor,
        p: float | RowLoss | Pinball,
        *,
        start: Tensor | None = None,
    ) -> InnerResult:
        """Solve for A given as a tensor (B, N, d) or as a linearisation, from `start` or c.

        Let x be the distance from the point of linearisation rather than theta itself: b is then
        the residual there, and no digits are lost in A theta - A anchor.
        """
        _check_shapes(rows, offset, centre, weights)
        operator, equations = self._equations(rows, offset, centre)
        loss = p if isinstance(p, RowLoss | Pinball) else RowLoss(check_exponent("p", p))
        split = SplitProblem(operator, equations, offset, centre, weights, loss)
        state = minimize_split(split, self, centre if start is None else start)
        return InnerResult(
            x=state.x,
            y=state.rows.value,
            multiplier=-state.rows.penalty * state.rows.dual,
            steps=state.steps,
            primal=state.primal,
            dual=state.dual,
            converged=state.converged,
        )

    def _equations(
        self, rows: Tensor | Linearization, offset: Tensor, centre: Tensor
    ) -> tuple[RowOperator, NormalEquations]:
        numbers, size = offset.numel(), centre.numel()
        dense = numbers * size * offset.element_size()
        operator = DenseRows(rows) if isinstance(rows, Tensor) else rows
        if not dense_side_fits(min(numbers, size), self.max_bytes - dense):
            return operator, ConjugateGradient(operator)
        try:
            held = DenseRows(rows if isinstance(rows, Tensor) else rows.rows())
        except MemoryBudgetError:  # making the rows needs more than the rows do
            return operator, ConjugateGradient(operator)
        return held, on_smaller_side(held)


def _check_shapes(
    rows: Tensor | Linearization, offset: Tensor, centre: Tensor, weights: Tensor
) -> None:
    expected = (*offset.shape, *centre.shape)
    if offset.ndim != 2 or centre.ndim != 1 or not offset.numel():
        raise InvalidInputError(
            "offset and centre must have shapes (B, N) and (d,), not empty;"
            f" got {tuple(offset.shape)} and {tuple(centre.shape)}."
        )
    if isinstance(rows, Tensor) and tuple(rows.shape) != expected:
        raise InvalidInputError(f"rows must have shape {expected}; got {tuple(rows.shape)}.")
    if weights.shape not in ((), centre.shape) or not bool((weights > 0).all()):
        raise InvalidInputError(
            f"weights must be one number > 0, or {centre.numel()} of them;"
            f" got shape {tuple(weights.shape)}, lowest {float(weights.min())!r}."
        )
