"""RobustOutlierDetector: which rows of a table are odd, and which of their cells are to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from proxlin._checks import check_interval
from proxlin.errors import InvalidInputError
from proxlin.estimators.detection.outlier_views import ONE_BELOW, Oddity
from proxlin.estimators.estimator_settings import drawn_seed
from proxlin.estimators.plot import plot_scores
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.tables import Array, check_squares, read_table

if TYPE_CHECKING:
    from typing import Self

_CUTOFF = 2.25  # standard deviations of a Gaussian score: 1 in 80 good rows lies beyond
_REACH = 2.5  # standard deviations within which rows have a say in their own scale,
_FEW = 30  # and half as far again where 60 rows say little of how long an upper half is
_LEAST_STRETCH, _LEAST_SPREAD = 0.25, 0.05  # of scores whose spread is about 1: for a few rows
_DIGITS = 9  # to which equal rows have equal scores
_GAUSSIAN_ROWS, _GAUSSIAN_COLUMNS = 1000, 30  # of the tables that scores are compared with,
_GAUSSIAN_TABLES = 60  # at most: two rows are fitted in a moment, too


class RobustOutlierDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]  # has no types
    """Score rows without labels: how far out they lie, how empty it is there, their oddest cell.

    Three kinds of oddity are measured against what three quarters of the rows agree on, and
    averaged on robust logarithmic scales: the Mahalanobis distance of the leading principal scores
    (minimum covariance determinant) of the columns with more than two values, the mean distance to
    the nearest rows of the bulk, and the most surprising cell given its row in columns of measured
    numbers. NaN marks a missing cell, filled by what its row predicts.

    Parameters
    ----------
    contamination
        Share of outliers among the training rows, in (0, 0.5], which sets the cut-off; "auto" cuts
        2.25 robust standard deviations above the middle, so that 1 in 80 Gaussian rows is flagged.
    random_state
        Seed of the rows that are drawn where there are more than 5,000.

    After `fit`: `outlier_scores_` (robust standard deviations above the middle) and `outliers_` of
    the training rows, `offset_` (the `score_samples` of the cut-off).

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(300, 1)) @ np.ones((1, 4))
    >>> x += 0.1 * np.random.default_rng(1).normal(size=x.shape)
    >>> x[7, 2] += 4
    >>> detector = RobustOutlierDetector().fit(x)
    >>> int(detector.outlier_scores_.argmax()), int(detector.cell_scores(x)[7].argmax())
    (7, 2)
    """

    offset_: float
    outlier_scores_: NDArray[np.float64]
    outliers_: NDArray[np.bool_]
    outlier_scale_: OutlierScale
    n_features_in_: int
    _oddity: Oddity
    _tail: tuple[NDArray[np.float64], NDArray[np.float64]]

    def __init__(
        self, *, contamination: float | Literal["auto"] = "auto", random_state: Any = 0
    ) -> None:
        self.contamination = contamination
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what most of the rows of X have in common; `y` is ignored."""
        share = self._share()
        table = self._read(X, reset=True)
        seed = drawn_seed(self.random_state)
        self._oddity, totals = Oddity.fit(table, seed)
        self.outlier_scale_ = _calibrated(self._oddity, totals)
        self.outlier_scores_ = self.outlier_scale_.scores(totals)
        self.offset_ = -_CUTOFF
        if share is not None:
            self.offset_ = float(np.percentile(-self.outlier_scores_, 100 * share))
        self.outliers_ = -self.outlier_scores_ < self.offset_
        self._tail = _true_share(self.outlier_scores_)
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Minus the robust standard deviations of each row above the middle: low for outliers."""
        return -self.outlier_scores(X)

    def outlier_scores(self, X: Any) -> NDArray[np.float64]:
        """Robust standard deviations of each row's oddity above that of the training rows."""
        check_is_fitted(self)
        return self.outlier_scale_.scores(self._oddity.totals(self._read(X)))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """`score_samples` above the cut-off: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers, 1 for the others."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def outlier_probability(self, X: Any) -> NDArray[np.float64]:
        """Of the training rows as odd as each row or odder, the share that chance does not explain.

        One minus the tail false discovery rate (Efron 2004), with the Gaussian of the middle of the
        scores as what good rows follow.
        """
        scores = self.outlier_scores(X)
        levels, shares = self._tail
        beyond = 1 - len(levels) * norm.sf(scores)  # as if one training row were as odd
        inside = np.interp(scores, levels, shares)
        return np.where(scores > levels[-1], np.maximum(beyond, shares[-1]), inside)

    def cell_scores(self, X: Any) -> NDArray[np.float64]:
        """(cell - expected) in robust standard deviations given the row: which columns to blame.

        The sign says whether a cell is too large or too small. Missing cells have 0.
        """
        check_is_fitted(self)
        return self._oddity.cell_scores(self._read(X))

    def expected(self, X: Any) -> NDArray[np.float64]:
        """What each cell should be, given those cells of its row that are not odd themselves."""
        check_is_fitted(self)
        return self._oddity.expected(self._read(X))

    def reasons(self, X: Any) -> pd.DataFrame:
        """Each kind of oddity of each row, in robust standard deviations of its logarithm."""
        check_is_fitted(self)
        return pd.DataFrame(self._oddity.kinds(self._read(X)))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the outlier score of each training row, the flagged ones marked; returns the axes.

        `ax` are matplotlib axes; by default new ones.
        """
        check_is_fitted(self)
        return plot_scores(self.outlier_scores_, -self.offset_, ax=ax)

    def _share(self) -> float | None:
        if isinstance(self.contamination, str) and self.contamination == "auto":
            return None
        share = check_interval("contamination", self.contamination, 0, 0.5)
        if not share:
            raise InvalidInputError('contamination must be "auto" or in (0, 0.5]; got 0.')
        return share

    def _read(self, X: Any, *, reset: bool = False) -> Array:
        table = read_table(self, X, reset=reset, allow_nan=True, min_rows=2 if reset else 1)
        return check_squares(np.asarray(table, dtype=np.float64))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _calibrated(oddity: Oddity, totals: NDArray[np.float64]) -> OutlierScale:
    """The middle of the totals, and a spread by which Gaussian rows have Gaussian tails.

    They are drawn with the covariance of the bulk: rows on a line have other tails than a ball.
    Where their tail is long, rows farther out have a say in the scale, theirs and that of the data.
    """
    rng = np.random.default_rng(0)
    rows = min(len(totals), _GAUSSIAN_ROWS)
    usual = []
    for _ in range(min(-(-_GAUSSIAN_ROWS // rows), _GAUSSIAN_TABLES)):
        table = oddity.cells.draw(rows, rng)[:, :_GAUSSIAN_COLUMNS]
        usual.append(Oddity.fit(table, 0)[1])
    reach = _REACH * (1 + _FEW / len(totals))
    reach *= max(_stretch(usual, reach), 1.0)
    center, spread = _scale_from_below(totals, reach)
    stretch = max(_stretch(usual, reach), _LEAST_STRETCH)
    return OutlierScale(center, stretch * spread, _CUTOFF)


def _stretch(usual: list[NDArray[np.float64]], reach: float) -> float:
    """The upper tail of Gaussian tables on their own scales, over that of a Gaussian."""
    scores = []
    for totals in usual:
        center, spread = _scale_from_below(totals, reach)
        scores.append((totals - center) / spread)
    return float(np.percentile(np.concatenate(scores), 97.5) / norm.isf(0.025))


def _scale_from_below(totals: NDArray[np.float64], reach: float) -> tuple[float, float]:
    """Median and deviation of the least odd rows that have no others within reach.

    They begin as the lower half and grow by what lies within reach of them. A long upper half of
    good rows is followed to its end; outliers beyond a gap are never reached. Equal rows count
    once: many copies of one row say nothing of how far others may lie.
    """
    ordered = np.unique(np.round(totals, _DIGITS))
    count = (len(ordered) + 1) // 2
    while True:
        low, center, high = np.percentile(ordered[:count], (ONE_BELOW, 50, 100 - ONE_BELOW))
        spread = max(center - low, high - center, _LEAST_SPREAD)
        within = int((ordered <= center + reach * spread).sum())
        if within <= count:
            return float(center), float(spread)
        count = within


def _true_share(
    scores: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(levels, share of the rows at or beyond each that a standard Gaussian does not explain)."""
    levels = np.sort(scores)
    n = len(levels)
    beyond = n - np.arange(n)  # rows at or beyond each level
    shares = np.clip(1 - n * norm.sf(levels) / beyond, 0.0, 1.0)
    return levels, np.maximum.accumulate(shares)
