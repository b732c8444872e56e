"""RobustPCA: principal components that wrong rows and cells cannot turn; missing cells allowed."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from proxlin._checks import check_flag, shown
from proxlin.errors import InvalidInputError
from proxlin.estimators.estimator_settings import drawn_seed
from proxlin.estimators.low_rank.plane_cells import (
    cells_of,
    chosen_axes,
    completed,
    rows_near_plane,
    without_wrong_cells,
)
from proxlin.estimators.low_rank.plane_distances import Plane, plane_scores
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array, Matrix, check_squares, read_codes, read_table
from proxlin.exact.factorize.bounded import Bounds

if TYPE_CHECKING:
    from typing import Self


_FARTHEST = 1e150  # deviations whose squares are numbers
_GAP = 5  # "auto" looks for the largest ratio of neighbouring variances among the leading ones
_ROUNDS = 3  # of choosing rows by the components, and components by the rows


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of rows, which add up over chunks."""

    count: int
    mean: Matrix  # (m,)
    scatter: Matrix  # (m, m) sum of (x - mean)(x - mean)^T

    @classmethod
    def of(cls, x: Matrix) -> Moments:
        """Those of the rows of x."""
        mean = x.mean(axis=0)
        moved = x - mean
        return cls(len(x), mean, moved.T @ moved)

    def plus(self, other: Moments) -> Moments:
        """Those of both sets of rows (Chan, Golub and LeVeque 1983)."""
        count = self.count + other.count
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.count / count)
        between = np.outer(apart, apart) * (self.count * other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + between)


class RobustPCA(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Principal components of the good rows, of which those that follow the same plane decide.

    Cells that contradict the others of their row are put to what these let expect, where most rows
    have such cells. A factorisation with bounded residuals, by row norms, finds a plane that wrong
    rows and cells have not turned; missing cells and cells far off it are filled from it. Rows near
    the plane and not too far out in it then give mean, components and variances like plain PCA, a
    few times in turn. On clean Gaussian rows less than 1 % of them are left out; where rows are not
    five times the columns each is judged by the others' components, and it may be one in ten.

    Parameters
    ----------
    n_components
        How many: a number, a share of the robust variance in (0, 1), "auto" (before the largest
        drop among the leading variances), or None for all.
    scaling
        Divide each column by its robust standard deviation.
    whiten
        Give the scores unit variance.
    random_state
        Seed of the starts.

    After `fit`: `components_`, `mean_`, `explained_variance_`, `explained_variance_ratio_`,
    `noise_variance_`, `n_components_`, `outliers_` (rows left out), `outlier_scores_`.

    >>> import numpy as np
    >>> x = np.outer(np.linspace(-1, 1, 50), [3.0, 4.0])
    >>> x[:10] = [80.0, -60.0]
    >>> np.abs(RobustPCA(1).fit(x).components_).round(3)
    array([[0.6, 0.8]])
    """

    components_: Matrix
    mean_: Matrix
    explained_variance_: Matrix
    explained_variance_ratio_: Matrix
    noise_variance_: float
    n_components_: int
    outliers_: NDArray[np.bool_]
    outlier_scores_: Matrix
    n_features_in_: int
    _moments: Moments
    _bounds: Bounds
    _scale: Matrix
    _filling: int | None  # axes that fill cells, by held-out ones; None: half as many as columns

    def __init__(
        self,
        n_components: float | Literal["auto"] | None = None,
        *,
        scaling: bool = False,
        whiten: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.scaling = scaling
        self.whiten = whiten
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the rows of X, NaN for missing cells; `y` is ignored."""
        table = self._begin(X)
        seed = drawn_seed(self.random_state)
        wanted, m = self.n_components, table.shape[1]
        count = int(wanted) if isinstance(wanted, Integral) else m // 2
        scaled, lost = without_wrong_cells(table / self._scale, count, seed)
        self._bounds = Bounds.of(cells_of(scaled))
        if not isinstance(wanted, Integral) and np.isnan(scaled).any():
            self._filling = count = chosen_axes(scaled, self._bounds, seed)
        rows, good = rows_near_plane(scaled, self._bounds, count, seed)
        good = good & (lost <= 1.0)
        for _ in range(_ROUNDS):
            if not good.any():
                good = np.ones(len(rows), dtype=bool)
            self._solve(Moments.of(rows[good]))
            self.outlier_scores_ = np.maximum(self._judge(rows, good), lost)
            inside = self.outlier_scores_ <= 1.0
            if (inside == good).all():
                break
            good = inside
        self.outliers_ = ~good
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add a chunk of rows: those that the present components do not find odd.

        The first chunk is fitted as a whole, and its limits of cells and columns stay.
        """
        if not hasattr(self, "components_"):
            return self.fit(X)
        rows = self._complete(self._read(X))
        self.outlier_scores_ = self._judge(rows)
        good = self.outlier_scores_ <= 1.0
        self.outliers_ = ~good
        if good.any():
            self._solve(self._moments.plus(Moments.of(rows[good])))
        return self

    def transform(self, X: Any) -> Array:
        """The scores (n, n_components_) of rows; missing and far cells as the others have them."""
        check_is_fitted(self)
        table = self._read(X)
        scores: Array = (self._complete(table) - self._center) @ self._axes.T
        if self.whiten:
            scores = scores / np.sqrt(self._whitening)
        return scores.astype(self._dtype, copy=False)

    def inverse_transform(self, X: Any) -> Array:
        """The rows that belong to scores."""
        check_is_fitted(self)
        scores = read_codes(X, self.n_components_)
        if self.whiten:
            scores = scores * np.sqrt(self._whitening)
        rows: Array = scores @ self._axes * self._scale + self.mean_
        return rows

    def score_samples(self, X: Any) -> Matrix:
        """The log-likelihood of each row under the probabilistic model: low for outliers.

        Cells count as they are; missing ones as the others of their row have them.
        """
        check_is_fitted(self)
        table = self._read(X)
        rows = np.where(np.isnan(table), self._complete(table), table / self._scale)
        away = np.clip(rows - self._center, -_FARTHEST, _FARTHEST)
        scores = away @ self._axes.T
        rest = np.maximum((away**2).sum(1) - (scores**2).sum(1), 0.0)
        variances = np.maximum(self._variances, self._least)
        noise = max(self._noise, self._least)
        left = len(self._center) - len(variances)
        constant = np.log(variances).sum() + left * np.log(noise) + 2 * np.log(self._scale).sum()
        with np.errstate(over="ignore"):  # a row off rows that do not vary at all
            squares = (scores**2 / variances).sum(1) + rest / noise
        squares = np.minimum(squares, np.finfo(float).max)
        logs: Matrix = -0.5 * (squares + constant + len(self._center) * np.log(2 * np.pi))
        return logs

    def score(self, X: Any, y: Any = None) -> float:
        """The median of `score_samples`, which a minority of outliers does not move."""
        return float(np.median(self.score_samples(X)))

    def decompose(self, X: Any) -> tuple[Array, Array]:
        """(low rank, what is left of X): a still background and what moves before it."""
        low = self.inverse_transform(self.transform(X))
        return low, self._read(X) - low

    def _begin(self, X: Any) -> Matrix:
        self._check_settings()
        table = self._read(X, reset=True)
        scaling = RobustScaling.fit(table) if self.scaling else None
        self._scale = np.ones(table.shape[1]) if scaling is None else scaling.scale
        self._filling = None
        return table

    def _solve(self, moments: Moments) -> None:
        """Components of the moments of good rows."""
        self._moments = moments
        values, vectors = np.linalg.eigh(moments.scatter / max(1, moments.count - 1))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        k = self._count(values, moments.count)
        axes = vectors[:, :k].T
        signs = np.sign(axes[np.arange(k), np.abs(axes).argmax(axis=1)])
        self._axes = axes * np.where(signs == 0, 1.0, signs)[:, None]
        self._center = moments.mean
        self._variances = values[:k]
        self._noise = float(values[k:].mean()) if k < len(values) else 0.0
        self._least = float(max(values.sum() / len(values), 1e-300) * 1e-12)
        self._whitening = np.maximum(self._variances, self._least)
        total = max(float(values.sum()), 1e-300)
        self.n_components_ = k
        self.components_ = self._axes.astype(self._dtype)
        self.mean_ = moments.mean * self._scale
        self.explained_variance_ = values[:k]
        self.explained_variance_ratio_ = values[:k] / total
        self.noise_variance_ = self._noise

    def _count(self, values: Matrix, rows: int) -> int:
        wanted, most = self.n_components, min(len(values), max(1, rows - 1))
        if wanted is None:
            return most
        if isinstance(wanted, str):
            if not values.any():
                return 1
            head = values[: min(most, len(values) // 2 + 1, 4 * _GAP)] + 1e-12 * values.sum()
            return int((head[:-1] / head[1:]).argmax()) + 1 if len(head) > 1 else 1
        if isinstance(wanted, Integral):
            return min(int(wanted), len(values))
        share = np.cumsum(values) / max(values.sum(), 1e-300)
        return min(most, int(np.searchsorted(share, wanted)) + 1)

    def _judge(self, rows: Matrix, own: NDArray[np.bool_] | None = None) -> Matrix:
        """The score of each row, at most 1 inside; `own` are those that gave the components."""
        plane = Plane(self._center, self._axes, self._variances, self._moments.count)
        return plane_scores(rows, plane, own)

    def _complete(self, table: Matrix) -> Matrix:
        """Rows in scaled columns; missing and far cells follow from the others of their row."""
        return completed(table / self._scale, self._bounds, self._center, self._axes, self._filling)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _read(self, X: Any, *, reset: bool = False) -> Matrix:
        table = read_table(self, X, reset=reset, allow_nan=True, min_rows=2 if reset else 1)
        self._dtype = table.dtype
        return check_squares(np.asarray(table, dtype=np.float64))

    def _check_settings(self) -> None:
        check_flag("scaling", self.scaling)
        check_flag("whiten", self.whiten)
        wanted = self.n_components
        count = isinstance(wanted, Integral) and not isinstance(wanted, bool) and wanted >= 1
        share = isinstance(wanted, float | np.floating) and 0 < wanted < 1
        if not (wanted is None or count or share or (isinstance(wanted, str) and wanted == "auto")):
            raise InvalidInputError(
                "n_components must be a whole number >= 1, a share of the variance between 0 and 1,"
                f' "auto" or None; got {shown(wanted)}.'
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
