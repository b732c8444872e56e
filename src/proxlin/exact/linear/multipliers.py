"""The method of multipliers: minimise phi, move the multipliers, raise rho, measure the gap."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from proxlin.exact.linear.coordinates import Coordinates
from proxlin.exact.linear.duality_gap import OWNED, DualityGap, clip_levels, duality_gap
from proxlin.exact.linear.lagrangian import Lagrangian, Point
from proxlin.exact.linear.linear_result import OBJECTIVE
from proxlin.exact.linear.losses import Loss
from proxlin.exact.linear.penalties import ScaledPenalty
from proxlin.exact.linear.semismooth_newton import descend
from proxlin.methods.contract import Status
from proxlin.prox import norm
from proxlin.run.loop import Loop
from proxlin.run.result import Certificate

_LOG = logging.getLogger("proxlin")

FLOOR = 1e-4  # share of the null model's loss below which a fit counts as exact
# Newton steps that one rho took at most, and by how much rho may grow then.
_GROWTH = ((6, 5.0), (10, 2.5), (18, 1.0), (math.inf, 0.3))
_STEEPEST = 1e12  # largest rho over the first one
_NEAREST = 1e-2  # first 1/rho, at least, over the typical target
_HOLD = 1.0  # first weight of the proximal term over rho; it falls as rho rises
_PATIENCE = 15  # outer steps without a smaller gap
_ZERO = 1e-12  # of a typical target: a residual that is rounding
_INNER = 30  # Newton steps for one rho


@dataclass
class Incumbent:
    """The best feasible point and bound seen, in scaled units, target by target if they part."""

    theta: Tensor  # (k, t)
    value: Tensor  # (t,) or (1,)
    bound: Tensor  # (t,) or (1,); 0 bounds every objective from below
    null: Tensor  # (t,) or (1,) loss of the null model, rows clipped
    dual: Tensor  # (n, t) the dual point of the bound
    scale: Tensor  # (t,) or (1,) value with the rows clipped
    pair_gap: Tensor  # (t,) or (1,) smallest gap of one point
    pair_theta: Tensor  # (k, t) that point
    pair_dual: Tensor  # (n, t) and the dual point that gives its gap

    def update(self, new: DualityGap) -> None:
        """Keep what is better."""
        self.pair_theta = torch.where(new.gap < self.pair_gap, new.theta, self.pair_theta)
        self.pair_dual = torch.where(new.gap < self.pair_gap, new.gap_dual, self.pair_dual)
        self.pair_gap = torch.minimum(new.gap, self.pair_gap)
        self.theta = torch.where(new.value < self.value, new.theta, self.theta)
        self.scale = torch.where(new.value < self.value, new.scale, self.scale)
        self.value = torch.minimum(self.value, new.value)
        self.dual = torch.where(new.bound > self.bound, new.dual, self.dual)
        self.bound = torch.maximum(self.bound, new.bound)

    @property
    def owned(self) -> Tensor:
        """Whether outliers own the value, so that gaps are measured point by point."""
        return self.value > OWNED * self.scale

    @property
    def answer(self) -> Tensor:
        """(k, t) the point whose gap is known."""
        return torch.where(self.owned, self.pair_theta, self.theta)

    @property
    def gaps(self) -> Tensor:
        """(t,) or (1,) what the objective at the answer can still fall by."""
        return torch.where(self.owned, self.pair_gap, self.value - self.bound)

    @property
    def base(self) -> Tensor:
        """(t,) or (1,) what gaps are relative to: the value that no outlier owns."""
        return torch.maximum(self.scale, FLOOR * self.null).clamp(min=1e-300)

    @property
    def gap(self) -> float:
        """The largest relative gap of a target."""
        return float((self.gaps / self.base).max())


class Multipliers:
    """Minimises the scaled problem from `start` (k, t) until the relative gap is at most tol."""

    def __init__(
        self,
        where: Coordinates,
        loss: Loss,
        penalty: ScaledPenalty,
        start: Tensor,
        *,
        unit: Tensor,
        tol: float,
    ) -> None:
        residual = where.design @ start - where.target
        self.tol = tol
        self.point = Point(
            start, residual, torch.zeros_like(residual), torch.zeros_like(penalty.quadratic)
        )
        # A start that fits the rows exactly says nothing about the size of the residuals to come.
        rho = 1.0 / max(typical_size(residual), _NEAREST * typical_size(where.target))
        hold = _HOLD * rho if penalty.rows else 0.0
        self.phi = Lagrangian(
            where, loss, penalty, rho, self.point.dual, self.point.penalty_dual, hold, start
        )
        self.steepest = _STEEPEST * rho
        self.clip = clip_levels(where, loss)
        constant = where.weights @ torch.minimum(loss.rows(-where.target), self.clip)
        self.unit = unit
        if not self.phi.blocks:
            constant, self.unit = constant.sum().reshape(1), unit[:1]
        infinite = torch.full_like(constant, math.inf)
        self.best = Incumbent(
            start,
            infinite,
            torch.zeros_like(constant),
            constant,
            self.point.dual,
            infinite,
            infinite,
            start,
            self.point.dual,
        )
        self.smallest, self.waited, self.inner_tol = math.inf, 0, 1e-3

    def run(self, loop: Loop) -> Status:
        """Raise rho until the gap, the budget or one of the callbacks ends it."""
        if self.best.gap <= self.tol:
            return self._report(loop) or Status.CONVERGED
        return loop.run(lambda: self._advance(loop), at_least_once=True)

    def _advance(self, loop: Loop) -> Status | None:
        """Minimise phi, measure the gap, move the multipliers."""
        phi, point, best, budget = self.phi, self.point, self.best, loop.budget
        left = _INNER if budget.max_iter is None else budget.max_iter - budget.iteration
        steps, missing = descend(
            phi,
            point,
            tol=self.inner_tol,
            max_steps=min(_INNER, left),
            budget=budget,
            solved=best.gaps / best.base <= self.tol,
        )
        budget.iteration += steps
        # Before the residual is computed afresh: its rounding, times rho, would be in the dual.
        point.dual = phi.rows_gradient(point.residual)[1]
        point.residual = phi.where.design @ point.theta - phi.where.target
        best.update(duality_gap(phi, point, point.dual, self.clip))
        gap = best.gap
        stopped = self._report(loop)
        _LOG.debug("rho %.2e steps %d gradient %.1e gap %.2e", phi.rho, steps, missing, gap)
        self.waited = 0 if gap < 0.9 * self.smallest else self.waited + 1
        self.smallest = min(self.smallest, gap)
        if gap <= self.tol:
            return Status.CONVERGED
        if not math.isfinite(missing):
            return Status.NON_FINITE
        status = stopped or budget.exhausted()
        if status is None and self.waited >= _PATIENCE:
            status = Status.NO_DECREASE
        if status is None:
            self._raise_rho(steps, gap)
        return status

    def _raise_rho(self, steps: int, gap: float) -> None:
        phi, point = self.phi, self.point
        if phi.penalty.rest is not None:
            theta = point.theta[: phi.penalty.rows]
            point.penalty_dual = phi.penalty.rest.split(theta, phi.penalty_dual, phi.rho)[1]
        # Gradients shrink with the objective: where no step was due the tolerance is too loose.
        tighter = self.inner_tol if steps else 1e-2 * self.inner_tol
        self.inner_tol = max(min(tighter, 1e-2 * gap), 1e-15)
        growth = next(factor for most, factor in _GROWTH if steps <= most)
        self.phi = replace(
            phi,
            rho=min(phi.rho * growth, self.steepest),
            dual=point.dual,
            penalty_dual=point.penalty_dual,
            hold=phi.hold / growth,
            anchor=point.theta,
        )

    def _report(self, loop: Loop) -> Status | None:
        best, where = self.best, self.phi.where
        return loop.report(
            float((self.unit * best.value).sum()),
            lambda: torch.cat([part.reshape(-1) for part in where.unscale(best.answer)]),
            certificate=Certificate("duality gap", best.gap, OBJECTIVE, len(where.weights)),
            details={"gap": best.gap, "rho": self.phi.rho},
        )


def typical_size(residual: Tensor) -> float:
    """The median size of the rows in scaled units, of those that are not zero if most are, or 1."""
    sizes = norm(residual, p=2.0)
    typical = float(sizes.median())
    if typical <= _ZERO and bool((sizes > _ZERO).any()):
        typical = float(sizes[sizes > _ZERO].median())
    return typical if typical > 0 else 1.0
