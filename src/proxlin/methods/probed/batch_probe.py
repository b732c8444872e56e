"""What the probed method sees of one batch: its loss, a sub-gradient, and probes of its curvature.

Each part of the batch gives a probe of its own: as many backward passes over the batch as one probe
of the whole would need, and several directions instead of one. Two halves also tell how far the
sub-gradient can be trusted. Where the batch is spread over processes, one small sum finds the mean
residual of each part and one large sum everything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.linearize import Linearization, linearize_share
from proxlin.problem import Problem
from proxlin.problem.shards import Share

HALVES = 2  # the number of parts that tells how noisy the gradient is


@dataclass(frozen=True)
class Look:
    """What one batch says at the present point, the same on all processes."""

    loss: float
    gradient: Tensor  # (d,) of the batch's data term and of the quadratic part of g
    probes: list[Tensor]  # each (d,), with E[v v^T] = C of its part of the batch
    doubt: Tensor | None  # (d,) an error as large as that of `gradient`, if halves were looked at


def look(
    problem: Problem,
    theta: Tensor,
    share: Share,
    floor: float,
    generator: torch.Generator,
    *,
    parts: int,
) -> Look:
    """Mean loss, sub-gradient and one probe for each of so many parts of the batch; 0: none."""
    size = math.ceil(share.n_rows / max(parts, 1))
    communicator = problem.communicator
    loss, gradient = 0.0, problem.penalty.quadratic.to(theta) * theta
    if not communicator.leads:
        gradient.zero_()  # what belongs to no row counts once
    probes, halves = [], []
    for part, model, mean_size in _opened(problem, theta, share, size):
        slopes, weights = problem.loss.quadratic(model.residual, floor, mean_size)
        if parts:
            probes.append(model.probes(weights, 1, generator, part)[0])
        losses = problem.loss(model.residual)
        whole = part.positions is None
        part_loss = float(losses.mean() if whole else losses.sum() / part.n_rows)
        loss += part.n_rows / share.n_rows * part_loss
        slope = model.adjoint(slopes / part.n_rows)
        gradient.add_(slope, alpha=part.n_rows / share.n_rows)
        if parts == HALVES:
            halves.append(slope)
    doubts = [(halves[0] - halves[1]) / 2] if len(halves) == HALVES else []  # a row has no halves
    if share.positions is not None:
        together = [*doubts, *probes, gradient, gradient.new_tensor([loss])]
        *found, gradient, total = communicator.sum_together(together)
        doubts, probes = found[: len(doubts)], found[len(doubts) :]
        loss = float(total)
    return Look(loss, gradient, probes, doubts[0] if doubts else None)


def mean_sizes(
    problem: Problem, residuals: list[Tensor], shares: list[Share]
) -> list[Tensor] | list[None]:
    """The mean |r| of each batch over all processes, for one sum; None where all rows are here."""
    if all(share.positions is None for share in shares):
        return [None] * len(shares)
    sums = torch.stack([residual.abs().sum() for residual in residuals])
    numbers = sums.new_tensor([share.n_rows * problem.n_outputs for share in shares])
    return list(problem.communicator.sum(sums) / numbers)


def _opened(
    problem: Problem, theta: Tensor, share: Share, size: int
) -> Iterator[tuple[Share, Linearization, Tensor | None]]:
    """The parts of the batch, each linearised, and the mean |r| of those that are spread."""
    if share.positions is None:  # one after the other, while its numbers are in the cache
        for part in share.parts(size):
            yield part, linearize_share(problem, theta, part), None
        return
    parts = list(share.parts(size))
    models = [linearize_share(problem, theta, part) for part in parts]
    yield from zip(
        parts, models, mean_sizes(problem, [model.residual for model in models], parts), strict=True
    )
