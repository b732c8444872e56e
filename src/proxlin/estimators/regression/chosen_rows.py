"""Whether rows are left out for a reason, or because some rows always fit worst.

A fit that may choose which rows to leave out gains by it even where all are good, the more so the
fewer rows there are for each coefficient. What leaving m rows out gains is compared with what the
best choice of m rows gains on targets of which none is wrong: the same features, the fit to all
rows, Gaussian noise. Such targets are drawn until it is clear (sequential Monte Carlo test, Besag &
Clifford 1991). Rows that are all off alike need one number instead of m, which is tried as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln
from scipy.stats import f as fisher

from proxlin.estimators.robust_scale import Vector

Rows = NDArray[np.intp]

LEVEL = 0.05  # share of clean targets of which so many rows would be left out, a half by each gain
MOST_DRAWN = 99  # clean targets
MOST_ROWS = 10_000  # that weights stand for: beyond, a row of weight w is one row
MOST_WORK = 3e10  # multiplications they may cost; beyond, the proposed rows are left out

_LEAST = 1e-9  # of a residual's variance over the noise's: below it a row fits whatever it says
_SINGULAR = 1e-12  # added to R_DD, which has no inverse once too many rows are left out
_SEED = 0  # of the noise: the same table gets the same answer
_MORE = 1e-9  # relative gain that counts as one
_EXCHANGES = 20
_OVERWHELMING = 500.0  # gain whose exponential is still a number


@dataclass(frozen=True, eq=False)
class LeavingOut:
    """What least squares, or a ridge, gains by leaving rows out, or by shifting them together.

    Rows are multiplied by the root of their weight. With R the matrix that takes a target to its
    residuals, the objective is y'Ry. Without the rows D it is less by (Ry)_D' R_DD^-1 (Ry)_D, with
    a shift of all of them by (z'Ry)^2 / z'Rz, z the root of the weights in D and zero elsewhere.
    """

    residual_maker: Vector  # (n, n) R
    root: Vector  # (n,) of the weights

    @classmethod
    def by(cls, x: Vector, weights: Vector, *, penalty: float, intercept: bool) -> LeavingOut:
        """R of sum_i w_i (y_i - b_0 - x_i b)^2 + penalty ||b||^2."""
        root, total = np.sqrt(weights), float(weights.sum())
        middle = weights @ x / total if intercept else np.zeros(x.shape[1])
        left, values, _ = np.linalg.svd((x - middle) * root[:, None], full_matrices=False)
        kept = values > 1e-10 * values.max(initial=0.0)
        left, squares = left[:, kept], values[kept] ** 2
        maker = np.eye(len(x)) - (left * (squares / (squares + penalty))) @ left.T
        return cls(maker - np.outer(root, root) / total if intercept else maker, root)

    def gains(self, target: Vector, count: int, *proposed: Rows) -> Vector:
        """-log of the share of the objective that is left by the best `count` rows found.

        Without them, and with one shift of all of them.
        """
        residual = self.residual_maker @ target
        spread = residual / np.sqrt(np.maximum(self.residual_maker.diagonal(), _LEAST))
        order = np.argsort(spread, kind="stable")
        one_by_one = self._one_by_one(residual, count)
        gained = [
            max(self._exchanged(residual, rows) for rows in (one_by_one, *proposed)),
            max(
                self._shifted(residual, rows)
                for rows in (order[:count], order[-count:], *proposed)
            ),
        ]  # fmt: skip
        left = 1.0 - np.array(gained) / float(target @ residual)
        return np.asarray(-np.log(np.maximum(left, np.finfo(np.float64).tiny)), dtype=np.float64)

    def _one_by_one(self, residual: Vector, count: int) -> Rows:
        """The row that gains most, then the one that gains most without it, and so on."""
        maker, rows = self.residual_maker, np.empty(count, dtype=np.intp)
        steps, variance = np.zeros((len(maker), count)), maker.diagonal().copy()
        for number in range(count):
            rows[number] = row = _best(residual, variance, rows[:number])
            before, root = steps[:, :number], np.sqrt(max(variance[row], _LEAST))
            steps[:, number] = step = (maker[:, row] - before @ before[row]) / root
            residual, variance = residual - step * (residual[row] / root), variance - step**2
        return rows

    def _exchanged(self, residual: Vector, rows: Rows) -> float:
        """What is gained after one row is taken for another while that gains more."""
        inverse, gained = self._without(residual, rows)
        for _ in range(_EXCHANGES):
            lost = (inverse @ residual[rows]) ** 2 / np.maximum(inverse.diagonal(), _LEAST)
            rest = np.delete(rows, int(lost.argmin()))
            across = self.residual_maker[rest]
            pull = self._without(residual, rest)[0] @ across
            variance = self.residual_maker.diagonal() - (across * pull).sum(axis=0)
            rows = np.append(rest, _best(residual - residual[rest] @ pull, variance, rest))
            inverse, new = self._without(residual, rows)
            if new <= gained * (1.0 + _MORE):
                break
            gained = new
        return gained

    def _without(self, residual: Vector, rows: Rows) -> tuple[Vector, float]:
        """R_DD^-1, and what leaving these rows out gains."""
        among = self.residual_maker[np.ix_(rows, rows)]
        inverse = np.asarray(np.linalg.inv(among + _SINGULAR * np.eye(len(rows))), dtype=np.float64)
        return inverse, float(residual[rows] @ inverse @ residual[rows])

    def _shifted(self, residual: Vector, rows: Rows) -> float:
        """What one shift of the rows gains, fit and rows in turns while that gains more."""
        gained = 0.0
        for _ in range(_EXCHANGES):
            through = self.residual_maker[:, rows] @ self.root[rows]
            variance = max(float(self.root[rows] @ through[rows]), _LEAST)
            shift = float(self.root[rows] @ residual[rows]) / variance
            if shift**2 * variance <= gained * (1.0 + _MORE):
                break
            gained = shift**2 * variance
            away = residual - shift * through  # with the shift of these rows, for all
            away[rows] += shift * self.root[rows]
            nearer = self.root * shift * (2.0 * away - shift * self.root)
            rows = np.argpartition(-nearer, len(rows) - 1)[: len(rows)]
        return gained


def _best(residual: Vector, variance: Vector, taken: Rows) -> int:
    """The row that gains most beside those that are taken."""
    gains = np.where(variance > _LEAST, residual**2 / np.maximum(variance, _LEAST), 0.0)
    gains[taken] = -1.0
    return int(gains.argmax())


def chosen_by_chance(
    leaving_out: LeavingOut, target: Vector, rows: Rows, *, fit: Vector, deviation: Vector
) -> bool:
    """Whether the best choice of so many rows gains as much in 5 % of clean targets.

    These are a `fit` to all rows and Gaussian noise. Overwhelming evidence needs none of them:
    Fisher's F for a shift of each row, over all choices of so many (Bonferroni).
    """
    total, count = len(target), len(rows)
    gains = leaving_out.gains(target, count, rows)
    freedom = max(1.0, float(leaving_out.residual_maker.trace()) - count)
    ratio = np.expm1(min(gains[0], _OVERWHELMING)) * freedom / count
    choices = -np.log(total + 1.0) - betaln(total - count + 1.0, count + 1.0)
    if fisher.logsf(ratio, count, freedom) + choices <= np.log(LEVEL / 2.0):
        return False
    if MOST_DRAWN * _EXCHANGES * count**2 * (total + 4 * count) > MOST_WORK:
        return False
    generator = np.random.default_rng(_SEED)
    as_much, allowed = np.zeros(2), LEVEL / 2.0 * (MOST_DRAWN + 1)
    for _ in range(MOST_DRAWN):
        clean = fit + deviation * generator.normal(size=total)
        as_much += leaving_out.gains(clean, count) >= gains
        if (as_much + 1.0 > allowed).all():
            return True
    return False
