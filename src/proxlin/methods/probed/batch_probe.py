"""What the probed method learns from one batch: loss, sub-gradient, and probes of its curvature.

Each part of the batch gives a probe of its own: as many backward passes over the batch as one probe
of the whole would need, and several directions instead of one. Two halves also tell how far the
sub-gradient can be trusted. Where the batch is spread over processes, one small sum finds the mean
residual of each part and one large sum everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.linearize import linearize_parts
from proxlin.problem import Problem
from proxlin.problem.shards import LocalBatch

HALVES = 2  # the number of parts that tells how noisy the gradient is


@dataclass(frozen=True)
class BatchProbe:
    """What one batch says at the present point, the same on all processes."""

    loss: float
    gradient: Tensor  # (d,) of the batch's data term and of the quadratic part of g
    probes: list[Tensor]  # each (d,), with E[v v^T] = C of its part of the batch
    gradient_error: Tensor | None  # (d,) as large as the error of `gradient`, if there are halves


def probe_batch(
    problem: Problem,
    theta: Tensor,
    batch: LocalBatch,
    floor: float,
    generator: torch.Generator,
    *,
    parts: int,
) -> BatchProbe:
    """Mean loss, sub-gradient and one probe for each of so many parts of the batch; 0: none."""
    size = math.ceil(batch.n_rows / max(parts, 1))
    loss, gradient = 0.0, problem.penalty.quadratic.to(theta) * theta
    if not batch.communicator.leads:
        gradient.zero_()  # what belongs to no row counts once
    probes, halves = [], []
    for part, model, mean_size in linearize_parts(problem, theta, batch, size):
        slopes, weights = problem.loss.quadratic(model.residual, floor, mean_size)
        if parts:
            probes.append(model.probes(weights, 1, generator, part)[0])
        weight = part.n_rows / batch.n_rows
        loss += weight * float(part.part_of_mean(problem.loss(model.residual)))
        slope = model.adjoint(slopes / part.n_rows)
        gradient.add_(slope, alpha=weight)
        if parts == HALVES:
            halves.append(slope)
    errors = [(halves[0] - halves[1]) / 2] if len(halves) == HALVES else []  # a row has no halves
    if batch.communicator.size > 1:
        local = [*errors, *probes, gradient, gradient.new_tensor([loss])]
        *vectors, gradient, total = batch.communicator.sum_together(local)
        errors, probes = vectors[: len(errors)], vectors[len(errors) :]
        loss = float(total)
    return BatchProbe(loss, gradient, probes, errors[0] if errors else None)
