"""What the probed method learns from one batch: losses, sub-gradient, and probes of its curvature.

Each part of the batch gives a probe of its own: as many backward passes over the batch as one probe
of the whole would need, and several directions instead of one. Two halves also tell how far the
sub-gradient can be trusted. Where the batch is spread over processes, one small sum finds the
scales of each part and one large sum everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from proxlin.linearize import Linearization, linearize_local, linearize_parts
from proxlin.linearize.torch_modes import quietly
from proxlin.methods.probed.normed import rank_of_moves
from proxlin.problem import Problem
from proxlin.problem.scales import clipped_mean
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


def batch_slope(problem: Problem, theta: Tensor, batch: LocalBatch) -> tuple[float, float, Tensor]:
    """Mean loss, typical loss and sub-gradient of a batch, for steps that ask nothing else."""
    gradient = problem.penalty.quadratic.to(theta) * theta
    if not batch.communicator.leads:
        gradient.zero_()
    both = theta.new_zeros(2)
    if batch.count:
        model = linearize_local(problem, theta, batch)
        losses, slopes = problem.loss.value_and_slope(model.residual)
        gradient += model.adjoint(slopes / batch.n_rows)
        mean = losses.mean()
        typical = clipped_mean(losses) if problem.loss.bounded_slope else mean
        both = torch.stack([mean, typical]) * (batch.count / batch.n_rows)
    both, gradient = batch.communicator.sum_together([both, gradient])
    mean_loss, typical_loss = both.tolist()
    return mean_loss, typical_loss, gradient


class _WorkCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiplications and additions of products of matrices and of convolutions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        work = flop_registry.get(func.overloadpacket)
        if work is not None:
            self.count += work(*args, **(kwargs or {}), out_val=found)
        return found


def applied_rows(problem: Problem, theta: Tensor, batch: LocalBatch) -> int:
    """To how many rows a matrix is applied in the slope of a batch, on average.

    More than the batch has where a row is a series or an image and meets a matrix many times.
    """
    matrices = [(shape[0], math.prod(shape[1:])) for shape in problem.layout.shapes if shape[1:]]
    if all(rank_of_moves(shape, batch.n_rows) == min(shape) for shape in matrices):
        return batch.n_rows  # enough to know
    # Without oneDNN a recurrent layer is the products of its steps, not one call of its own.
    with quietly(), torch.backends.mkldnn.flags(enabled=False), _WorkCounter() as counter:
        batch_slope(problem, theta, batch)
    counted = torch.tensor([counter.count], dtype=torch.float64)
    work = float(batch.communicator.sum(counted)) / 2  # multiplications
    entries = sum(map(math.prod, matrices))
    return max(batch.n_rows, int(work / (3 * entries)))  # forward, and backward twice
