"""RobustFeatureSelector: the features that explain all the others, or the targets."""

from __future__ import annotations

from contextlib import suppress
from math import ceil
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from proxlin._checks import (
    check_count,
    check_flag,
    check_open_interval,
    check_positive,
    shown,
)
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.estimators.base import RobustBase
from proxlin.estimators.regression.sparse_design import sparse_scaling
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.selection.selection_path import GroupPath, SelectionPath, row_norms
from proxlin.estimators.selection.sparse_selection import SparseGroupPath
from proxlin.estimators.tables import (
    Array,
    as_tensor,
    check_squares,
    our_errors,
    read_pair,
    read_table,
)

if TYPE_CHECKING:
    from typing import Self

_TOL = 1e-6  # gap of each solution, relative to its objective
_MOST_ALPHAS = 10_000
_WEAKEST = 1e-3  # of the strongest alpha, where the path ends


class RobustFeatureSelector(SelectorMixin, RobustBase):  # type: ignore[misc]
    """min (1/n) sum_i ||x_i B + b - t_i||_2 + alpha sum_j ||B_j||_2; feature j is kept if B_j != 0.

    Without y the targets t_i are the rows x_i themselves: a feature is kept if it helps to explain
    the others; rows far beyond the others then count as if they were drawn back to their edge, or
    a few huge ones would be all that matters. With y the targets are y. The norm of a row's
    residual is not squared, so rows that no feature explains cannot decide what is kept (Nie et
    al. 2010, Zhu et al. 2015). The problem is convex and solved to `tol`, with exact zeros.

    Parameters
    ----------
    n_features_to_select
        How many features to keep, or which share of them if a float in (0, 1). By default half of
        them, unless `alpha` is given.
    alpha
        Strength of the regulariser on the scaled columns, in place of a number of features. From
        `alpha_max_` on nothing is kept.
    n_alphas
        Strengths on a path, evenly spaced on a logarithmic scale from `alpha_max_` to a thousandth
        of it. To keep a number of features the path is walked only as far as needed.
    scaling
        Centre columns and targets at their median and divide them by their inter-quartile range,
        without which features with large units are cheap.
    tol, max_iter, max_seconds
        Accuracy (relative gap to the optimum, by default 1e-6) and limits of each solution.
    verbose
        Show on the standard error one line with the objective and the gap of the present solution.

    X may be a sparse matrix where y is given: it is never made dense beyond the columns at stake.
    y may be numbers, (n,) or (n, targets), or names of classes, which become indicator columns;
    classes that are numbers count as numbers unless they are turned into such columns first.

    Attributes
    ----------
    feature_importances_
        ||B_j||_2 of each feature.
    support_
        Which features are kept; also `get_support()`.
    alpha_, alpha_max_
        The strength of the solution, and one from which on nothing is kept.
    coef_, intercept_
        B transposed, (targets, features), and b, both on scaled columns.
    path_
        The solutions on the way, a `SelectionPath`.
    result_, history_, outlier_scores_, outliers_
        As in the other estimators.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(100, 5))
    >>> y = x[:, [1, 3]] @ np.array([[2.0, 1.0], [1.0, -2.0]])
    >>> y[:20] = 100.0
    >>> RobustFeatureSelector(2).fit(x, y).get_support(indices=True)
    array([1, 3])
    """

    p = 2.0
    device = None

    feature_importances_: NDArray[np.float64]
    support_: NDArray[np.bool_]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    path_: SelectionPath
    alpha_: float
    alpha_max_: float

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        alpha: float | None = None,
        n_alphas: int = 20,
        scaling: bool = True,
        tol: float | None = None,
        max_iter: int | None = None,
        max_seconds: float | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.alpha = alpha  # type: ignore[assignment]
        self.n_alphas = n_alphas
        self.scaling = scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose among the columns of X those that explain all of them, or y if it is given."""
        attempt = self._attempt()
        attempt._learn(X, y)
        return self._adopt(attempt)

    def path(self, X: Any, y: Any = None, alphas: Any = None) -> SelectionPath:
        """What is selected at each of `alphas`, by default `n_alphas` of them; nothing is kept.

        Strengths count on the scaled columns, as `alpha` does; each solution starts at the one
        before.
        """
        attempt = self._attempt()
        attempt._check_settings()
        walk = attempt._walk(X, y)
        strengths = attempt._strengths(walk) if alphas is None else _check_alphas(alphas)
        with attempt._watched("solutions along the path") as walk.callbacks:
            for alpha in strengths:
                walk.solve(float(alpha))
        return SelectionPath.of(walk.points)

    def transform(self, X: Any) -> Any:
        """The columns of X that were kept."""
        with our_errors():
            return super().transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Columns that were kept at their old places, with zeros for the others."""
        with our_errors():
            return super().inverse_transform(X)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self, "support_")
        return self.support_

    def _learn(self, X: Any, y: Any) -> None:
        self._check_settings()
        walk = self._walk(X, y)
        count = self._count(self.n_features_in_)
        with self._watched("solutions along the path") as walk.callbacks:
            if count is None:
                solution = walk.solve(float(self.alpha))
            else:
                solution = walk.down_to(count, self._strengths(walk))
        self.alpha_ = next(alpha for alpha, point in walk.points if point is solution)
        self.alpha_max_ = walk.strongest
        self.path_ = SelectionPath.of(walk.points)
        self.coef_, self.intercept_ = solution.coef.T.numpy(), solution.intercept.numpy()
        self.feature_importances_ = row_norms(solution)
        self.support_ = _largest(self.feature_importances_, count)
        norms = walk.residual(solution).norm(dim=1).numpy()
        size = float(walk.target.norm(dim=1).median())
        self._record(solution, norms, size=size)

    def _check_settings(self) -> None:
        self._check_shared()
        if check_count("n_alphas", self.n_alphas, minimum=2) > _MOST_ALPHAS:
            raise InvalidInputError(
                f"n_alphas must be at most {_MOST_ALPHAS:,}; got {shown(self.n_alphas)}."
            )
        check_flag("scaling", self.scaling)
        if self.alpha is not None:
            check_positive("alpha", self.alpha)
            if self.n_features_to_select is not None:
                raise CombinationError(
                    "alpha and n_features_to_select both say how much to keep; give one of them,"
                    f" got alpha={self.alpha!r} and n_features_to_select="
                    f"{self.n_features_to_select!r}."
                )

    def _limits(self) -> dict[str, Any]:
        tol = _TOL if self.tol is None else self.tol
        return {"tol": tol, "max_iter": self.max_iter, "seconds": self.max_seconds}

    def _count(self, features: int) -> int | None:
        """The number of features to keep; None where alpha decides."""
        wanted = self.n_features_to_select
        if self.alpha is not None:
            return None
        if wanted is None:
            return max(1, features // 2)
        if isinstance(wanted, Integral):
            if check_count("n_features_to_select", wanted) > features:
                raise InvalidInputError(
                    f"n_features_to_select must be at most the {features} features of X; got"
                    f" {wanted}."
                )
            return int(wanted)
        return ceil(check_open_interval("n_features_to_select", wanted, 0, 1) * features)

    def _strengths(self, walk: GroupPath) -> NDArray[np.float64]:
        # Without anything to explain every strength keeps nothing; one of them says so.
        top = walk.strongest or 1.0
        return np.geomspace(top, _WEAKEST * top, self.n_alphas)

    def _walk(self, X: Any, y: Any) -> GroupPath:
        if not issparse(X):
            return GroupPath(*self._read(X, y), **self._limits())
        if y is None:
            raise CombinationError(
                "a sparse X needs y: features that explain all the others are found on dense tables"
                " alone. Pass y, or X.toarray()."
            )
        pair = read_pair(self, X, _indicators(y), reset=True, min_rows=2, sparse=True)
        table, targets = csr_array(pair[0]), pair[1].reshape(X.shape[0], -1)
        if self.scaling:  # centres do not matter: the intercept takes them up
            table = table @ diags_array(1.0 / sparse_scaling(table).scale)
        return SparseGroupPath(table, self._scaled(targets), **self._limits())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _read(self, X: Any, y: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scaled columns, scaled targets and weights of the rows, float64."""
        if y is None:
            table = check_squares(read_table(self, X, reset=True, min_rows=2))
            x = self._scaled(table)
            return x, x, _bounding_weights(x)
        table, targets = read_pair(self, X, _indicators(y), reset=True, min_rows=2)
        wide = targets[:, None] if targets.ndim == 1 else targets
        x = self._scaled(table)
        return x, self._scaled(wide), _bounding_weights(x)

    def _scaled(self, table: Array) -> Tensor:
        scaled = RobustScaling.fit(table).apply(table) if self.scaling else table
        return as_tensor(scaled, dtype=torch.float64)


def _bounding_weights(x: Tensor) -> Tensor:
    """min(1, edge / ||x_i||), the edge being where a row's own norm makes it an outlier.

    The loss of a row that explains itself grows with its size: ||c x (B - I)|| = c ||x (B - I)||;
    and so does the pull of a row of features on coefficients for a target (Mallows 1975).
    """
    length = x.norm(dim=1)
    edge = OutlierScale.fit(length.numpy()).limit
    return torch.where(length > edge, edge / length, 1.0)


def _indicators(y: Any) -> Any:
    """One column of 0 and 1 for each class if y names classes; numbers as they are."""
    if isinstance(y, Tensor):
        return y
    labels = np.asarray(y)
    if labels.ndim != 1:
        return y
    if labels.dtype.kind == "O":
        with suppress(ValueError, TypeError):
            labels = labels.astype(np.float64)
    if labels.dtype.kind not in "OSUb":  # numbers, or nothing that names classes
        return y
    if pd.isna(labels).any():
        raise InvalidInputError("y must name a class for every row; some are missing.")
    known, index = np.unique(labels.astype(str), return_inverse=True)
    return np.eye(len(known))[index]


def _largest(importances: NDArray[np.float64], count: int | None) -> NDArray[np.bool_]:
    """The `count` largest, the first ones of equals; all that are not zero for None."""
    if count is None:
        kept: NDArray[np.bool_] = importances > 0
        return kept
    mask = np.zeros(len(importances), dtype=bool)
    mask[np.argsort(-importances, kind="stable")[:count]] = True
    return mask


def _check_alphas(alphas: Any) -> NDArray[np.float64]:
    """The strengths > 0, the strongest first, which warm starts need."""
    values = [
        check_positive("alphas[...]", value) for value in np.ravel(np.asarray(alphas)).tolist()
    ]
    if not values:
        raise InvalidInputError("alphas must hold at least one strength > 0; got none.")
    return np.sort(np.array(values))[::-1]
