"""SADM: the sub-problem from random batches of rows, by alternating directions (Eq. 10)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from proxlin._checks import check_choice, check_count, check_interval, check_positive
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.inner_admm import InnerADMM
from proxlin.methods.subproblem.solver import Deadline, SubproblemResult, time_is_up

_NO_MODULUS = (
    "The regulariser is not strongly convex, so Theorem 1 does not apply and SADM's rate log(T)/T"
    " is lost; rho_t = {coupling:g} t is used. Add a Ridge to every parameter to have the rate."
)


@dataclass(frozen=True)
class SADMState:
    """Where SADM stands after step t; each step makes a new one."""

    theta1: Tensor  # (d,) the copy of theta that sees the data
    theta2: Tensor  # (d,) the copy that sees g and C
    multiplier: Tensor  # (d,) of theta1 = theta2: rho_t u^t in Eq. 10
    mean1: Tensor  # (d,) running average of theta1
    mean2: Tensor  # (d,) running average of theta2
    steps: int = 0  # t
    primal: float = math.inf  # ||theta1 - theta2||
    dual: float = math.inf  # rho_t ||theta2 - theta2 before||
    inner_steps: int = 0  # of the inner ADMM, all together


@dataclass(frozen=True, kw_only=True)
class SADM:
    """Stochastic alternating directions (Eq. 10) with batches of rows (App. E). At step t

        theta1 <- argmin  mean over the batch of ||F_i + J_i (theta - anchor)||_p
                          + 1/2 ||theta - anchor||_H^2 + rho_t/2 ||theta - theta2 + u||^2
                          + gamma_t/2 ||theta - theta1||_H^2
        theta2 <- argmin  G(theta) + rho_t/2 ||theta1 - theta + u||^2
        u      <- u + theta1 - theta2

    with rho_t = coupling * t and gamma_t = growth * t, where H = h I makes gamma_t = h t. It stops
    after `max_steps`, or when ||theta1 - theta2|| and rho_t ||change of theta2|| are both at most
    decay^k * tolerance at the outer iteration k = 0, 1, ... (App. F), but not before `min_steps`.

    Eq. 10 as printed keeps u = y / rho_t while rho_t grows, which stretches the multiplier y in
    each step; the proof of Theorem 1 keeps y. So does this, unless `rescale` is False.
    """

    max_steps: int = 200
    min_steps: int = 20  # the residuals of a few batches say little about the other rows
    batch_size: int = 8
    tolerance: float = 0.1  # epsilon in App. F
    decay: float = 0.95
    coupling: float | None = None  # rho_t / t; None: the modulus beta of g, or h if that is 0
    growth: float = 1.0  # gamma_t / (h t)
    start: Literal["anchor", "zero"] = "anchor"  # zero: as in the paper
    rescale: bool = True  # of u when rho_t changes; False: Eq. 10 as printed
    # An error of a hundredth is small against the noise of a batch.
    inner: InnerADMM = field(default_factory=lambda: InnerADMM(tolerance=1e-2))

    def __post_init__(self) -> None:
        check_count("SADM(max_steps=...)", self.max_steps)
        check_count("SADM(min_steps=...)", self.min_steps)
        check_count("SADM(batch_size=...)", self.batch_size)
        check_positive("SADM(tolerance=...)", self.tolerance)
        check_interval("SADM(decay=...)", self.decay, 1e-3, 1.0)
        if self.coupling is not None:
            check_positive("SADM(coupling=...)", self.coupling)
        check_positive("SADM(growth=...)", self.growth)
        check_choice("SADM(start=...)", self.start, ("anchor", "zero"))

    def solve(
        self,
        model: ConvexModel,
        *,
        iteration: int = 0,
        generator: torch.Generator,
        deadline: Deadline | None = None,
    ) -> SubproblemResult:
        """The average of theta1 put into C, or the average of theta2, whichever is lower.

        Both lie in C, and Theorem 1 holds for both: the projection of the first average is at least
        as near to it as the second is. Early on they differ: where g shrinks, theta2 trails behind
        theta1, by a share of about log(t)/t of theta; where g asks for zeros, theta2 has them. The
        model's value on a fresh sample of rows decides.
        """
        goal = self.decay**iteration * self.tolerance
        state = self.begin(model)
        converged = False
        drawn: list[Tensor] = []
        for state in self.iterate(model, generator=generator, deadline=deadline, drawn=drawn):
            converged = state.steps >= self.min_steps and max(state.primal, state.dual) <= goal
            if converged:
                break
        return SubproblemResult(
            theta=self._answer(model, state, generator),
            steps=state.steps,
            primal=state.primal,
            dual=state.dual,
            converged=converged,
            rows=int(torch.bincount(torch.cat(drawn)).count_nonzero()) if drawn else 0,
            remarks=self._remarks(model),
        )

    def iterate(
        self,
        model: ConvexModel,
        *,
        generator: torch.Generator,
        deadline: Deadline | None = None,
        drawn: list[Tensor] | None = None,
    ) -> Iterator[SADMState]:
        """The state after each of at most `max_steps` steps; `drawn` collects the row numbers."""
        state = self.begin(model)
        while state.steps < self.max_steps and not time_is_up(deadline):
            index = model.sample(self.batch_size, generator)
            if drawn is not None:
                drawn.append(index)
            state = self.step(model, state, index)
            yield state

    def begin(self, model: ConvexModel) -> SADMState:
        """The state before the first step.

        The minimiser of the model is near the anchor, not near 0: with gamma_t growing like t, the
        way from 0 would have to be made in the first few, noisiest steps. The multiplier starts at
        a sub-gradient of G at the anchor, so that the first theta2 does not fall back towards the
        minimiser of G either.
        """
        anchor = model.anchor
        if self.start == "zero":
            zero = torch.zeros_like(anchor)
            return SADMState(zero, zero, zero, zero, zero)
        step = 1e-3  # short: the prox is then close to the anchor and its residual a sub-gradient
        exact = anchor.double()
        pull = (exact - model.penalty.prox(exact, step)) / step
        return SADMState(anchor, anchor, pull.to(anchor), anchor, anchor)

    def step(self, model: ConvexModel, state: SADMState, index: Tensor) -> SADMState:
        """Step t + 1 of Eq. 10 on the rows at `index`."""
        t = state.steps + 1
        anchor = model.anchor
        rho = self._coupling(model) * t
        metric = model.metric.weights(anchor)
        gamma = self.growth * t * metric
        # The three quadratics of Eq. 10a are one, with these weights and this centre (Eq. 12).
        # All is measured from the anchor, where A theta + b is the residual itself.
        weights = metric + gamma + rho
        shift1, shift2 = state.theta1 - anchor, state.theta2 - anchor
        multiplier = state.multiplier
        if not self.rescale:
            multiplier = multiplier * (t / max(t - 1, 1))
        centre = (rho * shift2 - multiplier + gamma * shift1) / weights
        rows = model.linearization(index)
        inner = self.inner.solve(rows, rows.residual, centre, weights, model.loss, start=shift1)
        theta1 = anchor + inner.x
        theta2 = model.penalty.prox(theta1 + multiplier / rho, 1 / rho)
        return SADMState(
            theta1=theta1,
            theta2=theta2,
            multiplier=multiplier + rho * (theta1 - theta2),
            # Theorem 1 averages theta1 before the step; after it the average is one step ahead,
            # which changes it by O(1/T).
            mean1=state.mean1 + (theta1 - state.mean1) / t,
            mean2=state.mean2 + (theta2 - state.mean2) / t,
            steps=t,
            primal=float(torch.linalg.vector_norm(theta1 - theta2)),
            dual=rho * float(torch.linalg.vector_norm(theta2 - state.theta2)),
            inner_steps=state.inner_steps + inner.steps,
        )

    def _answer(self, model: ConvexModel, state: SADMState, generator: torch.Generator) -> Tensor:
        candidates = [model.penalty.project(state.mean1), state.mean2]
        index = model.sample(8 * self.batch_size, generator)
        return min(candidates, key=lambda theta: model.value(theta, index))

    def _coupling(self, model: ConvexModel) -> float:
        if self.coupling is not None:
            return self.coupling
        return model.penalty.modulus or float(model.metric.weights(model.anchor).mean())

    def _remarks(self, model: ConvexModel) -> tuple[str, ...]:
        if model.penalty.modulus > 0:
            return ()
        return (_NO_MODULUS.format(coupling=self._coupling(model)),)
