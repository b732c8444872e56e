"""The move of a curvature step, before the trust region cuts it, and its quadratic form.

On the whole data conjugate gradients find it on the batch's own quadratic; on batches it is solved
for with the factor of the averaged one.
"""

from __future__ import annotations

from torch import Tensor

from proxlin.methods.probed.batch_probe import BatchProbe
from proxlin.methods.probed.newton import bounds_of, newton_step, proximal_step
from proxlin.methods.probed.state import ProbedState
from proxlin.problem import Problem


def whole_data_move(
    problem: Problem, state: ProbedState, probe: BatchProbe
) -> tuple[Tensor, float]:
    """The Newton step on the batch's own quadratic and its form."""
    assert probe.quadratic is not None  # all rows are one part
    model, weights = probe.quadratic
    return newton_step(
        model,
        weights,
        probe.gradient,
        _shift(problem, state),
        state.curvature,
        n_rows=probe.batch.n_rows,
        total=probe.batch.communicator.sum,
        largest_form=state.region.radius * state.loss,
        bounds=bounds_of(problem.penalty, state.theta),
    )


def averaged_move(problem: Problem, state: ProbedState, length: float) -> tuple[Tensor, float]:
    """The Newton step on the averaged quadratic, times `length`, and its form."""
    mean = state.gradient / state.gradient_weight
    if problem.penalty.is_quadratic:
        direction = state.curvature.solve(mean)
        promise = float(mean @ direction)
        # Were A at least C, the slope m could promise no more than the mean loss: a larger
        # m^T A^{-1} m proves A too small along m by that factor, and it is raised by it. The
        # clipped loss stands for the mean, which far rows would own: it asks for a little more
        # than is proved. Only blocks leave out what couples parameters; a dense A is at most
        # too young.
        too_small = state.layered and promise > state.loss > 0
        raised = promise / state.loss if too_small else 1.0
        return -(length / raised) * direction, length**2 * promise / raised
    step, state.dual = proximal_step(
        state.curvature, problem.penalty.rest, state.theta, state.dual, state.split,
        slope=length * mean, length=length,
    )  # fmt: skip
    shift = _shift(problem, state)
    form = state.curvature.quadratic(step) + float((shift * step.double().square()).sum())
    return step, form


def _shift(problem: Problem, state: ProbedState) -> Tensor:
    """What is added to the diagonal of C: the damping and the quadratic part of g."""
    return problem.penalty.quadratic.to(state.theta) + state.damping
