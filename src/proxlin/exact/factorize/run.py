"""factorize: the loop over sweeps, from a robust start to a measured end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin._checks import check_count, check_positive
from proxlin.errors import InvalidInputError
from proxlin.exact.factorize.cells import Cells
from proxlin.exact.factorize.embed import embed
from proxlin.exact.factorize.measure import best_basis
from proxlin.exact.factorize.row_norm import RowNorm
from proxlin.exact.factorize.start import leading_directions, non_negative_parts, sample_rows
from proxlin.exact.factorize.sweep import Objective, update_basis, update_rows
from proxlin.methods.contract import Budget, Status
from proxlin.run.loop import Loop, check_callbacks
from proxlin.run.result import Callback, Certificate, Result

MAX_SWEEPS = 300
_SHRINK = 0.3  # of the floor under residuals, once sweeps at this floor gain little
_PATIENCE = 1e-2  # "little": this times floor over first scale, of the objective
_SAMPLE = 1000  # rows that starts are compared on, or 20 times the rank
_TRIAL_SWEEPS = 12  # for each start
_CLIPS = (0.5, 1.0, 2.0)  # robust standard deviations that cells count for in a start
_EITHER_FACTOR = (
    "the objective, errors beyond three median cells counted as that: what either factor alone"
    " could gain, bounded by duality"
)
_PAUSE = 5  # sweeps between two measurements of the stationarity


@dataclass(frozen=True)
class Factors:
    """U (n, r), V (r, m) and how they were found."""

    u: Tensor
    v: Tensor
    result: Result


@dataclass
class _State:
    u: Tensor
    v: Tensor
    value: float  # f(U, V)
    floor: float  # residuals below it are weighted as if they were as large
    reach: float = 0.5  # of the extrapolation, in steps


def factorize(
    cells: Cells,
    rank: int,
    norm: RowNorm,
    *,
    tol: float = 1e-4,
    max_iter: int | None = MAX_SWEEPS,
    max_seconds: float | None = None,
    seed: int = 0,
    start: Tensor | None = None,
    callbacks: Iterable[Callback] = (),
) -> Factors:
    """argmin_{U, V} (1/n) sum_i ||observed_i * (u_i V - x_i)||_p + alpha/2 (||U||^2/n + ||V||^2/m).

    Both factors are >= 0 if `norm.non_negative`. No sweep raises the objective. The run has
    converged when neither factor alone could lower the objective by more than `tol` of it, which
    is measured by duality: the certificate is that share. Residuals beyond three median cells of
    their column count as that in what it is a share of, or wrong cells of 10^6 would call any point
    converged. The problem is not convex: this is a
    stationary point, the best of several starts. `start` (r, m) replaces them.
    """
    check_rank(rank, cells)
    check_positive("tol", tol)
    loop = Loop(Budget(max_seconds, max_iter), check_callbacks(callbacks))
    generator = torch.Generator().manual_seed(seed)
    objective = Objective(cells, norm)
    basis = robust_start(objective, rank, generator) if start is None else start.clone()
    state = first_state(objective, basis)
    sweeps = _Sweeps(objective, state, loop, tol)
    status = loop.guarded(lambda: sweeps.report() or loop.run(sweeps.advance))
    u, v = normal_form(state.u, state.v, alpha=norm.alpha, non_negative=norm.non_negative)
    result = Result(
        status=status,
        objective=state.value,
        certificate=sweeps.certificate(),
        seconds=loop.budget.seconds,
        iterations=loop.budget.iteration,
        history=loop.history,
        theta=v.flatten(),
    )
    return Factors(u, v, result)


def check_rank(rank: int, cells: Cells) -> None:
    """Refuse a rank that is larger than the table."""
    smaller = min(cells.values.shape)
    if check_count("n_components", rank) > smaller:
        raise InvalidInputError(
            f"n_components must be at most {smaller}, the smaller side of the table; got {rank}."
        )


class _Sweeps:
    """Sweeps with a falling floor under the residuals, and measurements where they gain little."""

    def __init__(self, objective: Objective, state: _State, loop: Loop, tol: float) -> None:
        self.objective, self.state, self.loop, self.tol = objective, state, loop, tol
        self.scale = state.floor
        self.lowest = self.scale * (1e-7 if state.u.dtype == torch.float64 else 1e-4)
        self.stationarity: float | None = None
        self.measured = 0  # the sweep after which it was

    def advance(self) -> Status | None:
        """One sweep, and a measurement if it is time."""
        state, budget, tol = self.state, self.loop.budget, self.tol
        before, status = state.value, None
        sweep(self.objective, state)
        budget.iteration += 1
        gain = (before - state.value) / _size(self.objective, state)
        if gain <= _PATIENCE * state.floor / self.scale:
            state.floor = max(self.lowest, _SHRINK * state.floor)
        still = gain <= 0 and state.floor == self.lowest
        if still or (gain < 0.1 * tol and budget.iteration >= self.measured + _PAUSE):
            self.measured = budget.iteration
            floor = max(self.lowest, 1e-3 * state.floor)
            self.stationarity = _measure(self.objective, state, floor, tol)
            if self.stationarity <= tol:
                status = Status.CONVERGED
            elif still and state.value >= before:
                status = Status.NO_DECREASE
        stopped = self.report()
        return status or stopped

    def certificate(self) -> Certificate | None:
        """What was measured last, and how many sweeps ago."""
        if self.stationarity is None:
            return None
        moved = self.stationarity > self.tol  # the basis goes on where it was not optimal
        since = self.loop.budget.iteration - self.measured + int(moved)
        rows = self.objective.shape[0]
        return Certificate("stationarity", self.stationarity, _EITHER_FACTOR, rows, since)

    def report(self) -> Status | None:
        """Tell of the present point."""
        certificate = self.certificate() if self.measured == self.loop.budget.iteration else None
        return self.loop.report(
            self.state.value,
            self.state.v.flatten,
            certificate=certificate,
            details={"stationarity": certificate.value} if certificate else None,
        )


def sweep(objective: Objective, state: _State) -> None:
    """Embeddings, basis, then a little further along the way both went if that is lower still."""
    rows = update_rows(objective, state.u, state.v, state.floor)
    u = rows.u
    v, value = update_basis(objective, rows, state.v)
    further = [new + state.reach * (new - old) for new, old in ((u, state.u), (v, state.v))]
    if objective.norm.non_negative:
        further = [part.clamp(min=0) for part in further]
    tried = objective.value(further[0], further[1])
    if tried < value:
        (u, v), value = further, tried
        state.reach = min(50.0, 1.3 * state.reach)
    else:
        state.reach = max(0.1, 0.6 * state.reach)
    if value <= state.value:  # rounding aside, always
        state.u, state.v, state.value = u, v, value


def _measure(objective: Objective, state: _State, floor: float, tol: float) -> float:
    """Bring U to its optimum, then the larger relative gap of the two factors.

    V moves only if the gap is above `tol`: a converged run ends where it was measured.
    """
    embedding = embed(objective.cells, state.v, objective.norm, max_steps=100)
    value = objective.value(embedding.u, state.v)
    rows_gap = float(embedding.gaps.mean())
    if value <= state.value:
        state.u, state.value = embedding.u, value
    else:
        rows_gap += state.value - value
    basis, bound = best_basis(objective, state.u, state.v, floor=floor, tolerance=0.1 * tol)
    gap = max(rows_gap, state.value - bound, 0.0) / _size(objective, state)
    if gap > tol and (moved := objective.value(state.u, basis)) < state.value:
        state.v, state.value = basis, moved
    return gap


def _size(objective: Objective, state: _State) -> float:
    """What gains are measured by: the objective, to which no error adds more than its bound."""
    bounded = objective.bounded_value(state.u, state.v)
    return max(min(bounded, state.value), torch.finfo(torch.float64).tiny)


def first_state(objective: Objective, basis: Tensor) -> _State:
    """Embeddings by least squares, and a floor as large as the residuals."""
    u = basis.new_zeros(objective.shape[0], len(basis))
    squares = RowNorm(2.0, objective.norm.alpha, objective.norm.non_negative)
    for rows, x, observed in objective.cells.chunks(len(basis)):
        u[rows] = squares.step(
            x, observed, basis, u[rows], residual=-x, weights=torch.ones_like(x[:, :1])
        )[0]
    floor = max(objective.scale(u, basis), torch.finfo(basis.dtype).tiny ** 0.25)
    return _State(u, basis, objective.value(u, basis), floor)


def robust_start(objective: Objective, rank: int, generator: torch.Generator) -> Tensor:
    """The basis (rank, m) of the best of several short runs on a sample of the rows."""
    n, m = objective.shape
    chosen = sample_rows(n, max(_SAMPLE, 20 * rank), generator)
    cells = objective.cells if chosen is None else objective.cells.rows(chosen)
    free = Objective(cells, RowNorm(objective.norm.p, objective.norm.alpha))
    directions = [leading_directions(cells, rank, generator, clip=clip) for clip in _CLIPS]
    best = _best(free, directions)
    if not objective.norm.non_negative:
        return best.v
    like = best.v
    draws = [torch.rand(rank, m, generator=generator, dtype=torch.float64) for _ in range(2)]
    parts = [non_negative_parts(best.u, best.v, generator, starts=4)]
    for basis in directions[:2]:
        left = first_state(free, basis).u
        parts.append(non_negative_parts(left, basis, generator, starts=2))
    parts += [draw.to(like) for draw in draws]
    return _best(Objective(cells, objective.norm), parts).v


def _best(objective: Objective, starts: list[Tensor]) -> _State:
    """The state of least objective after a few sweeps from each start."""
    states = []
    for basis in starts:
        state = first_state(objective, basis)
        scale = state.floor
        for _ in range(_TRIAL_SWEEPS):
            before = state.value
            sweep(objective, state)
            if before - state.value <= _PATIENCE * state.floor / scale * before:
                state.floor *= _SHRINK
        states.append(state)
    return min(states, key=lambda state: state.value)


def normal_form(u: Tensor, v: Tensor, *, alpha: float, non_negative: bool) -> tuple[Tensor, Tensor]:
    """(U', V') with U' V' = U V and the same penalty, in a form that does not depend on the run.

    Without a penalty components have unit length; free ones are orthonormal as well and ordered by
    the spread of the embeddings along them, outlying rows counting no more than others. With a
    penalty free components are only turned, until they are orthogonal, and non-negative ones stay.
    """
    if non_negative:
        return (u, v) if alpha > 0 else _unit_length(u, v)
    return _turned(u, v) if alpha > 0 else _orthonormal(u, v)


def _unit_length(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    lengths = torch.linalg.vector_norm(v, dim=1)
    lengths = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    return u * lengths, v / lengths[:, None]


def _orthonormal(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    basis, upper = torch.linalg.qr(v.T)  # V = upper^T basis^T
    left, right = u @ upper.T, basis.T
    lengths = torch.linalg.vector_norm(left, dim=1, keepdim=True)
    limit = lengths.median().clamp(min=torch.finfo(u.dtype).tiny)
    clipped = left * (limit / lengths.clamp(min=limit))
    _, axes = torch.linalg.eigh(clipped.T @ clipped)
    axes = axes.flip(1)
    return _signed(left @ axes, axes.T @ right)


def _turned(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    _, axes = torch.linalg.eigh(v @ v.T)
    axes = axes.flip(1)
    return _signed(u @ axes, axes.T @ v)


def _signed(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The largest entry of each component positive."""
    largest = v.gather(1, v.abs().argmax(1, keepdim=True))
    signs = torch.where(largest < 0, -1.0, 1.0).to(v.dtype)
    return u * signs.T, v * signs
