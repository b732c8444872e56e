"""Fits as estimators need them: by rows or columns, at once, in batches, or chunk by chunk."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from proxlin.exact.factorize.bounded import Bounds
from proxlin.exact.factorize.cells import Cells, column_norms, column_scales
from proxlin.exact.factorize.embed import embed
from proxlin.exact.factorize.fixed_basis import FixedBasis, full_norms
from proxlin.exact.factorize.row_norm import RowNorm
from proxlin.exact.factorize.run import MAX_SWEEPS, Factors, factorize, normal_form
from proxlin.exact.factorize.start import sample_rows
from proxlin.exact.factorize.stream import Stream
from proxlin.exact.factorize.sweep import ColumnEquations, Objective
from proxlin.methods.contract import Budget, Status
from proxlin.run.loop import Loop, check_callbacks
from proxlin.run.result import Callback, History, Result

_PASSES = 5
_BAD_COLUMN = 10.0  # median norms beyond which a column counts less and less
_FIRST_ROWS = 5000  # that a run in batches begins with


@dataclass(frozen=True)
class Fit:
    """What a fit leaves behind."""

    u: Tensor  # (n, r), the embeddings of the rows with V fixed
    v: Tensor  # (r, m)
    scales: Tensor | None  # (m,) what columns are multiplied by before rows are embedded
    result: Result
    full_norms: Tensor  # (n,)
    column_norms: Tensor | None  # (m,) of the residuals, if columns may be bad
    size: float  # a typical norm of a row that is not zero


@dataclass(frozen=True, kw_only=True)
class FactorSettings:
    """How a table is factorised: what may be bad, when to stop, where to begin."""

    by_column: bool = False  # whole columns may be bad, instead of rows
    batch: int | None = None  # rows of a batch; None for sweeps over all of them
    tol: float = 1e-4
    max_iter: int | None = None  # sweeps, or passes of batches
    max_seconds: float | None = None
    seed: int = 0
    callbacks: tuple[Callback, ...] = ()

    @property
    def sweeps(self) -> int | None:
        """How many sweeps there may be; without any budget a number that ends every run."""
        unlimited = self.max_iter is None and self.max_seconds is None
        return MAX_SWEEPS if unlimited else self.max_iter

    def factorize(self, cells: Cells, rank: int, norm: RowNorm, **changes: Any) -> Factors:
        """Sweeps over the cells; `changes` are arguments of `factorize` in place of these."""
        arguments: dict[str, Any] = {
            "tol": self.tol,
            "max_iter": self.sweeps,
            "max_seconds": self.max_seconds,
            "seed": self.seed,
            "callbacks": self.callbacks,
        }
        return factorize(cells, rank, norm, **(arguments | changes))


def fit_factors(cells: Cells, rank: int, norm: RowNorm, settings: FactorSettings) -> Fit:
    """A factorisation of the whole table: by sweeps, or in batches of rows if a size is given."""
    if settings.batch is not None:
        return _fit_batches(cells, rank, norm, settings, settings.batch)
    sides = cells.transposed if settings.by_column else cells
    factors = settings.factorize(sides, rank, norm)
    u, v = _of_rows(factors.u, factors.v, norm, settings.by_column)
    return _finish(cells, u, v, norm, factors.result, by_column=settings.by_column)


def fit_bounded(
    cells: Cells, bounds: Bounds, rank: int, norm: RowNorm, settings: FactorSettings
) -> Fit:
    """The same with residuals that count for a bounded amount, and then not at all (see `Bounds`).

    `bounds` are those of the columns of the cells, or of their rows if columns may be bad.
    """
    by_column = settings.by_column
    sides = cells.transposed if by_column else cells
    winsorized = bounds.winsorized(sides)
    if winsorized is sides or settings.batch is not None:
        return fit_factors(winsorized.transposed if by_column else winsorized, rank, norm, settings)
    started = time.perf_counter()

    def sweeps(table: Cells, tol: float, start: Tensor | None) -> Factors:
        left = settings.max_seconds
        if left is not None:
            left = max(1e-3, left - (time.perf_counter() - started))
        return settings.factorize(table, rank, norm, tol=tol, max_seconds=left, start=start)

    factors = sweeps(winsorized, 10 * settings.tol, None)
    winsorized = bounds.winsorized(sides, factors.u @ factors.v)
    factors = sweeps(winsorized, 10 * settings.tol, factors.v)
    around = factors.u @ factors.v
    winsorized, kept = bounds.winsorized(sides, around), bounds.drop(sides, around)
    if len(kept.values) >= rank:
        factors = sweeps(kept, settings.tol, factors.v)
    u, v = _of_rows(embed(winsorized, factors.v, norm).u, factors.v, norm, by_column)
    return _finish(
        winsorized.transposed if by_column else winsorized,
        u,
        v,
        norm,
        factors.result,
        by_column=by_column,
        redescend=True,
    )


def _of_rows(u: Tensor, v: Tensor, norm: RowNorm, by_column: bool) -> tuple[Tensor, Tensor]:
    """The factors of the table from those of its transpose, if it was factorised so."""
    if not by_column:
        return u, v
    return normal_form(
        v.T.contiguous(), u.T.contiguous(), alpha=0.0, non_negative=norm.non_negative
    )


def _fit_batches(
    cells: Cells, rank: int, norm: RowNorm, settings: FactorSettings, batch: int
) -> Fit:
    """Passes of a stream over the rows in random order; the end is not measured."""
    unlimited = settings.max_iter is None and settings.max_seconds is None
    budget = Budget(settings.max_seconds, _PASSES if unlimited else settings.max_iter)
    loop = Loop(budget, check_callbacks(settings.callbacks))
    generator, by_column = torch.Generator().manual_seed(settings.seed), settings.by_column
    n = len(cells.values)
    first = sample_rows(n, max(_FIRST_ROWS, 20 * rank), generator)
    stream = Stream.begin(
        cells if first is None else cells.rows(first),
        rank,
        norm,
        by_column=by_column,
        seed=settings.seed,
    )

    def one_pass() -> None:
        for rows in torch.split(torch.randperm(n, generator=generator), min(batch, n)):
            stream.update(cells.rows(rows.sort().values))
            if budget.expired():
                break
        budget.iteration += 1

    status = loop.guarded(lambda: loop.run(one_pass))
    u = cells.values.new_zeros(n, rank)
    result = _unmeasured(status, loop.budget.seconds, loop.budget.iteration, loop.history, stream)
    return _finish(cells, u, stream.v, norm, result, by_column=by_column)


def fit_stream(
    cells: Cells,
    rank: int,
    norm: RowNorm,
    *,
    by_column: bool,
    seed: int,
    stream: Stream | None,
    start: Tensor | None,
) -> tuple[Stream, Fit]:
    """One more chunk for a stream; without one, a new stream that begins at `start` if given."""
    started = time.perf_counter()
    if stream is not None:
        moved = stream.copy()
    elif start is not None:
        moved = Stream(norm, by_column, start, ColumnEquations(len(start), start.shape[1], start))
    else:
        moved = Stream.begin(cells, rank, norm, by_column=by_column, seed=seed)
    u = moved.update(cells)
    seconds = time.perf_counter() - started
    result = _unmeasured(Status.ITERATIONS, seconds, moved.chunks, History(), moved)
    return moved, _finish(cells, u, moved.v, norm, result, by_column=by_column)


def _unmeasured(
    status: Status, seconds: float, iterations: int, history: History, stream: Stream
) -> Result:
    """What is known of a stream before `_finish` evaluates it."""
    return Result(
        status=status,
        objective=math.inf,
        certificate=None,
        seconds=seconds,
        iterations=iterations,
        history=history,
        theta=stream.v.flatten(),
    )


def _finish(
    cells: Cells,
    u: Tensor,
    v: Tensor,
    norm: RowNorm,
    result: Result,
    *,
    by_column: bool,
    redescend: bool = False,
) -> Fit:
    """Embed the rows as new ones will be, and say how well everything fits.

    With `redescend`, columns that fit ten times worse than most hardly count for a row.
    """
    scales = None
    if by_column:
        if not bool(u.any()):
            u = embed(cells, v, norm).u
        norms = column_norms(cells, u, v, norm.p)
        scales = column_scales(norms, norm.p)
        if redescend and bool(norms.median() > 0):
            scales = scales * (_BAD_COLUMN * norms.median() / norms).clamp(max=1) ** 2
    if by_column or result.status is not Status.CONVERGED:  # a converged run ends embedded
        u = FixedBasis(v, norm, scales).embed(cells).u
        u, v = normal_form(u, v, alpha=norm.alpha, non_negative=norm.non_negative)
    rows = Objective(cells, norm)
    lengths = rows.row_losses(torch.zeros_like(u), v)
    value = Objective(cells.transposed, norm).value(v.T, u.T) if by_column else rows.value(u, v)
    record = {"iteration": result.iterations, "seconds": result.seconds, "objective": value}
    result.history.add(record)
    return Fit(
        u=u,
        v=v,
        scales=scales,
        result=replace(result, objective=value, theta=v.flatten()),
        full_norms=full_norms(cells, u, v, norm),
        column_norms=column_norms(cells, u, v, norm.p) if by_column else None,
        size=float(lengths[lengths > 0].median()) if bool((lengths > 0).any()) else 0.0,
    )
