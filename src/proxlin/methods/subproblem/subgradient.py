"""Stochastic sub-gradient steps on the sub-problem: the inner solver of MBOSGD."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from proxlin._checks import check_count, check_interval, check_positive
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.solver import Deadline, SubproblemResult, time_is_up


@dataclass(frozen=True, kw_only=True)
class Subgradient:
    """Sub-gradient descent with momentum on batches of rows (MBOSGD, App. F). Each step is

        s     =  mean over the batch of J_i^T d||r_i||_p + H (theta - anchor)
        v     =  theta - learning_rate * s + momentum * (theta - theta before)
        theta <- argmin_x  learning_rate * G(x) + 1/2 ||x - v||^2

    with r_i = F_i + J_i (theta - anchor). Without G this is the usual heavy ball; g and C are met
    by their prox, so that each iterate lies in C. The momentum is that of the iterates: one of the
    sub-gradients would weigh the loss 1/(1 - momentum) times as much as G. There are no residuals
    to stop on: it takes `max_steps` steps and returns the last iterate.
    """

    learning_rate: float = 1e-5
    momentum: float = 0.9
    max_steps: int = 500
    batch_size: int = 8

    def __post_init__(self) -> None:
        check_positive("Subgradient(learning_rate=...)", self.learning_rate)
        check_interval("Subgradient(momentum=...)", self.momentum, 0.0, 0.9999)
        check_count("Subgradient(max_steps=...)", self.max_steps)
        check_count("Subgradient(batch_size=...)", self.batch_size)

    def solve(
        self,
        model: ConvexModel,
        *,
        iteration: int = 0,
        generator: torch.Generator,
        deadline: Deadline | None = None,
    ) -> SubproblemResult:
        """Start at the anchor; `iteration` plays no part."""
        theta = before = model.anchor
        metric = model.metric.weights(theta)
        steps = 0
        while steps < self.max_steps and not time_is_up(deadline):
            rows = model.linearization(model.sample(self.batch_size, generator))
            shift = theta - model.anchor
            predicted = rows.residual + rows.apply(shift)
            slope = model.loss.slope(predicted) / len(predicted)
            slope = rows.adjoint(slope) + metric * shift
            target = theta - self.learning_rate * slope + self.momentum * (theta - before)
            before, theta = theta, model.penalty.prox(target, self.learning_rate)
            steps += 1
        return SubproblemResult(theta, steps, None, None, converged=False)
