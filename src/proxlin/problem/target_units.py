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
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from proxlin.problem.loss import Redescending
from proxlin.problem.problem import Problem
from proxlin.problem.rows import Batch, evenly_spread
from proxlin.problem.scales import clipped_mean, median, row_sizes
from proxlin.problem.shards import LocalBatch, Shards
from proxlin.terms import Penalty, Regularizer, Ridge

_SAMPLE = 512  # rows that tell the size of the targets,
_FEW = 32  # and how outputs depend on the last layer
_DEVIATION = 1.25  # of a Gaussian, in means of its size
_NEGLIGIBLE = 1 / 16  # of the targets' size: outputs below it explain nothing
_ORDINARY = 0.2  # outputs of a net as it is made
_EXTRAORDINARY = 100.0  # times more or less than that: the module itself multiplies
_PERTURBATION = 0.1  # added to every parameter, lest zeros hide how the outputs depend on them
_LARGE = 1024.0  # times the size of the targets: a bound on the outputs would show
_ROUNDING = 1e-3  # relative difference of outputs that counts as such


@dataclass(eq=False)
class TargetUnits:
    """theta = factor * theta', with the targets divided by `scale`."""

    scale: float = field(metadata={"fixed": True})  # of the targets
    factor: Tensor  # (d,) `scale` for the last layer, else 1

    def __post_init__(self) -> None:
        self._seen: tuple[Problem, Problem] | None = None  # a problem, and the same in these units

    def inside(self, problem: Problem) -> Problem:
        """The problem in these units; its losses are those of the problem over the scale."""
        if self._seen is None or self._seen[0] is not problem:
            self._seen = problem, self._changed(problem)
        return self._seen[1]

    def outside(self, theta: Tensor) -> Tensor:
        """The parameters of the module for those inside."""
        return theta * self.factor

    def _changed(self, problem: Problem) -> Problem:
        other = problem.with_shards(_Scaled(problem.shards, self.scale, problem.dtype))
        size = self.scale**2 if problem.p == "mse" else self.scale
        weights = problem.penalty.quadratic * (self.factor.cpu().double() ** 2 / size)
        other.penalty = Penalty(problem.layout, _ridges(problem, weights))
        if isinstance(problem.loss, Redescending):
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
            self.problem.residual(theta, (*inputs, torch.zeros_like(target)))
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
    if not (problem.subtracts_target and len(problem.example) > 1 and problem.penalty.is_quadratic):
        return None
    sample = _Sample.of(problem, _SAMPLE)
    targets, outputs = sample.targets(), sample.outputs(theta)
    middle = targets.median(0).values
    size = _DEVIATION * _typical_size(targets - middle)
    if not 0 < size < math.inf:
        return None
    few = _Sample.of(problem, _FEW)
    last = _last_layer(few, theta, size)
    if last is None:
        return None
    spread = _DEVIATION * _typical_size(outputs - outputs.median(0).values)
    scale = size / _own_multiple(problem, theta, last, spread)
    factor = torch.ones_like(theta)
    for name in last:
        factor[problem.layout.slice(name)] = scale
    units = TargetUnits(scale, factor)
    own, constant = (clipped_mean(problem.loss(r - targets)) for r in (outputs, middle))
    if own < constant and spread > _NEGLIGIBLE * size:
        return units, theta / factor
    start, bias = theta.clone(), _bias(few, theta, last)
    if bias is not None:
        name, tiled = bias
        part = problem.layout.slice(name)
        count = part.stop - part.start
        each = middle.view(-1, count).mean(0) if tiled else middle.view(count, -1).mean(1)
        start[part] = each / scale
    return units, start


def _typical_size(away: Tensor) -> float:
    """Of what is not 0 in the rows of (B, N): classes as zeros and ones have the size 1."""
    some = (away != 0).sum(1).clamp_min(1)
    return float(median(row_sizes(away) * away.shape[1] / some))


def _own_multiple(problem: Problem, theta: Tensor, last: list[str], spread: float) -> float:
    """What the module itself multiplies its last layer's outputs by; 1 where that is unclear.

    Outputs by a last layer as it is made are compared with what is ordinary for them.
    """
    parts = problem.layout.split(theta)
    matrices = [parts[name].flatten(1) for name in last if parts[name].ndim > 1]
    made = [float(m.square().mean().sqrt()) * math.sqrt(3 * m.shape[1]) for m in matrices]
    if not made or not made[0] > 0:
        return 1.0
    multiple = spread / made[0] / _ORDINARY
    clear = multiple > _EXTRAORDINARY or 0 < multiple < 1 / _EXTRAORDINARY
    return multiple if clear and math.isfinite(multiple) else 1.0


def _last_layer(sample: _Sample, theta: Tensor, size: float) -> list[str] | None:
    """The parameters of one module, such that the outputs are proportional to them."""
    layout = sample.problem.layout
    noise = torch.randn(len(theta), generator=torch.Generator().manual_seed(0))
    point = theta + _PERTURBATION * noise.to(theta)
    output = sample.outputs(point)
    layers: dict[str, list[str]] = {}
    for name in layout.names:
        module = name.partition(".parametrizations.")[0]
        module = module if module != name else name.rpartition(".")[0]
        layers.setdefault(module, []).append(name)
    for names in reversed(layers.values()):
        for times in (2.0, _LARGE * max(size, 1.0)):
            moved = point.clone()
            for name in names:
                moved[layout.slice(name)] *= times
            if not _nearly_equal(sample.outputs(moved), times * output):
                break
        else:
            return names
    return None


def _bias(sample: _Sample, theta: Tensor, last: list[str]) -> tuple[str, bool] | None:
    """The parameter that is added to the outputs, and whether they repeat it as a whole.

    Otherwise they repeat each of its numbers, as those of channels that come first.
    """
    layout, output = sample.problem.layout, sample.outputs(theta)
    for name in last:
        part = layout.slice(name)
        count, width = part.stop - part.start, output.shape[1]
        if width % count:
            continue
        moved, by = theta.clone(), torch.arange(1, count + 1).to(theta)
        moved[part] += by
        shift = sample.outputs(moved) - output
        for tiled in (False, True):
            wanted = by.repeat(width // count) if tiled else by.repeat_interleave(width // count)
            if _nearly_equal(shift, wanted.expand_as(shift)):
                return name, tiled
    return None


def _nearly_equal(one: Tensor, other: Tensor) -> bool:
    size = float(other.abs().max())
    return 0 < size < math.inf and float((one - other).abs().max()) <= _ROUNDING * size


def _ridges(problem: Problem, weights: Tensor) -> Regularizer | None:
    """1/2 sum_j a_j theta_j^2 for weights that are the same within each parameter."""
    total: Regularizer | None = None
    ends = accumulate(problem.layout.sizes)
    for name, end in zip(problem.layout.names, ends, strict=True):
        alpha = float(weights[end - 1]) if problem.layout.shape(name).count(0) == 0 else 0.0
        if alpha:
            ridge = Ridge(alpha, on=name)
            total = ridge if total is None else total + ridge
    return total


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
