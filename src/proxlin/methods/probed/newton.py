"""A Newton step on the quadratic of one batch, by conjugate gradients on J and its transpose."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from proxlin.linearize import Linearization
from proxlin.methods.curvature import Curvature

Product = Callable[[Tensor], Tensor]  # v -> M v
Room = tuple[Tensor, Tensor]  # the lowest and the highest step

_MOST_STEPS = 30
_ACCURACY = 1e-2  # of the solution, in the norm of the preconditioner
_FACES = 4  # of the box, on each of which conjugate gradients are run


def newton_step(
    model: Linearization,
    weights: Tensor,
    gradient: Tensor,
    shift: Tensor,
    curvature: Curvature,
    *,
    n_rows: int,
    total: Product,
    allowed: float = math.inf,
    room: Room | None = None,
) -> tuple[Tensor, float]:
    """s = -A^{-1} gradient and s^T A s for A = (1/B) sum_i J_i^T diag(w_i) J_i + diag(shift).

    With `room` for it, low <= s <= high holds too, and what has s^T A s above `allowed` is not
    worked out any further. The averaged curvature preconditions: it is A of some steps ago, without
    what couples layers. The model may hold some of the B = `n_rows` rows only; `total` then sums up
    over all processes.
    """

    def times(vector: Tensor) -> Tensor:
        pulled = total(model.adjoint(weights * model.apply(vector) / n_rows))
        return pulled + shift * vector

    if room is not None:
        return bounded_step(times, gradient, curvature.solve, room, allowed)
    # Solved to the end also where the step will be cut: what ends early follows the slope more than
    # the curvature, and nets that are led so end higher.
    step = conjugate_gradients(times, -gradient, curvature.solve)
    return step, float(step @ times(step))


def bounded_step(
    times: Product,
    gradient: Tensor,
    precondition: Product,
    room: Room,
    allowed: float = math.inf,
) -> tuple[Tensor, float]:
    """About argmin of gradient . s + 1/2 s^T A s over low <= s <= high, and its s^T A s.

    What a bound holds back rests; conjugate gradients move the others, the bounds bend their way,
    and what they have bent rests in the next round. Where the bent way does not lead down, the
    slope is followed instead, which does however it is bent. Each round lowers the quadratic.
    """
    (low, high), step, slope, form = room, torch.zeros_like(gradient), gradient, 0.0
    for _ in range(_FACES):
        held = ((step <= low) & (slope > 0)) | ((step >= high) & (slope < 0))
        free = (~held).to(slope)
        way = conjugate_gradients(
            lambda v, free=free: free * times(free * v),  # type: ignore[misc]
            -free * slope,
            lambda v, free=free: free * precondition(free * v),  # type: ignore[misc]
            allowed,
        )
        found = _bent(times, slope, step, way, room)
        if found is None:
            down = -free * slope
            steep = float(down @ times(down))
            scale = float(down @ down) / steep if steep > 0 else 0.0
            found = _bent(times, slope, step, scale * down, room)
        if found is None:
            break  # nothing is left to gain
        step, image, straight = found
        slope = slope + image
        form = float(step @ (slope - gradient))
        if straight or form > allowed:
            break
    return step, form


def _bent(
    times: Product, slope: Tensor, step: Tensor, way: Tensor, room: Room
) -> tuple[Tensor, Tensor, bool] | None:
    """step + way cut to the room, or as much of that move as lowers the quadratic most.

    Comes with A times the move and whether it is the whole way; None if it does not lead down.
    """
    aim = step + way
    bent = aim.clamp(*room)
    move = bent - step
    image = times(move)
    gain, form = -float(slope @ move), float(move @ image)
    if not gain > 0:
        return None
    share = min(1.0, gain / form) if form > 0 else 1.0
    if share < 1.0:
        return (step + share * move).clamp(*room), share * image, False
    return bent, image, torch.equal(bent, aim)


def conjugate_gradients(
    times: Product,
    right: Tensor,
    precondition: Product,
    allowed: float = math.inf,
) -> Tensor:
    """x with A x = right, from x = 0, for A and the preconditioner symmetric and positive.

    x^T A x grows from step to step; once it is above `allowed`, x is returned as it is.
    """
    solution = right.new_zeros(right.shape)
    residual = right
    direction = preconditioned = precondition(residual)
    product = first = float(residual @ preconditioned)
    form = 0.0
    for _ in range(_MOST_STEPS):
        if not product > _ACCURACY**2 * first:
            break
        image = times(direction)
        curvature = float(direction @ image)
        if not curvature > 0:  # rounding has used up the accuracy there is
            break
        length = product / curvature
        solution = solution + length * direction
        form += length * product
        if form > allowed:
            break
        residual = residual - length * image
        preconditioned = precondition(residual)
        before, product = product, float(residual @ preconditioned)
        direction = preconditioned + (product / before) * direction
    return solution
