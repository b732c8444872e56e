"""Ridge regression by Huber's loss, to a duality gap; rows far off may lose their weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from proxlin.estimators.robust_scale import (
    LEAST_SCALE,
    redescending_weights,
    residual_scale,
)
from proxlin.estimators.tables import Matrix, Vector

ROUGH, FINE = 1e-2, 1e-6  # duality gap, relative, while fits are compared and at the end
_SQUARED = 1.0  # robust deviations up to which the loss of a row is squared
_HALF = 0.55  # share of the rows that the second start is found from
_BROKEN = 0.5  # of the first start's median error, below which the second one takes its place
_STEPS, _ROUNDS = 60, 8
_DAMPED = 0.1  # share of the upper quadratic's curvature beyond the bend


def robust_ridge(
    a: Matrix, z: Matrix, strength: float, start: Matrix | None, *, tol: float, floor: float
) -> tuple[Matrix, float]:
    """Coefficients (columns + 1, targets) with the intercept last, and the gap of the last fit.

    Again and again with the weight that each row's residual leaves it, until the weights stay.
    """
    beta = _start(a, z, strength, floor) if start is None else start
    gap, weights = np.inf, np.zeros(len(a))
    for number in range(_ROUNDS + 1):
        residuals = z - a @ beta[:-1] - beta[-1]
        scale = max(residual_scale(residuals), floor)
        renewed = redescending_weights(residuals, scale)
        last = number == _ROUNDS or float(np.abs(renewed - weights).mean()) < ROUGH
        weights = renewed
        if last and tol >= ROUGH:
            break
        problem = HuberRidge(a, z, weights, strength, _SQUARED * scale)
        beta, gap = problem.solve(beta, tol if last else ROUGH)
        if last:
            break
    return beta, gap


def convex_ridge(
    a: Matrix, z: Matrix, strength: float, start: Matrix | None, *, tol: float, floor: float
) -> tuple[Matrix, float]:
    """The same with all rows at their full weight."""
    beta, gap = _constant(a, np.median(z, axis=0)) if start is None else start, np.inf
    for _ in range(2):  # the scale of the residuals, then the fit
        bend = _SQUARED * max(residual_scale(z - a @ beta[:-1] - beta[-1]), floor)
        beta, gap = HuberRidge(a, z, np.ones(len(a)), strength, bend).solve(beta, tol)
    return beta, gap


def _start(a: Matrix, z: Matrix, strength: float, floor: float) -> Matrix:
    """The convex fit of all rows, unless that of the half that lies closest is far better.

    The first gives way when 40 % of the rows lie on one side; the second begins at the shortest
    half of each target and goes on with the rows that it fits best.
    """
    convex, _ = convex_ridge(a, z, strength, None, tol=ROUGH, floor=floor)
    if floor:  # the half that lies closest is the frequent value
        return convex
    halved = _constant(a, np.array([_shortest_half(column) for column in z.T]))
    for _ in range(4):
        residuals = z - a @ halved[:-1] - halved[-1]
        sizes = np.abs(residuals).max(axis=1)
        weights = (sizes <= np.quantile(sizes, _HALF)).astype(np.float64)
        bend = _SQUARED * residual_scale(residuals)
        halved, _ = HuberRidge(a, z, weights, strength, bend).solve(halved, ROUGH)
    middle = [float(np.median(np.abs(z - a @ b[:-1] - b[-1]))) for b in (convex, halved)]
    return halved if middle[1] < _BROKEN * middle[0] else convex


def _constant(a: Matrix, values: Vector) -> Matrix:
    return np.vstack([np.zeros((a.shape[1], len(values))), values])


def _shortest_half(values: Vector) -> float:
    """The middle of the shortest interval that holds half of the values."""
    ordered = np.sort(values)
    count = len(ordered) // 2
    lengths = ordered[count:] - ordered[: len(ordered) - count]
    first = int(np.argmin(lengths))
    return float(ordered[first] + ordered[first + count]) / 2


@dataclass(frozen=True, eq=False)
class HuberRidge:
    """min_B (1/sum w) sum_i w_i h(z_i - a_i B - b) + strength/2 ||B||^2, each target for itself.

    h(r) = r^2/(2 bend) up to the bend and |r| - bend/2 beyond.
    """

    a: Matrix
    z: Matrix
    weights: Vector
    strength: float
    bend: float

    def solve(self, beta: Matrix, tol: float) -> tuple[Matrix, float]:
        """To a relative duality gap, by damped Newton steps.

        Rows beyond the bend have no curvature; they get a share of that of the quadratic which
        touches h from above there. If a step does not lower the objective they get all of it, and
        then it must.
        """
        beta = beta.copy()
        used = self.weights > 0
        rows = self.a if used.all() else self.a[used]
        weights = self.weights[used] / self.weights.sum()
        ridge = np.full(rows.shape[1] + 1, self.strength)
        ridge[-1] = 1e-12
        worst = 0.0
        for target, z in enumerate(self.z[used].T):
            point, share = beta[:, target], 1.0
            residuals = z - rows @ point[:-1] - point[-1]
            objective, gap = self._measure(rows, z, weights, point[:-1], residuals)
            for _ in range(_STEPS):
                if gap <= tol:
                    break
                size = np.abs(residuals)
                curvature = weights / np.maximum(size, self.bend)
                pull = np.append(rows.T @ (curvature * residuals), curvature @ residuals)
                pull -= ridge * point
                curvature[size > self.bend] *= share
                half = np.sqrt(curvature)
                moved = rows * half[:, None]
                system = np.empty((len(ridge),) * 2)
                system[:-1, :-1] = moved.T @ moved
                system[-1, :-1] = system[:-1, -1] = half @ moved
                system[-1, -1] = curvature.sum()
                system[np.diag_indices_from(system)] += ridge
                step = _solved(system, pull)
                ahead = residuals - rows @ step[:-1] - step[-1]
                reached, near = self._measure(rows, z, weights, point[:-1] + step[:-1], ahead)
                if reached > objective and share < 1:
                    share = 1.0
                    continue
                point, residuals, share = point + step, ahead, _DAMPED
                objective, gap = reached, near
            beta[:, target] = point
            worst = max(worst, gap)
        return beta, worst

    def _measure(
        self, a: Matrix, z: Vector, weights: Vector, beta: Vector, r: Vector
    ) -> tuple[float, float]:
        """The objective, and by how much at most it is above its minimum, as a share of it.

        For weights of sum 1, |u| <= 1 and sum w u = 0 the minimum is at least
        sum_i w_i (u_i z_i - bend u_i^2 / 2) - ||A^T (w u)||^2 / (2 strength); here u = h'(r).
        """
        bend, size = self.bend, np.abs(r)
        loss = np.where(size <= bend, r**2 / (2 * bend), size - bend / 2)
        objective = float(weights @ loss) + self.strength / 2 * float(beta @ beta)
        dual = np.clip(r / bend, -1.0, 1.0)
        dual -= float(weights @ dual)
        dual /= max(1.0, float(np.abs(dual).max(initial=0.0)))
        pull = a.T @ (weights * dual)
        bound = float(weights @ (dual * z - bend * dual**2 / 2))
        bound -= float(pull @ pull) / (2 * self.strength)
        return objective, max(0.0, objective - bound) / max(objective, LEAST_SCALE)


def _solved(system: Matrix, right: Vector) -> Vector:
    """The solution of a positive definite system; of one that is hardly so, damped by rounding."""
    try:
        factor = cho_factor(system, check_finite=False)
    except LinAlgError:
        system[np.diag_indices_from(system)] += LEAST_SCALE * np.trace(system)
        factor = cho_factor(system, check_finite=False)
    solution: Vector = cho_solve(factor, right, check_finite=False)
    return solution
