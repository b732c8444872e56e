"""Prediction intervals from rows outside of the fit, some of which may be wrong themselves.

Conformal prediction (Vovk et al. 2005): the target of a new row lies within the prediction plus or
minus a quantile of the misfits of rows that had no part in their own prediction. Two things are
added. A misfit counts in units of a local spread, so that intervals widen where the noise does.
And rows far out are not counted: a Student distribution that is fitted to the others says how many
good rows lie out there, and the quantile is raised by that many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import gammaln
from scipy.stats import norm, poisson
from scipy.stats import t as student

from proxlin.errors import InvalidInputError
from proxlin.estimators.robust_scale import inner_scale, m_scale
from proxlin.estimators.tables import Vector

Predict = Callable[[Vector], Vector]  # (n, features) -> (n, targets)

MOST_ROWS = 5000  # that are kept for calibration

_FAR = 3.5  # deviations of the misfits, beyond which rows may be wrong
_HOPELESS = 2.0  # times as far, beyond which misfits have no part in the first local spread
_FEWEST = 60  # rows below which the spread is taken to be the same everywhere
_FOLDS = 5
_MOST_PIECES = 8
_FALSE_PIECES = 0.05  # probability of a piece where the spread is the same everywhere
_LEAST_SPREAD = 0.1  # of the median misfit
_TAILS = np.concatenate([[0.0], np.linspace(0.02, 0.6, 16)])  # 1 / degrees of freedom
_WIDTHS = np.exp(np.linspace(-0.45, 0.25, 36))  # of the Student distribution, over the deviation
_BLOCK = 256  # new rows at a time
_BINS = 100  # of misfits in the likelihood


@dataclass(frozen=True, eq=False)
class Calibration:
    """Rows outside of the fit that predicted them."""

    x: Vector  # (m, features)
    fitted: Vector  # (m, targets)
    misfit: Vector  # (m, targets) |target - prediction|

    @classmethod
    def of(cls, x: Vector, fitted: Vector, misfit: Vector, seed: int = 0) -> Calibration:
        """These rows, or a sample of 5,000."""
        rows = np.arange(len(x))
        if len(rows) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_ROWS, replace=False))
        return cls(*(np.asarray(part[rows], dtype=np.float64) for part in (x, fitted, misfit)))

    @cached_property
    def _spreads(self) -> dict[tuple[int, bool], tuple[LocalSpread, Vector]]:
        return {}

    def spread(self, target: int, *, local: bool) -> tuple[LocalSpread, Vector]:
        """The spread of a target, and the scores of the rows in spreads that left them out."""
        if (target, local) not in self._spreads:
            misfit = self.misfit[:, target]
            table = np.column_stack([self.x, self.fitted[:, target]])
            pieces = _MOST_PIECES if local else 0
            near = misfit <= _HOPELESS * far_from(misfit)
            for _ in range(2):  # rows that are not counted shape nothing
                spread = LocalSpread.fit(table[near], misfit[near], pieces=pieces)
                sizes = spread(table)
                sizes[near] = spread.left_out(table[near], misfit[near])
                scores = misfit / sizes
                near = scores <= far_from(scores)
            self._spreads[target, local] = spread, scores
        return self._spreads[target, local]

    def reach(self, x: Any, fitted: Vector, coverage: float, *, local: bool) -> Vector:
        """(n, targets): how far intervals of new rows extend to both sides."""
        table = x.toarray() if issparse(x) else x
        parts = []
        for j in range(self.misfit.shape[1]):
            spread, scores = self.spread(j, local=local)
            sizes = spread(np.column_stack([table, fitted[:, j]]))
            parts.append(clean_quantile(scores, coverage) * sizes)
        return np.column_stack(parts)


class EvenCalibration(Calibration):
    """Intervals of one width: the features of the rows are not kept."""

    def reach(self, x: Vector, fitted: Vector, coverage: float, *, local: bool) -> Vector:
        """(n, targets): how far intervals of new rows extend to both sides."""
        widths = [clean_quantile(column, coverage) for column in self.misfit.T]
        return np.tile(np.array(widths), (len(fitted), 1))


def cross_interval(
    folds: Sequence[tuple[Predict, Calibration]], x: Vector, coverage: float, *, local: bool
) -> tuple[Vector, Vector]:
    """CV+ (Barber et al. 2021): ends (n, targets) from fits that each left a part of the rows out.

    Row i in a part k gives the ends f_k(x) -+ score_i spread(x); the interval ends at their
    quantiles, taken over rows whose score is not far out, at the level that makes up for these.
    """
    fitted = [predict(x) for predict, _ in folds]
    whole = Calibration(*(np.concatenate(parts) for parts in zip(
        *((part.x, part.fitted, part.misfit) for _, part in folds), strict=True
    )))  # fmt: skip
    owner = np.repeat(np.arange(len(folds)), [len(part.x) for _, part in folds])
    low, high = np.empty_like(fitted[0]), np.empty_like(fitted[0])
    for j in range(fitted[0].shape[1]):
        middle = np.column_stack([part[:, j] for part in fitted])
        spread, scores = whole.spread(j, local=local)
        sizes = spread(np.column_stack([x, middle.mean(axis=1)]))
        reach = clean_quantile(scores, coverage)
        kept = scores <= far_from(scores)
        level = min(float(np.mean(scores[kept] <= reach)), 1.0)
        for first in range(0, len(x), _BLOCK):
            part = slice(first, first + _BLOCK)
            away = scores[kept] * sizes[part, None]
            ends = middle[part][:, owner[kept]]
            low[part, j] = np.quantile(ends - away, 1.0 - level, axis=1, method="inverted_cdf")
            high[part, j] = np.quantile(ends + away, level, axis=1, method="inverted_cdf")
    return low, high


@dataclass(frozen=True, eq=False)
class LocalSpread:
    """The median of |residual|, a sum of pieces linear in one column each; bounded on both sides.

    A piece is a column or its distance from one of its quartiles. One after the other comes in,
    while the signs of |residual| - median go along with it more than chance lets them.
    """

    knots: Vector  # (3, columns) quartiles
    ends: Vector  # (2, columns) beyond which a column counts as there
    chosen: NDArray[np.intp]  # (pieces,)
    coef: Vector  # (1 + pieces,)
    bounds: tuple[float, float]

    @classmethod
    def fit(cls, table: Vector, misfit: Vector, *, pieces: int = _MOST_PIECES) -> LocalSpread:
        """Choose so many pieces at most, and fit them by least absolute deviations."""
        middle = float(np.median(misfit))
        floor = _LEAST_SPREAD * middle or float(np.abs(misfit).max(initial=0.0)) or 1.0
        low, knots, high = np.split(
            np.quantile(table, (0.01, 0.25, 0.5, 0.75, 0.99), axis=0), (1, 4)
        )
        spread = cls(
            knots, np.concatenate([low, high]), np.array([], dtype=np.intp),
            np.array([max(middle, floor)]), (floor, np.inf),
        )  # fmt: skip
        if len(table) < _FEWEST or middle == 0 or not pieces:
            return spread
        columns = spread._pieces(table)
        varied = np.flatnonzero(np.ptp(columns, axis=0) > 1e-9 * np.abs(columns).max(axis=0))
        unit = columns[:, varied] - columns[:, varied].mean(axis=0)
        unit /= np.linalg.norm(unit, axis=0)
        limit = norm.ppf(1 - _FALSE_PIECES / (2 * max(1, len(varied))))
        for _ in range(min(pieces, len(table) // 30)):
            signs = np.sign(misfit - spread._linear(columns))
            pull = np.abs(unit.T @ (signs - signs.mean()))
            pull[np.isin(varied, spread.chosen)] = 0.0
            if pull.max(initial=0.0) <= limit:
                break
            chosen = np.append(spread.chosen, varied[pull.argmax()])
            spread = replace(spread, chosen=chosen)._refitted(columns, misfit)
        top = min(float(spread._linear(columns).max()), float(misfit.max()))
        return replace(spread, bounds=(floor, max(top, floor)))

    def __call__(self, table: Vector) -> Vector:
        """The spread at each row."""
        return np.clip(self._linear(self._pieces(table)), *self.bounds)

    def left_out(self, table: Vector, misfit: Vector) -> Vector:
        """The spread at each of the rows it was fitted to, without the row's own fifth."""
        if not len(self.chosen):
            return self(table)
        pieces, spreads = self._pieces(table), np.empty(len(table))
        folds = np.random.default_rng(0).permutation(len(table)) % _FOLDS
        for fold in range(_FOLDS):
            held = folds == fold
            part = self._refitted(pieces[~held], misfit[~held])
            spreads[held] = np.clip(part._linear(pieces[held]), *self.bounds)
        return spreads

    def _pieces(self, table: Vector) -> Vector:
        inside = np.clip(table, *self.ends)
        return np.concatenate([inside, *(np.abs(inside - knot) for knot in self.knots)], axis=1)

    def _linear(self, pieces: Vector) -> Vector:
        value: Vector = self.coef[0] + pieces[:, self.chosen] @ self.coef[1:]
        return value

    def _refitted(self, pieces: Vector, misfit: Vector) -> LocalSpread:
        """min sum | |residual| - spread |, by reweighted least squares."""
        design = np.column_stack([np.ones(len(pieces)), pieces[:, self.chosen]])
        weights, coef = np.ones(len(pieces)), self.coef
        least = 1e-3 * float(np.median(misfit))
        for _ in range(30):
            root = np.sqrt(weights)
            coef = np.linalg.lstsq(design * root[:, None], misfit * root, rcond=1e-10)[0]
            weights = least / np.maximum(np.abs(misfit - design @ coef), least)
        return replace(self, coef=np.asarray(coef, dtype=np.float64))


def clean_quantile(scores: Vector, coverage: float) -> float:
    """What the scores >= 0 of a share `coverage` of good rows stay below, wrong rows among them.

    With m rows up to 3.5 deviations, of which good ones outnumber those beyond by 1 - f to f as the
    Student distribution of the rows inside has it, it is the score of rank (m + 1) coverage /
    (1 - f), between two ranks that of the line through both; beyond all of them the quantile of
    the Student distribution itself.
    """
    far = far_from(scores)
    deviation, inside = far / _FAR, np.sort(scores[scores <= far])
    fewest = int(np.ceil(coverage / (1.0 - coverage) - 1e-9))
    if len(inside) < fewest:
        raise InvalidInputError(
            f"coverage={coverage:g} needs at least {fewest} good"
            f" rows outside of the fit; got {len(inside)}. Lower it, or fit more rows."
        )
    if deviation == 0:  # most rows are fitted exactly
        return 0.0
    ring = int((scores <= 2 * far).sum()) - len(inside)
    beyond, tail = _student_tail(inside / deviation, ring, coverage)
    rank = (len(inside) + 1) * coverage / (1.0 - beyond)
    if rank <= len(inside):
        return float(np.interp(rank, np.arange(1, len(inside) + 1), inside))
    return max(float(inside[-1]), tail * deviation)


def far_from(scores: Vector) -> float:
    """3.5 deviations of the scores, that of those within 2.75 of it."""
    wide = float(m_scale(scores))
    return _FAR * inner_scale(scores, np.ones(len(scores)), start=wide, largest=wide, lost=0.0)


def _student_tail(inside: Vector, ring: int, coverage: float) -> tuple[float, float]:
    """How many rows lie beyond 3.5, and the quantile of all: means over tails and widths.

    Each pair counts by the likelihood of the scores, given that they are below 3.5; and of the
    `ring` rows from 3.5 to 7 none, some or all may be good, so by the probability that chance has
    at most so many good ones there.
    """
    edges = np.linspace(0.0, _FAR, _BINS + 1)
    counts = np.histogram(inside, edges)[0]
    middles = (edges[1:] + edges[:-1]) / 2
    tails, widths = (part.reshape(-1, 1) for part in np.meshgrid(_TAILS, _WIDTHS, indexing="ij"))
    freedom = 1.0 / np.maximum(tails, 1e-6)
    log_density = (
        gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(freedom * np.pi)
        - (freedom + 1) / 2 * np.log1p((middles / widths) ** 2 / freedom) - np.log(widths)
    )  # fmt: skip
    beyond, farther = (
        2 * student.sf(reach / widths[:, 0], freedom[:, 0]) for reach in (_FAR, 2 * _FAR)
    )
    expected = counts.sum() * (beyond - farther) / (1.0 - beyond)  # good rows in the ring
    likelihood = log_density @ counts - counts.sum() * np.log1p(-beyond)
    likelihood += poisson.logcdf(ring, expected)
    share = np.exp(likelihood - likelihood.max())
    share /= share.sum()
    quantiles = widths[:, 0] * student.ppf(0.5 + coverage / 2, freedom[:, 0])
    return float(share @ beyond), float(share @ quantiles)
