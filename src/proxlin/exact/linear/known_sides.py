"""Quantiles of many rows: those whose side of the fit is known count as one row each side.

A sample gives a first fit. Rows far from it, in units of what the sample leaves open at their
place, are taken to stay on their side: the loss of all of them together is that of their mean with
their weights (Portnoy & Koenker 1997). What is left is a small problem that the solver proves. By
convexity its loss is nowhere above that of all rows, and where every row is on its side it is the
same: then the small problem's gap is the gap of the whole one. Rows on the wrong side are taken
apart, and the small problem is solved again. Rows are read in a few passes, from memory, files or
the parts of several processes, and only the small problem is held.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from proxlin._checks import check_finite
from proxlin.errors import InvalidInputError
from proxlin.exact.linear.linear_result import LinearResult
from proxlin.methods.contract import Status
from proxlin.problem.loss import Pinball
from proxlin.problem.shards import Shards

Rows = tuple[Tensor, Tensor, Tensor]  # x (n, m), y (n,), weights (n,)

_ROUNDS = 12  # of solving the small problem
_CHUNK = 1 << 21  # numbers read at a time
_ROUGH = 1e-2  # gap of the sample's fit
_EPS = torch.finfo(torch.float64).eps
_FEW = 0.2  # of the small problem's rows: so many on the wrong side are taken apart
_NEGLIGIBLE = 1e-12
_ENDED = (Status.INTERRUPTED, Status.TIME)
_ENDS = {1: "at_least", -1: "at_most"}
_HEAVIEST = 1e-2  # of all weights, for one row
_MANY = 50_000  # rows; below, several solves take longer than one
_SMALLER = 3.0  # times fewer rows must be left for the detour to be worth it


@dataclass(frozen=True)
class Line:
    """x -> x coef + intercept, for one target."""

    coef: Tensor  # (m, 1)
    intercept: Tensor  # (1,)

    def __call__(self, x: Tensor) -> Tensor:
        """(n,) fitted values."""
        return (x @ self.coef + self.intercept)[:, 0]


@dataclass(frozen=True)
class Sides:
    """Rows of which (target - line) / width is below `low` or above `high` keep their side."""

    line: Line
    whitening: Tensor  # (m + 1, m + 1): width = 1 + ||whitening (x, 1)|| / sqrt(m + 1)
    low: float
    high: float

    def of(self, x: Tensor, y: Tensor) -> Tensor:
        """(n,) -1, 0 or 1."""
        relative = (y - self.line(x)) / self.widths(x)
        return (relative > self.high).to(torch.int8) - (relative < self.low).to(torch.int8)

    def widths(self, x: Tensor) -> Tensor:
        """How much the sample leaves open at each row, up to a factor."""
        moved = x @ self.whitening[:-1] + self.whitening[-1]
        return 1.0 + moved.square().mean(1).sqrt()


def row_shapes(shards: Shards) -> list[tuple[int, ...]]:
    """Of one row of x, y and the weights, if there are any."""
    own = [tuple(part.shape[1:]) for part in shards.take(slice(0, 1)).tensors]
    shapes: list[tuple[int, ...]] = next(filter(None, shards.communicator.each(own)))
    right = len(shapes) in (2, 3) and len(shapes[0]) == 1 and len(shapes[1]) < 2
    if not right or any(shapes[2:]):
        raise InvalidInputError(
            "rows must be (x, y) or (x, y, weights), x (n, m), y (n,) or (n, t), weights (n,); got"
            f" rows of shapes {shapes}."
        )
    return shapes


def target_count(shards: Shards) -> int:
    """How many columns y has."""
    shape = row_shapes(shards)[1]
    return shape[0] if shape else 1


def sample_size(rows: int, features: int) -> int:
    """((m + 1) n)^(2/3), the number of rows at which sample and small problem are alike in size."""
    return math.ceil(math.pow((features + 1) * rows, 2 / 3))


def worth_it(weights: Tensor, features: int) -> bool:
    """Whether the small problem would be small, and no row so heavy that a sample must have it."""
    rows = len(weights)
    small = rows >= _MANY and _SMALLER * sample_size(rows, features) < rows
    return small and float(weights.max()) <= _HEAVIEST * float(weights.sum())


def solve_by_sides(
    shards: Shards,
    tau: float,
    solve: Callable[..., LinearResult],
    *,
    target: int = 0,
    bound: tuple[Line, int] | None = None,
    start: tuple[Tensor, Tensor] | None = None,
    tol: float = 1e-8,
    max_seconds: float | None = None,
    **options: Any,
) -> LinearResult:
    """What `solve(x, y, loss=Pinball(tau), ...)` says of all rows (x, y) or (x, y, weights).

    `bound` is a line that the fit must not be below (side 1) or above (side -1) on any row.
    `options` are the solver's regularizer, constraint and fit_intercept. Of several processes the
    first one solves the small problems.
    """
    began = time.perf_counter()
    communicator = shards.communicator
    passes = _Passes(shards, target)

    def solved(rows: Rows, *, tol: float, start: Any, limits: Any = None) -> LinearResult:
        spent = communicator.largest([time.perf_counter() - began])[0]
        fit: LinearResult
        if not communicator.leads:
            fit = communicator.first(None)
            return fit
        x, y, weights = rows
        ends = {} if limits is None else {_ENDS[limits[1]]: limits[0](x)}
        left = None if max_seconds is None else max(1e-3, max_seconds - spent)
        fit = communicator.first(
            solve(
                x, y, loss=Pinball(tau), sample_weight=weights, tol=tol, start=start,
                max_seconds=left, **options, **ends,
            )
        )  # fmt: skip
        return fit

    count = min(shards.n_rows, sample_size(shards.n_rows, passes.features))
    sample = passes.sample(count)
    fit = solved(sample, tol=_ROUGH, start=start)
    line, steps = Line(fit.coef, fit.intercept), fit.iterations
    sides = _choose_sides(line, sample, tau, count / shards.n_rows)
    apart = torch.empty(0, dtype=torch.long)  # rows that were taken out of the sums
    for _ in range(_ROUNDS):
        rows = passes.small(sides, apart)
        fit = solved(rows, tol=tol, start=(line.coef, line.intercept), limits=bound)
        line, steps = Line(fit.coef, fit.intercept), steps + fit.iterations
        checked = passes.check(sides, apart, line, bound)
        if not len(checked.wrong) or fit.status in _ENDED:
            break
        if len(checked.wrong) <= _FEW * len(rows[0]):
            apart = torch.cat([apart, checked.wrong])
            continue
        count, apart = min(2 * count, shards.n_rows), apart[:0]  # the sample has misled
        sides = _choose_sides(line, passes.sample(count), tau, count / shards.n_rows)
    return _of_all_rows(
        replace(fit, iterations=steps, seconds=time.perf_counter() - began),
        checked, shards.n_rows, tol=tol, side=0 if bound is None else bound[1],
    )  # fmt: skip


def _of_all_rows(
    fit: LinearResult, checked: _Checked, rows: int, *, tol: float, side: int
) -> LinearResult:
    """The small problem's result as that of all rows."""
    assert fit.certificate is not None
    theta = fit.theta.clone()
    theta[-1] += side * checked.short
    above = checked.excess + checked.short  # no loss is steeper than 1
    objective = fit.objective + above
    gap = fit.certificate.value + above / max(abs(objective), 1e-300)
    missed = fit.status is Status.CONVERGED and gap > tol + _NEGLIGIBLE
    return replace(
        fit,
        status=Status.NO_DECREASE if missed else fit.status,
        objective=objective,
        theta=theta,
        certificate=replace(fit.certificate, value=gap, rows=rows),
    )


def _choose_sides(line: Line, sample: Rows, tau: float, share: float) -> Sides:
    """Such that about `share` of the rows are left between, half of it on each side of tau."""
    x, y, w = sample
    center = (w @ x) / w.sum()
    moved = (x - center) * (w / w.sum()).sqrt()[:, None]
    values, vectors = torch.linalg.eigh(moved.T @ moved)
    root = torch.where(values > 1e-12 * values.max().clamp(min=1e-300), values.rsqrt(), 0.0)
    whitening = vectors * root if len(values) else x.new_zeros(0, 1)
    sides = Sides(line, torch.cat([whitening, -(center @ whitening)[None]]), 0.0, 0.0)
    order = ((y - line(x)) / sides.widths(x)).sort()
    below = w[order.indices].cumsum(0) / w.sum()
    low = int((below < tau - share / 2).sum()) - 1
    high = int((below <= tau + share / 2).sum())
    ends = (
        float(order.values[low]) if low >= 0 else -math.inf,
        float(order.values[high]) if high < len(y) else math.inf,
    )
    return replace(sides, low=ends[0], high=ends[1])


@dataclass(frozen=True)
class _Checked:
    """What one pass over all rows found of a fit."""

    excess: float  # by how much rows on the wrong side raise the mean loss above the small one's
    wrong: Tensor  # their numbers, and those of rows beyond the bound
    short: float  # what must be added to the intercept for every row to meet the bound


class _Passes:
    """Passes over all rows for one target; the same numbers come out on every process."""

    def __init__(self, shards: Shards, target: int) -> None:
        self.shards, self.target = shards, target
        self.features = row_shapes(shards)[0][0]
        self.chunk = max(1, _CHUNK // (self.features + 1))

    def sample(self, count: int) -> Rows:
        """So many rows, drawn by the same seed on every process."""
        generator = torch.Generator().manual_seed(0)
        n = self.shards.n_rows
        index = torch.randint(n, (count,), generator=generator).sort().values
        batch = self.shards.take(index if count < n else torch.arange(n))
        parts = self._read(batch.tensors) if batch.tensors else self._nothing()
        whole = batch.gathered(torch.cat([parts[0], *(part[:, None] for part in parts[1:])], 1))
        x, y, w = whole[:, :-2], whole[:, -2], whole[:, -1]
        if not bool((w > 0).any()):
            raise InvalidInputError("the weights of a sample of the rows are all 0; give others.")
        return x.contiguous(), y.contiguous(), w.contiguous()

    def small(self, sides: Sides, apart: Tensor) -> Rows:
        """Rows whose side is not known, and one for all on each side."""
        kept, sums = [], torch.zeros(2, self.features + 2, dtype=torch.float64)
        for numbers, x, y, w in self._chunks():
            side = sides.of(x, y)
            side[torch.isin(numbers, apart)] = 0
            open_ = (side == 0) & (w > 0)
            kept.append(torch.cat([x[open_], y[open_, None], w[open_, None]], 1))
            for place, sign in enumerate((-1, 1)):
                mass = w * (side == sign)
                sums[place] += torch.cat([mass @ x, (mass @ y)[None], mass.sum()[None]])
        sums = self.shards.communicator.sum(sums)
        rows = torch.cat(kept) if kept else torch.empty(0, self.features + 2, dtype=torch.float64)
        every = self.shards.communicator.each(rows.numpy())
        rows = torch.cat([torch.from_numpy(part) for part in every])
        used = sums[sums[:, -1] > 0]
        means = torch.cat([used[:, :-1] / used[:, -1:], used[:, -1:]], 1)
        whole = torch.cat([rows, means])
        return whole[:, :-2].contiguous(), whole[:, -2].contiguous(), whole[:, -1].contiguous()

    def check(
        self, sides: Sides, apart: Tensor, line: Line, bound: tuple[Line, int] | None
    ) -> _Checked:
        """The rows for which the small problem is not right, and what they amount to."""
        totals, wrong, short = torch.zeros(2, dtype=torch.float64), [], 0.0
        for numbers, x, y, w in self._chunks():
            off = line(x) - y
            totals[0] += w.sum()
            side = sides.of(x, y)
            side[torch.isin(numbers, apart)] = 0
            turned = (side * off > 0) & (w > 0)
            totals[1] += (w * off.abs())[turned].sum()
            if bound is not None:
                border = bound[0](x)
                size = x.abs() @ line.coef.abs()[:, 0] + line.intercept.abs() + border.abs()
                rounding = (x.shape[1] + 4) * _EPS * size
                missing = torch.where(w > 0, bound[1] * (border - off - y) + rounding, 0.0)
                turned |= (missing > 2 * rounding) & (side != 0)
                short = max(short, float(missing.max()) if len(missing) else 0.0)
            wrong.append(numbers[turned])
        communicator = self.shards.communicator
        mass, excess = communicator.sum(totals).tolist()
        mine = torch.cat(wrong) if wrong else torch.empty(0, dtype=torch.long)
        every = torch.cat([torch.from_numpy(p) for p in communicator.each(mine.numpy())])
        short = communicator.largest([short])[0]
        return _Checked(excess / mass, every, short)

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Our rows with their numbers through all processes."""
        numbers, first = self.shards.numbers(), 0
        for batch in self.shards.chunks(self.chunk):
            x, y, w = self._read(batch)
            yield numbers[first : first + len(x)], x, y, w
            first += len(x)

    def _read(self, batch: tuple[Tensor, ...]) -> Rows:
        x, y = (part.to("cpu", torch.float64) for part in batch[:2])
        y = y[:, self.target] if y.dim() == 2 else y
        w = batch[2].to("cpu", torch.float64) if len(batch) > 2 else torch.ones_like(y)
        if len(batch) > 2 and bool((check_finite("weights", w) < 0).any()):
            raise InvalidInputError(f"weights must be >= 0; got {float(w.min())}.")
        return x, y, w

    def _nothing(self) -> Rows:
        empty = torch.empty(0, dtype=torch.float64)
        return torch.empty(0, self.features, dtype=torch.float64), empty, empty
