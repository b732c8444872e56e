"""ADMM on  min_x (1/R) sum_i ||A_i x + b_i||_p + 1/2 (x - c)^T diag(m) (x - c) + G(x)  (Eq. 12-13).

The image A x + b has a copy y that sees the norm; of each part of G x has a copy w that sees it.
All copies are renewed first, then x by one linear system. In this order x satisfies its own
optimality condition, and the dual residuals cost no further product with A.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin._checks import check_count, check_interval, check_non_negative, check_positive
from proxlin.errors import NonFiniteError
from proxlin.methods.subproblem.normal_equations import NormalEquations, RowOperator
from proxlin.problem.loss import Pinball, RowLoss
from proxlin.problem.scales import CLIP, median

Prox = Callable[[Tensor, float], Tensor]  # (v, step) -> argmin_w step G(w) + 1/2 ||w - v||^2

_NON_FINITE = (
    "the sub-problem ran into NaN or infinity; scale the data, start from smaller parameters or"
    " raise the weight of the proximal term."
)
_FIRST_BALANCE = 10  # steps before the penalties are first looked at; then after twice as many, ...


@dataclass(frozen=True, kw_only=True)
class SplittingRules:
    """How ADMM moves and when it stops.

    It stops when for each copy of an image (y of A x + b, and w of x) both residuals are small
    (Boyd et al. 2011, section 3.3, with the relative part measured on the copy, of which no row
    counts for more than five medians, and on its multiplier):

        ||copy - image||                   <= floor * sqrt(size) + tolerance * ||copy||
        penalty * ||image - image before|| <= floor * sqrt(size) + tolerance * ||multiplier||

    With `balance` a penalty is multiplied by the root of the ratio of the two relative residuals
    after 10, 20, 40, ... steps: so seldom that the changes end and ADMM converges.
    """

    max_steps: int = 500
    tolerance: float = 1e-3  # relative
    floor: float = 1e-6  # absolute, for each number
    penalty: float | None = None  # rho' in Eq. 13; None: from the scales of the first residual
    relaxation: float = 1.6  # 1: the steps of Eq. 13 as they stand
    balance: bool = True

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_count(f"{owner}(max_steps=...)", self.max_steps)
        check_positive(f"{owner}(tolerance=...)", self.tolerance)
        check_non_negative(f"{owner}(floor=...)", self.floor)
        check_interval(f"{owner}(relaxation=...)", self.relaxation, 1.0, 1.9)
        if self.penalty is not None:
            check_positive(f"{owner}(penalty=...)", self.penalty)


@dataclass(frozen=True)
class SplitProblem:
    """The problem that one run solves."""

    rows: RowOperator  # A
    equations: NormalEquations  # of the same A
    offset: Tensor  # (R, N) b
    centre: Tensor  # (d,) c
    weights: Tensor  # (d,) or 0-dimensional, m > 0
    loss: RowLoss | Pinball
    proxes: tuple[Prox, ...] = ()  # of the parts of G
    stiffness: float = 0.0  # about the curvature of the parts of G, where that is known
    matrix: Tensor | None = None  # (d, d) H of a further 1/2 x^T H x, which `equations` hold too


@dataclass
class Copy:
    """A copy of an image of x, its multiplier and how far both are from done."""

    image: Tensor  # A x + b, or x
    value: Tensor  # the copy: y, or w
    dual: Tensor  # scaled multiplier of copy = image
    penalty: float
    primal: float = math.inf  # ||copy - image||
    change: float = math.inf  # penalty * ||image - image before||, the dual residual
    primal_scale: float = 0.0  # ||copy||, rows far beyond the others clipped
    dual_scale: float = 0.0  # ||multiplier||

    def relaxed(self, relaxation: float) -> Tensor:
        """What x and the multiplier see of the copy: an over-relaxed step towards it."""
        return self.image.lerp(self.value, relaxation)

    def follow(self, image: Tensor, seen: Tensor) -> None:
        """Take the new image, update the multiplier with what was seen, measure the residuals."""
        self.dual = self.dual + seen - image
        self.change = self.penalty * float(torch.linalg.vector_norm(image - self.image))
        self.primal = float(torch.linalg.vector_norm(self.value - image))
        self.primal_scale = clipped_norm(self.value)
        self.dual_scale = self.penalty * float(torch.linalg.vector_norm(self.dual))
        self.image = image

    def small(self, rules: SplittingRules) -> tuple[bool, bool]:
        """Whether the primal and the dual residual are small."""
        floor = rules.floor * math.sqrt(self.image.numel())
        return (
            self.primal <= floor + rules.tolerance * self.primal_scale,
            self.change <= floor + rules.tolerance * self.dual_scale,
        )

    def wanted_penalty(self, rules: SplittingRules) -> float:
        """The penalty that would bring the relative residuals together, if they are far apart.

        A residual that is small already asks for nothing: that of a copy which is 0 would never be
        small beside it.
        """
        tiny = 1e-30
        primal = self.primal / (self.primal_scale + tiny)
        change = self.change / (self.dual_scale + tiny)
        factor = math.sqrt((primal + tiny) / (change + tiny))
        small_primal, small_change = self.small(rules)
        content = small_primal if factor > 1 else small_change
        return (
            self.penalty
            if content or 0.5 < factor < 2
            else self.penalty * min(max(factor, 0.1), 10.0)
        )

    def rescale(self, penalty: float) -> None:
        """Change the penalty; the multiplier itself stays."""
        self.dual = self.dual * (self.penalty / penalty)
        self.penalty = penalty


@dataclass
class SplitState:
    """Where ADMM stands after a step."""

    x: Tensor  # (d,)
    rows: Copy  # y, the copy of A x + b that sees the norm
    parts: list[Copy]  # w, the copies of x that see the parts of G
    steps: int = 0
    converged: bool = False

    @property
    def copies(self) -> list[Copy]:
        """All copies."""
        return [self.rows, *self.parts]

    @property
    def primal(self) -> float:
        """The norm of all primal residuals."""
        return math.hypot(*(copy.primal for copy in self.copies))

    @property
    def dual(self) -> float:
        """The norm of all dual residuals."""
        return math.hypot(*(copy.change for copy in self.copies))


def minimize_split(
    split: SplitProblem,
    rules: SplittingRules,
    start: Tensor,
    expired: Callable[[], bool] = lambda: False,
) -> SplitState:
    """Run ADMM from `start` until the rules are met, the steps are used up or the time is."""
    state = _begin(split, rules, start)
    balance_at = _FIRST_BALANCE
    while not state.converged and state.steps < rules.max_steps and not expired():
        if rules.balance and state.steps == balance_at:
            balance_at *= 2
            _balance(split, rules, state)
        _advance(split, rules, state)
    return state


def _begin(split: SplitProblem, rules: SplittingRules, x: Tensor) -> SplitState:
    image = split.rows.apply(x) + split.offset
    gradient = split.loss.slope(image) / image.shape[0]
    penalty = rules.penalty or _natural_penalty(image, split.offset, gradient)
    # With a sub-gradient as multiplier the first y is the residual itself, so that a start near
    # the minimiser stays near it.
    rows = Copy(image, image, gradient / -penalty, penalty)
    weight = rules.penalty or _mean_weight(split)
    parts = [Copy(x, x, torch.zeros_like(x), weight) for _ in split.proxes]
    state = SplitState(x, rows, parts)
    _prepare(split, state)
    return state


def _mean_weight(split: SplitProblem) -> float:
    """About the mean curvature of the proximal term, 1 if it has none."""
    weight = float(split.weights.mean()) + split.stiffness
    if split.matrix is not None:
        weight += float(split.matrix.diagonal().mean())
    return weight if weight > 0 else 1.0


def _natural_penalty(image: Tensor, offset: Tensor, gradient: Tensor) -> float:
    """What exchanges a residual of this length for a sub-gradient of that length.

    It is doubled since the residual is about to shrink. A start where the residual vanishes says
    nothing about lengths; the offset then does.
    """
    length, other = clipped_norm(image), clipped_norm(offset)
    slope = float(torch.linalg.vector_norm(gradient))
    if not math.isfinite(length):
        raise NonFiniteError(_NON_FINITE)
    length = max(length, 1e-2 * other)
    return 2 * slope / length if length > 0 and slope > 0 else 1.0


def clipped_norm(values: Tensor) -> float:
    """The norm of a vector (d,), or of rows (R, N) of which none counts for more than 5 medians."""
    if values.ndim == 1:
        return float(torch.linalg.vector_norm(values))
    lengths = torch.linalg.vector_norm(values, dim=1)
    return float(torch.linalg.vector_norm(lengths.clamp_max(CLIP * median(lengths))))


def _advance(split: SplitProblem, rules: SplittingRules, state: SplitState) -> None:
    """One step of Eq. 13, with the change of x as the unknown of the linear system.

    This keeps the fixed point exact when the system is not solved exactly: a Gram matrix in
    float32, or a few conjugate gradients, may then cost steps, but not accuracy.
    """
    rows, x = state.rows, state.x
    step = 1 / (rows.penalty * rows.image.shape[0])
    rows.value = split.loss.prox(rows.image - rows.dual, step)
    seen = rows.relaxed(rules.relaxation)
    right = split.weights * (split.centre - x)
    if split.matrix is not None:
        right -= split.matrix @ x
    right += rows.penalty * split.rows.adjoint(seen - rows.image + rows.dual)
    seen_parts = []
    for part, prox in zip(state.parts, split.proxes, strict=True):
        part.value = prox(x - part.dual, 1 / part.penalty)
        seen_parts.append(part.relaxed(rules.relaxation))
        right += part.penalty * (seen_parts[-1] - x + part.dual)
    state.x = x + split.equations.solve(right)
    rows.follow(split.rows.apply(state.x) + split.offset, seen)
    if not math.isfinite(rows.primal):
        raise NonFiniteError(_NON_FINITE)
    for part, seen_part in zip(state.parts, seen_parts, strict=True):
        part.follow(state.x, seen_part)
        # G may need no force at all; the proximal term's then says what is small.
        force = torch.linalg.vector_norm(split.weights * (state.x - split.centre))
        part.dual_scale = max(part.dual_scale, float(force))
    state.converged = all(all(copy.small(rules)) for copy in state.copies)
    state.steps += 1


def _balance(split: SplitProblem, rules: SplittingRules, state: SplitState) -> None:
    wanted = [copy.wanted_penalty(rules) for copy in state.copies]
    if wanted != [copy.penalty for copy in state.copies]:
        for copy, penalty in zip(state.copies, wanted, strict=True):
            copy.rescale(penalty)
        _prepare(split, state)


def _prepare(split: SplitProblem, state: SplitState) -> None:
    weights = split.weights + sum(part.penalty for part in state.parts)
    split.equations.prepare(weights, state.rows.penalty)
