"""Linear and additive models of scaled columns: curves of ramps, shrunken levels, a duality gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from proxlin.app.tabular.reading.columns import Matrix, Vector

KNOTS = 12  # ramps of a column, at most
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4)  # of the ridge, strong first

_ROWS_A_KNOT = 25
STRAIGHT = 3.0  # times the number beside its ramps, so that its slope is charged a ninth
_TAIL = 0.01  # share of the cells beyond the outer quantiles
_REACH = 1.0  # ranges between the outer quantiles that the last ramps may go beyond them
_SQUARED = 1.0  # robust deviations up to which the loss of a row is squared
_TRUSTED, _IGNORED = 2.5, 6.0  # robust deviations: full weight up to there, none beyond
_NORMAL_MAD, _LOOKS = 1.4826, 5
_HALF = 0.55  # share of the rows that the second start is found from
_BROKEN = 0.5  # of the first start's median error, below which the second one takes its place
_FLOOR = 1e-9  # of the targets' scale: residuals below it count as none
_ROUGH, _FINE = 1e-2, 1e-6  # duality gap, relative, while fits are compared and at the end
_STEPS, _ROUNDS = 60, 8
_DAMPED = 0.1  # share of the upper quadratic's curvature beyond the bend
_CHUNK = 32_768  # rows of one prediction


@dataclass(frozen=True, eq=False)
class Ramps:
    """Each number as ramps between quantiles: the k-th rises from 0 to 1 from knot k to knot k + 1.

    Three times the number, cut at the outer knots, stands beside them: a straight line costs one
    cheap coefficient, and a ridge takes curves back to it. A column without knots stays as it is.
    """

    knots: tuple[Vector, ...]

    @classmethod
    def fit(cls, x: Matrix, curved: NDArray[np.bool_]) -> Ramps:
        """Knots at the quantiles of the columns that may be curved.

        The outer knots take in cells beyond the outer quantiles, but none that lie far out.
        """
        count = max(2, min(KNOTS, len(x) // _ROWS_A_KNOT))
        shares = np.linspace(_TAIL, 1 - _TAIL, count + 1)
        knots = []
        for column, bent in zip(x.T, curved, strict=True):
            inner = np.empty(0)
            if bent:
                inner = np.unique(np.quantile(column, shares, method="inverted_cdf"))
            if len(inner) < 3:
                knots.append(np.empty(0))
                continue
            reach = _REACH * (inner[-1] - inner[0])
            near = column[(column >= inner[0] - reach) & (column <= inner[-1] + reach)]
            knots.append(np.unique([near.min(), *inner[1:-1], near.max()]))
        return cls(tuple(knots))

    @cached_property
    def owners(self) -> NDArray[np.intp]:
        """The column that each ramp comes from."""
        widths = [max(1, len(knots)) for knots in self.knots]
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def curved(self) -> list[tuple[int, int]]:
        """The columns with knots, and the first ramp of each."""
        columns = [j for j, knots in enumerate(self.knots) if len(knots)]
        return list(zip(columns, np.searchsorted(self.owners, columns).tolist(), strict=True))

    def apply(self, x: Matrix) -> Matrix:
        """(rows, ramps)."""
        ramps = np.array(x[:, self.owners] if self.curved else x, dtype=np.float64)
        for j, first in self.curved:
            k, last = self.knots[j], first + len(self.knots[j]) - 1
            column = x[:, j, None]
            ramps[:, first:last] = np.clip((column - k[:-1]) / np.diff(k), 0.0, 1.0)
            ramps[:, last] = STRAIGHT * np.clip(column[:, 0], k[0], k[-1])
        return ramps

    def product(self, x: Matrix, coef: Matrix) -> Matrix:
        """apply(x) @ coef without a copy of the columns that stay as they are."""
        bent = np.array([j for j, _ in self.curved], dtype=np.intp)
        own = np.isin(self.owners, bent)
        straight = np.zeros((x.shape[1], coef.shape[1]))
        straight[self.owners[~own]] = coef[~own]
        product: Matrix = x @ straight
        if len(bent):
            product += Ramps(tuple(self.knots[j] for j in bent)).apply(x[:, bent]) @ coef[own]
        return product


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """z = intercept + sum_j curve_j(x_j); every curve is straight in a linear model."""

    ramps: Ramps
    coef: Matrix  # (ramps, targets)
    intercept: Vector  # (targets,)
    strength: float
    redescending: bool  # whether rows far out lose their weight, or count as in an absolute error
    gap: float  # how far the objective is from its minimum at most, relative; rows as weighted
    levels: float = 1.0  # allowance of the levels of categories
    focus: float = 0.0  # power of a column's rank correlation with the target in its allowance

    @classmethod
    def path(
        cls,
        x: Matrix,
        z: Matrix,
        ramps: Ramps,
        strengths: Sequence[float] = STRENGTHS,
        *,
        redescending: bool = True,
        allowance: Vector | None = None,
        floor: float = 0.0,
        fine: bool = False,
    ) -> Iterator[AdditiveModel]:
        """One model for each strength of the ridge, each begun at the one before.

        A column of x with allowance a is charged strength/a^2. No scale of residuals is taken for
        less than the floor.
        """
        rows = ramps.apply(x)
        width = np.ones(rows.shape[1]) if allowance is None else allowance[ramps.owners]
        rows *= width
        basis = _row_basis(rows)
        inside = rows if basis is None else rows @ basis
        start: Matrix | None = None
        tol = _FINE if fine else _ROUGH
        for strength in strengths:
            if redescending:
                start, gap = _robust_ridge(inside, z, strength, start, tol=tol, floor=floor)
            else:
                start, gap = _convex_ridge(inside, z, strength, start, tol=tol, floor=floor)
            coef = start[:-1] if basis is None else basis @ start[:-1]
            coef = coef * width[:, None]
            yield cls(ramps, coef, start[-1], strength, redescending, gap)

    def predict(self, x: Matrix) -> Matrix:
        """(rows, targets)."""
        parts = [
            self.ramps.product(x[first : first + _CHUNK], self.coef) + self.intercept
            for first in range(0, len(x), _CHUNK)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self.intercept)))

    def effects(self, x: Matrix, columns: NDArray[np.intp]) -> Matrix:
        """What these columns together add to each row's prediction: (rows, targets)."""
        some = Ramps(tuple(self.ramps.knots[j] for j in columns))
        return some.apply(x[:, columns]) @ self.coef[np.isin(self.ramps.owners, columns)]

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Plain values and arrays."""
        lengths = [len(knots) for knots in self.ramps.knots]
        arrays = {"knots": np.concatenate([np.empty(0), *self.ramps.knots]), "coef": self.coef}
        arrays |= {"lengths": np.array(lengths), "intercept": self.intercept}
        names = ("strength", "redescending", "gap", "levels", "focus")
        return {name: getattr(self, name) for name in names}, arrays

    @classmethod
    def restore(cls, values: dict[str, Any], arrays: dict[str, Any]) -> AdditiveModel:
        """What `state` took apart."""
        ends = np.cumsum(arrays["lengths"])
        if len(arrays["knots"]) != (ends[-1] if len(ends) else 0):
            raise ValueError("the knots are not as many as their lengths say")
        ramps = Ramps(tuple(np.split(arrays["knots"], ends[:-1])))
        if arrays["coef"].shape != (len(ramps.owners), len(arrays["intercept"])):
            raise ValueError("the coefficients are not as many as the ramps")
        names = ("strength", "redescending", "gap", "levels", "focus")
        return cls(ramps, arrays["coef"], arrays["intercept"], *(values[name] for name in names))


def residual_scale(residuals: Matrix | Vector) -> float:
    """1.4826 times the median size of a residual, taken again without those beyond three of it.

    With 40 % of the rows far out the first look is twice too large, the last one right.
    """
    sizes = np.abs(residuals).ravel()
    scale = _NORMAL_MAD * float(np.median(sizes))
    for _ in range(_LOOKS):
        near = sizes[sizes <= 3 * scale]
        smaller = _NORMAL_MAD * float(np.median(near)) if len(near) else 0.0
        if smaller > 0.99 * scale:
            break
        scale = smaller
    return max(scale, _FLOOR)


def row_trust(residuals: Matrix, scale: float) -> Vector:
    """Weight of each row by its largest residual: 1 up to 2.5 deviations, 0 beyond 6."""
    score = np.abs(residuals).max(axis=1) / scale
    beyond = np.clip((score - _TRUSTED) / (_IGNORED - _TRUSTED), 0.0, 1.0)
    trust: Vector = (1.0 - beyond**2) ** 2
    return trust


def _robust_ridge(
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
        renewed = row_trust(residuals, scale)
        last = number == _ROUNDS or float(np.abs(renewed - weights).mean()) < _ROUGH
        weights = renewed
        if last and tol >= _ROUGH:
            break
        problem = _HuberRidge(a, z, weights, strength, _SQUARED * scale)
        beta, gap = problem.solve(beta, tol if last else _ROUGH)
        if last:
            break
    return beta, gap


def _convex_ridge(
    a: Matrix, z: Matrix, strength: float, start: Matrix | None, *, tol: float, floor: float
) -> tuple[Matrix, float]:
    """The same with all rows at their full weight."""
    beta, gap = _constant(a, np.median(z, axis=0)) if start is None else start, np.inf
    for _ in range(2):  # the scale of the residuals, then the fit
        bend = _SQUARED * max(residual_scale(z - a @ beta[:-1] - beta[-1]), floor)
        beta, gap = _HuberRidge(a, z, np.ones(len(a)), strength, bend).solve(beta, tol)
    return beta, gap


def _start(a: Matrix, z: Matrix, strength: float, floor: float) -> Matrix:
    """The convex fit of all rows, unless that of the half that lies closest is far better.

    The first gives way when 40 % of the rows lie on one side; the second begins at the shortest
    half of each target and goes on with the rows that it fits best.
    """
    convex, _ = _convex_ridge(a, z, strength, None, tol=_ROUGH, floor=floor)
    if floor:  # the half that lies closest is the frequent value
        return convex
    halved = _constant(a, np.array([_shortest_half(column) for column in z.T]))
    for _ in range(4):
        residuals = z - a @ halved[:-1] - halved[-1]
        sizes = np.abs(residuals).max(axis=1)
        weights = (sizes <= np.quantile(sizes, _HALF)).astype(np.float64)
        bend = _SQUARED * residual_scale(residuals)
        halved, _ = _HuberRidge(a, z, weights, strength, bend).solve(halved, _ROUGH)
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
class _HuberRidge:
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
        return objective, max(0.0, objective - bound) / max(objective, _FLOOR)


def _solved(system: Matrix, right: Vector) -> Vector:
    """The solution of a positive definite system; of one that is hardly so, damped by rounding."""
    try:
        factor = cho_factor(system, check_finite=False)
    except LinAlgError:
        system[np.diag_indices_from(system)] += _FLOOR * np.trace(system)
        factor = cho_factor(system, check_finite=False)
    solution: Vector = cho_solve(factor, right, check_finite=False)
    return solution


def _row_basis(rows: Matrix) -> Matrix | None:
    """Orthonormal columns that span the rows, where they are fewer than the columns."""
    if rows.shape[1] <= len(rows):
        return None
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > 1e-12 * values.max(initial=0.0)
    basis: Matrix = rows.T @ (vectors[:, kept] / np.sqrt(values[kept]))
    return basis
