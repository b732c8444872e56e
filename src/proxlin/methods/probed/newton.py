"""Newton steps: on the quadratic of one batch by products with J and its transpose, within bounds,
or with a term that is not smooth by ADMM on a factor of the averaged curvature.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from proxlin.linearize import Linearization
from proxlin.methods.curvature import AveragedCurvature
from proxlin.prox.linear_algebra import Product, conjugate_gradients
from proxlin.terms import Penalty

Bounds = tuple[Tensor, Tensor]  # the lowest and the highest step

_FACES = 4  # of the box, on each of which conjugate gradients are run
_ADMM_STEPS = 10
_solved = partial(conjugate_gradients, tolerance=1e-2, max_steps=30)


def bounds_of(penalty: Penalty, theta: Tensor) -> Bounds | None:
    """How far each parameter may move down and up; None if all may go anywhere."""
    if penalty.box is None:
        return None
    low, high = penalty.box
    return low.to(theta) - theta, high.to(theta) - theta


def newton_step(
    model: Linearization,
    weights: Tensor,
    gradient: Tensor,
    shift: Tensor,
    curvature: AveragedCurvature,
    *,
    n_rows: int,
    total: Product,
    largest_form: float = math.inf,
    bounds: Bounds | None = None,
) -> tuple[Tensor, float]:
    """s = -A^{-1} gradient and s^T A s for A = (1/B) sum_i J_i^T diag(w_i) J_i + diag(shift).

    With `bounds`, low <= s <= high holds too, and what has s^T A s above `largest_form` is not
    worked out any further. The averaged curvature preconditions: it is A of some steps ago, without
    what couples layers. The model may hold some of the B = `n_rows` rows only; `total` then sums up
    over all processes.
    """

    def times(vector: Tensor) -> Tensor:
        pulled = total(model.adjoint(weights * model.apply(vector) / n_rows))
        return pulled + shift * vector

    if bounds is not None:
        return bounded_step(times, gradient, curvature.solve, bounds, largest_form)
    # Solved to the end also where the step will be cut: what ends early follows the slope more than
    # the curvature, and nets that are led so end higher.
    step = _solved(times, -gradient, curvature.solve)
    return step, float(step @ times(step))


def bounded_step(
    times: Product,
    gradient: Tensor,
    precondition: Product,
    bounds: Bounds,
    largest_form: float = math.inf,
) -> tuple[Tensor, float]:
    """About argmin of gradient . s + 1/2 s^T A s over low <= s <= high, and its s^T A s.

    What a bound holds back rests; conjugate gradients move the others, the bounds project their
    step, and what was projected rests in the next round. Where the projected step does not lead
    down, the slope is followed instead, which does. Each round lowers the quadratic.
    """
    (low, high), step, slope, form = bounds, torch.zeros_like(gradient), gradient, 0.0
    for _ in range(_FACES):
        held = ((step <= low) & (slope > 0)) | ((step >= high) & (slope < 0))
        free = (~held).to(slope)
        direction = _solved(
            lambda v, free=free: free * times(free * v),  # type: ignore[misc]
            -free * slope,
            lambda v, free=free: free * precondition(free * v),  # type: ignore[misc]
            largest_form=largest_form,
        )
        projected = _projected_step(times, slope, step, direction, bounds)
        if projected is None:
            down = -free * slope
            curvature = float(down @ times(down))
            scale = float(down @ down) / curvature if curvature > 0 else 0.0
            projected = _projected_step(times, slope, step, scale * down, bounds)
        if projected is None:
            break  # nothing is left to gain
        step, image, unbounded = projected
        slope = slope + image
        form = float(step @ (slope - gradient))
        if unbounded or form > largest_form:
            break
    return step, form


def _projected_step(
    times: Product, slope: Tensor, step: Tensor, direction: Tensor, bounds: Bounds
) -> tuple[Tensor, Tensor, bool] | None:
    """step + direction put within the bounds, or the part of that move that is lowest.

    Comes with A times the move and whether no bound was met; None if it does not lead down.
    """
    target = step + direction
    projected = target.clamp(*bounds)
    move = projected - step
    image = times(move)
    gain, form = -float(slope @ move), float(move @ image)
    if not gain > 0:
        return None
    length = min(1.0, gain / form) if form > 0 else 1.0
    if length < 1.0:
        return (step + length * move).clamp(*bounds), length * image, False
    return projected, image, torch.equal(projected, target)


def proximal_step(
    curvature: AveragedCurvature,
    rest: Penalty,
    theta: Tensor,
    dual: Tensor,
    split: float,
    *,
    slope: Tensor,
    length: float,
) -> tuple[Tensor, Tensor]:
    """About argmin_s slope . s + 1/2 s^T A s + length * rest(theta + s), and the multiplier.

    A holds the penalty `split`. The last step is the proximal one, so that zeros and bounds hold
    exactly; `dual` is the scaled multiplier of the step before.
    """
    move = torch.zeros_like(slope)
    for _ in range(_ADMM_STEPS):
        free = curvature.solve(split * (move - dual) - slope)
        move = rest.prox(theta + free + dual, length / split) - theta
        dual = dual + free - move
    return move, dual
