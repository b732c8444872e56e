"""Targets in units in which a typical one is about 1, so that a net need not grow towards them.

Steps of weights have lengths of their own, and a net whose outputs begin near 1 would need very
many of them for targets near a million. Where the last layer is linear, its weights times a number
are the outputs times that number: seen from inside, targets and last layer are divided by it, and
a run takes the same path whatever the targets' size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from proxlin.problem.loss import Redescending
from proxlin.problem.problem import Problem
from proxlin.problem.rows import Batch, evenly_spread
from proxlin.problem.scales import clipped_mean, median, row_sizes
from proxlin.problem.shards import LocalBatch, Shards
from proxlin.terms import Penalty, Regularizer, Ridge

_SAMPLE = 512  # rows that tell the size of the targets, at most
_DEVIATION = 1.25  # of a Gaussian, in means of its size
_KNOWS = 0.9  # of the loss of constant outputs, below which the start is worth keeping
_AFAR = 4.0  # deviations of the targets: a bias would need long to get there
_STIRRED = 0.1  # added to every parameter, lest zeros hide how the outputs depend on them
_SAME = 1e-3  # relative difference of outputs that counts as rounding


@dataclass(eq=False)
class TargetUnits:
    """theta = factor * theta', with the targets divided by `scale`."""

    scale: float = field(metadata={"fixed": True})  # of the targets, a power of two
    factor: Tensor  # (d,) `scale` for the last layer, else 1

    def __post_init__(self) -> None:
        self._seen: tuple[Problem, Problem] | None = None  # a problem, and the same in these units

    def inside(self, problem: Problem) -> Problem:
        """The problem in these units; its losses are those of the problem over the scale."""
        if self.scale == 1:
            return problem
        if self._seen is None or self._seen[0] is not problem:
            self._seen = problem, self._changed(problem)
        return self._seen[1]

    def outside(self, theta: Tensor) -> Tensor:
        """The parameters of the module for those inside."""
        return theta if self.scale == 1 else theta * self.factor

    def _changed(self, problem: Problem) -> Problem:
        other = problem.with_shards(_Scaled(problem.shards, self.scale))
        size = self.scale**2 if problem.p == "mse" else self.scale
        weights = problem.penalty.quadratic.to(self.factor) * self.factor**2 / size
        other.penalty = Penalty(problem.layout, _ridges(problem, weights))
        if isinstance(problem.loss, Redescending):
            return other.redescending(problem.loss.limit / self.scale)
        return other


def target_units(problem: Problem, theta: Tensor) -> tuple[TargetUnits, Tensor] | None:
    """The units of the targets and the start in them; None where they cannot be taken out.

    A start at `theta` that explains the targets better than a constant stays what it is. Any other
    one keeps its numbers in the new units: the outputs begin as large as the targets, and where
    those are far from 0, at their middle.
    """
    if not (problem.affine_in_output and len(problem.example) > 1 and problem.penalty.is_quadratic):
        return None
    last = _last_layer(problem, theta)
    if last is None:
        return None
    batch, targets = _sampled_targets(problem)
    middle = targets.median(0).values
    size = _DEVIATION * _typical_size(targets - middle)
    if not 0 < size < math.inf:
        return None
    scale = 2.0 ** round(math.log2(size))
    factor = torch.ones_like(theta)
    for name in last:
        factor[problem.layout.slice(name)] = scale
    units = TargetUnits(scale, factor)
    with torch.no_grad():
        own = problem.losses(theta, batch.tensors) if batch.count else theta.new_empty(0)
    constant = problem.loss(middle - targets)
    if clipped_mean(batch.gathered(own)) < _KNOWS * clipped_mean(constant):
        return units, theta / factor
    start, bias = theta.clone(), _bias(problem, theta, last)
    if bias is not None and bool((middle.abs() > _AFAR * size).any()):
        part = problem.layout.slice(bias)
        start[part] = middle.view(part.stop - part.start, -1).mean(1) / scale
    return units, start


def _sampled_targets(problem: Problem) -> tuple[LocalBatch, Tensor]:
    """Some rows evenly spread, ours of them, and the targets of all of them as (B, N)."""
    count = min(problem.n_rows, _SAMPLE, problem.chunk_rows)
    index = slice(0, count) if problem.streamed else evenly_spread(problem.n_rows, count)
    batch = problem.take(index)
    own = torch.empty(0, problem.n_outputs, dtype=problem.dtype, device=problem.device)
    if batch.count:
        own = batch.tensors[-1].reshape(batch.count, -1).to(problem.dtype)
    return batch, batch.gathered(own)


def _typical_size(away: Tensor) -> float:
    """Of what is not 0 in the rows of (B, N): classes as zeros and ones have the size 1."""
    some = (away != 0).sum(1).clamp_min(1)
    return float(median(row_sizes(away) * away.shape[1] / some))


def _last_layer(problem: Problem, theta: Tensor) -> list[str] | None:
    """The parameters of one module, such that the outputs are proportional to them."""
    noise = torch.randn(len(theta), generator=torch.Generator().manual_seed(0))
    point = theta + _STIRRED * noise.to(theta)
    output = _outputs(problem, point)
    layers: dict[str, list[str]] = {}
    for name in problem.layout.names:
        layers.setdefault(name.rpartition(".")[0], []).append(name)
    for names in reversed(layers.values()):
        twice = point.clone()
        for name in names:
            twice[problem.layout.slice(name)] *= 2
        if _alike(_outputs(problem, twice), 2 * output):
            return names
    return None


def _bias(problem: Problem, theta: Tensor, last: list[str]) -> str | None:
    """The parameter of the last layer that is added to each output or channel."""
    output = _outputs(problem, theta)
    for name in last:
        part = problem.layout.slice(name)
        count = part.stop - part.start
        if problem.n_outputs % count:
            continue
        moved, by = theta.clone(), torch.arange(1, count + 1).to(theta)
        moved[part] += by
        if _alike(
            _outputs(problem, moved), output + by.repeat_interleave(output.shape[1] // count)
        ):
            return name
    return None


def _outputs(problem: Problem, theta: Tensor) -> Tensor:
    """Those of two rows, without their targets' rounding."""
    *inputs, target = problem.example
    with torch.no_grad():
        return problem.residual(theta, (*inputs, torch.zeros_like(target)))


def _alike(one: Tensor, other: Tensor) -> bool:
    size = float(other.abs().max())
    return 0 < size < math.inf and float((one - other).abs().max()) <= _SAME * size


def _ridges(problem: Problem, weights: Tensor) -> Regularizer | None:
    """1/2 sum_j a_j theta_j^2 for weights that are the same within each parameter."""
    total: Regularizer | None = None
    for name, weight in problem.layout.split(weights).items():
        alpha = float(weight.flatten()[0]) if weight.numel() else 0.0
        if alpha:
            ridge = Ridge(alpha, on=name)
            total = ridge if total is None else total + ridge
    return total


class _Scaled(Shards):
    """The same rows with their targets divided by a number."""

    def __init__(self, shards: Shards, scale: float) -> None:
        self.inner, self.scale = shards, scale
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
        return _Scaled(self.inner.restricted(index), self.scale)

    def replaced(self, data: Any) -> Shards:
        """Other rows, spread in the same way."""
        return _Scaled(self.inner.replaced(data), self.scale)

    def _scaled(self, batch: Batch) -> Batch:
        return (*batch[:-1], batch[-1] / self.scale) if batch else batch

    def _positions(self, numbers: Tensor) -> Tensor:
        return self.inner._positions(numbers)

    def _held(self, numbers: Tensor) -> Tensor:
        return self.inner._held(numbers)
