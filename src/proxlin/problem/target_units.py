"""Targets in units in which a typical one is about 1, so that a net need not grow towards them.

Steps of weights have lengths of their own, and a net whose outputs begin near 1 would need very
many of them for targets near a million. Where outputs are proportional to the last layer, they are
those of another last layer times a number: seen from inside, targets and last layer are divided by
it, and a run takes the same path whatever the targets' size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from proxlin.problem.last_layer import (
    LARGE,
    LastLayer,
    in_units,
    layers_from_the_last,
    nearly_equal,
    penalty_in_units,
    shaken,
    size_of,
)
from proxlin.problem.loss import Redescending
from proxlin.problem.problem import Problem
from proxlin.problem.rows import Batch, evenly_spread
from proxlin.problem.shards import LocalBatch, Shards

_SAMPLE = 512  # rows that tell the size of the targets,
_FEW = 32  # and how outputs depend on the last layer
_ROUNDING = 1e-4  # of rows in float32, relative


@dataclass(eq=False)
class TargetUnits:
    """theta = factor * theta', with the targets divided by `scale`."""

    scale: float = field(metadata={"fixed": True})  # of the targets
    factor: Tensor  # (d,) `scale` for the last layer, else 1

    def __post_init__(self) -> None:
        self._seen: tuple[Problem, Problem] | None = None  # a problem, and the same in these units
        # Rows and a kind of loss, and a problem of such in these units.
        self._like: tuple[Shards, type, Problem] | None = None

    def inside(self, problem: Problem) -> Problem:
        """The problem in these units; its losses are those of the problem over the scale."""
        if self._seen is None or self._seen[0] is not problem:
            self._seen = problem, self._changed(problem)
        return self._seen[1]

    def outside(self, theta: Tensor) -> Tensor:
        """The parameters of the module for those inside."""
        return theta * self.factor

    def _changed(self, problem: Problem) -> Problem:
        size, kind = self.scale**2 if problem.p == "mse" else self.scale, type(problem.loss)
        if self._like is None or self._like[:2] != (problem.shards, kind):
            other = problem.with_shards(_Scaled(problem.shards, self.scale, problem.dtype))
            other.penalty = penalty_in_units(problem.penalty, self.factor, size)
            self._like = problem.shards, kind, other
        other = self._like[2]
        if isinstance(problem.loss, Redescending):  # a limit of its own, which changes in a run
            return other.redescending(problem.loss.limit / size)
        return other


@dataclass(frozen=True, eq=False)
class _Sample:
    """Some rows, evenly spread; what is told of them is the same on all processes."""

    problem: Problem
    batch: LocalBatch  # ours of them

    @classmethod
    def of(cls, problem: Problem, count: int) -> _Sample:
        rows = min(problem.n_rows, count)
        # A stream would hand out rows by number that no step could take then.
        index = slice(0, rows) if problem.streamed else evenly_spread(problem.n_rows, rows)
        return cls(problem, problem.take(index))

    def outputs(self, theta: Tensor) -> Tensor:
        """(B, N), without the targets' rounding."""
        return self._gathered([
            self.problem.output_sign
            * self.problem.residual(theta, (*inputs, torch.zeros_like(target)))
            for *inputs, target in self._parts()
        ])  # fmt: skip

    def targets(self) -> Tensor:
        """(B, N)."""
        return self._gathered([target.reshape(len(target), -1) for *_, target in self._parts()])

    def _parts(self) -> Iterator[Batch]:
        tensors = self.batch.tensors
        chunks = (torch.split(tensor, self.problem.chunk_rows) for tensor in tensors)
        return zip(*chunks, strict=True)

    @torch.no_grad()
    def _gathered(self, parts: list[Tensor]) -> Tensor:
        empty = torch.empty(0, self.problem.n_outputs, device=self.problem.device)
        own = torch.cat([empty.to(self.problem.dtype), *parts])
        return self.batch.gathered(own.to(self.problem.dtype).detach())


def target_units(problem: Problem, theta: Tensor) -> tuple[TargetUnits, Tensor] | None:
    """The units of the targets, and the start in them; None where a last layer has no such units.

    A start at `theta` that explains the targets better than a constant stays what it is. Any other
    one keeps its numbers in the new units, and its bias begins at the middle of the targets.
    """
    if not (problem.output_sign and len(problem.example) > 1 and problem.penalty.is_quadratic):
        return None
    sample = _Sample.of(problem, _SAMPLE)
    size = size_of(sample.targets())
    if not 0 < size < math.inf:
        return None
    few = _Sample.of(problem, _FEW)
    last = _last_layer(few, theta, size)
    if last is None:
        return None
    scale, start = in_units(last, sample, few, theta, problem.loss)
    units = TargetUnits(scale, last.factor(theta, scale))
    return (units, start) if _are_those_of_all_rows(units, problem, start) else None


@torch.no_grad()
def _are_those_of_all_rows(units: TargetUnits, problem: Problem, start: Tensor) -> bool:
    """Whether the rows inside are those outside over the scale.

    With a residual of the caller's own some targets may be marks, such as -999 for none, which
    would be none in other units.
    """
    if problem.affine_in_output:
        return True
    inside, theta, apart = units.inside(problem), units.outside(start), False
    for batch, scaled in zip(problem.chunks(), inside.chunks(), strict=True):
        rows = problem.residual(theta, batch)
        size = rows.abs() + batch[-1].abs().view_as(rows) + units.scale
        away = (units.scale * inside.residual(start, scaled) - rows).abs()
        apart = apart or not bool((away <= _ROUNDING * size).all())
    return not any(problem.communicator.largest([float(apart)]))


def _last_layer(sample: _Sample, theta: Tensor, size: float) -> LastLayer | None:
    """The parameters of one module, such that the outputs are proportional to them."""
    point = shaken(theta)
    output = sample.outputs(point)
    for last in layers_from_the_last(sample.problem.layout):
        moves = (2.0, LARGE * max(size, 1.0))
        if all(nearly_equal(sample.outputs(last.times(point, n)), n * output) for n in moves):
            return last
    return None


class _Scaled(Shards):
    """The same rows with their targets divided by a number."""

    def __init__(self, shards: Shards, scale: float, dtype: torch.dtype) -> None:
        self.inner, self.scale, self.dtype = shards, scale, dtype
        self.communicator, self.rows = shards.communicator, shards.rows
        self.n_rows, self.own, self.most = shards.n_rows, shards.own, shards.most
        self.streamed = shards.streamed

    def take(self, index: Tensor | slice) -> LocalBatch:
        """Our rows of the batch with these row numbers."""
        batch = self.inner.take(index)
        return replace(batch, tensors=self._scaled(batch.tensors))

    def chunks(self, size: int, index: Tensor | None = None) -> Iterator[Batch]:
        """Our rows in order, or those of `index`, `size` at a time."""
        return map(self._scaled, self.inner.chunks(size, index))

    def example(self) -> Batch:
        """Two rows, also on a process that has none."""
        return self._scaled(self.inner.example())

    def restricted(self, index: Tensor) -> Shards:
        """The rows of `index` alone."""
        return _Scaled(self.inner.restricted(index), self.scale, self.dtype)

    def replaced(self, data: Any, dtype: torch.dtype | None = None) -> Shards:
        """Other rows, spread in the same way."""
        return _Scaled(self.inner.replaced(data, dtype), self.scale, self.dtype)

    def _scaled(self, batch: Batch) -> Batch:
        return (*batch[:-1], batch[-1].to(self.dtype) / self.scale) if batch else batch

    def _positions(self, numbers: Tensor) -> Tensor:
        return self.inner._positions(numbers)

    def _held(self, numbers: Tensor) -> Tensor:
        return self.inner._held(numbers)
