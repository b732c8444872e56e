"""A Newton step on the quadratic of one batch, by conjugate gradients on J and its transpose."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from proxlin.curvature import Curvature
from proxlin.linearize import Linearization

_MOST_STEPS = 30
_ACCURACY = 1e-2  # of the solution, in the norm of the preconditioner


def newton_step(
    model: Linearization,
    weights: Tensor,
    gradient: Tensor,
    shift: Tensor,
    curvature: Curvature,
    *,
    n_rows: int,
    total: Callable[[Tensor], Tensor],
) -> tuple[Tensor, float]:
    """s = -A^{-1} gradient and s^T A s for A = (1/B) sum_i J_i^T diag(w_i) J_i + diag(shift).

    The averaged curvature preconditions: it is A of some steps ago, without what couples layers.
    The model may hold some of the B = `n_rows` rows only; `total` then sums up over all processes.
    """

    def times(vector: Tensor) -> Tensor:
        pulled = total(model.adjoint(weights * model.apply(vector) / n_rows))
        return pulled + shift * vector

    step = conjugate_gradients(times, -gradient, curvature.solve)
    return step, float(step @ times(step))


def conjugate_gradients(
    times: Callable[[Tensor], Tensor], right: Tensor, precondition: Callable[[Tensor], Tensor]
) -> Tensor:
    """x with A x = right, from x = 0, for A and the preconditioner symmetric and positive."""
    solution = right.new_zeros(right.shape)
    residual = right
    direction = preconditioned = precondition(residual)
    product = first = float(residual @ preconditioned)
    for _ in range(_MOST_STEPS):
        if not product > _ACCURACY**2 * first:
            break
        image = times(direction)
        curvature = float(direction @ image)
        if not curvature > 0:  # rounding has used up the accuracy there is
            break
        length = product / curvature
        solution = solution + length * direction
        residual = residual - length * image
        preconditioned = precondition(residual)
        before, product = product, float(residual @ preconditioned)
        direction = preconditioned + (product / before) * direction
    return solution
