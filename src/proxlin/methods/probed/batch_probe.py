"""What the probed method learns from one batch: losses, sub-gradient, and probes of its curvature.

Each part of the batch gives a probe of its own: as many backward passes over the batch as one probe
of the whole would need, and several directions instead of one. Two halves also tell how far the
sub-gradient can be trusted. Where the batch is spread over processes, one small sum finds the
scales of each part and one large sum everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.linearize import Linearization, linearize_parts
from proxlin.problem import Problem
from proxlin.problem.shards import LocalBatch

HALVES = 2  # the number of parts that tells how noisy the gradient is


@dataclass(frozen=True)
class BatchProbe:
    """What one batch says at the present point, the same on all processes but for our rows."""

    batch: LocalBatch
    losses: Tensor  # (b,) of our rows
    mean_loss: float
    typical_loss: float  # the scale of the losses, which a minority of the rows cannot move
    gradient: Tensor  # (d,) of the batch's data term and of the quadratic part of g
    probes: list[Tensor]  # each (d,), with E[v v^T] = C of its part of the batch
    gradient_error: Tensor | None  # (d,) as large as the error of `gradient`, if there are halves
    quadratic: tuple[Linearization, Tensor] | None  # J and w of our rows, if they are one part


def probe_batch(
    problem: Problem,
    theta: Tensor,
    batch: LocalBatch,
    floor: float,
    generator: torch.Generator,
    *,
    parts: int = 1,
    probes_a_part: int = 1,
) -> BatchProbe:
    """Losses, sub-gradient and probes; |r| below `floor` times its scale counts as that."""
    size = math.ceil(batch.n_rows / parts)
    gradient = problem.penalty.quadratic.to(theta) * theta
    if not batch.communicator.leads:
        gradient.zero_()  # what belongs to no row counts once
    mean_loss = typical_loss = 0.0
    losses: list[Tensor] = []
    probes: list[Tensor] = []
    halves: list[Tensor] = []
    quadratic: tuple[Linearization, Tensor] | None = None
    for part in linearize_parts(problem, theta, batch, size):
        model, n_rows = part.model, part.batch.n_rows
        slopes, weights = problem.loss.quadratic(model.residual, floor * part.scales.size)
        if probes_a_part:
            probes += model.probes(weights, probes_a_part, generator, part.batch)
        weight = n_rows / batch.n_rows
        mean_loss += weight * float(part.batch.part_of_mean(part.losses))
        typical_loss += weight * float(part.scales.loss)
        slope = model.adjoint(slopes / n_rows)
        gradient.add_(slope, alpha=weight)
        losses.append(part.losses)
        if parts == HALVES:
            halves.append(slope)
        quadratic = (model, weights) if parts == 1 else None
    errors = [(halves[0] - halves[1]) / 2] if len(halves) == HALVES else []  # a row has no halves
    if batch.communicator.size > 1:
        local = [*errors, *probes, gradient, gradient.new_tensor([mean_loss])]
        *vectors, gradient, total = batch.communicator.sum_together(local)
        errors, probes = vectors[: len(errors)], vectors[len(errors) :]
        mean_loss = float(total)
    return BatchProbe(
        batch=batch,
        losses=torch.cat(losses),
        mean_loss=mean_loss,
        typical_loss=typical_loss,
        gradient=gradient,
        probes=probes,
        gradient_error=errors[0] if errors else None,
        quadratic=quadratic,
    )
