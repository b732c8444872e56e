"""RobustFactorization: X ~ U V with bad rows, columns or cells, and missing ones."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from proxlin._checks import check_choice, check_count, check_flag, check_non_negative
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.estimators.base import RobustBase
from proxlin.estimators.low_rank.chosen_rank import chosen_rank
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.tables import Array, as_array, as_tensor, read_codes, read_table
from proxlin.exact.factorize import Cells, RowNorm, Stream, check_observed, check_size
from proxlin.exact.factorize.bounded import Bounds
from proxlin.exact.factorize.fit_factors import (
    FactorSettings,
    Fit,
    fit_bounded,
    fit_factors,
    fit_stream,
)
from proxlin.exact.factorize.fixed_basis import EmbeddedRows, FixedBasis

if TYPE_CHECKING:
    from typing import Self

_TOL = 1e-4


class RobustFactorization(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    RobustBase,
):
    """min (1/n) sum_i ||u_i V - x_i||_p + alpha/2 (||U||^2/n + ||V||^2/m) over U (n, r), V (r, m).

    NaN marks a missing cell, which counts for nothing. With p = 2 whole rows may be bad, with p = 1
    single cells. Columns are not centred: subtract medians first if they are far from zero.

    Parameters
    ----------
    n_components
        r, the rank; by default about the square root of the number of columns. "auto" takes the
        one that predicts held-out cells best.
    p
        Exponent of the norm of a row's residual, a number >= 1.
    robust
        "rows", or "columns" to sum the norms of columns instead, where some columns are bad.
    alpha
        Weight of the squares of both factors; helps where rows have few known cells. "auto" is 0
        for complete tables, and otherwise the weight that predicts held-out cells best.
    bounded
        Let a residual count for at most six robust standard deviations of its column, and that of a
        row for three median norms: no wrong cell or row, however large, is then worth a component.
        False minimises the plain norm.
    batch_size
        Learn from chunks of so many rows, in passes over the table, instead of from all at once.
    max_seconds, max_iter
        Budgets; an iteration is a sweep over both factors (at most 300 by default), or a pass of
        batches (5 by default).
    tol
        The run has converged when neither factor alone could lower the objective by this share of
        it, which is measured. Not measured for batches.
    verbose
        Show on the standard error one line with objective, time left and what is being done.
    random_state, device
        Seed of starts and batches; where to compute.

    After `fit`: `components_` (V), `result_`, `history_`, `reconstruction_err_` (the objective),
    `outlier_scores_` and `outliers_` of the training rows, `alpha_`, `shrinkage_` (of imputed cells
    towards the medians of their columns, by held-out cells); with `robust="columns"` also
    `column_scores_` and `outlier_columns_`.

    >>> import numpy as np
    >>> x = np.outer([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 2.0])
    >>> x[0, 0], x[5, 1] = 70.0, np.nan  # one gross error, one cell missing
    >>> model = RobustFactorization(1, random_state=0).fit(x)
    >>> print(model.components_.round(3), model.impute(x)[5].round(3))
    [[0.333 0.667 0.667]] [ 6. 12. 12.]
    """

    components_: Array
    n_components_: int
    reconstruction_err_: float
    column_scores_: NDArray[np.float64]
    outlier_columns_: NDArray[np.bool_]
    column_scales_: Array | None
    alpha_: float
    shrinkage_: float
    stream_: Stream
    _bounds: Bounds | None

    _non_negative = False

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = None,
        *,
        p: float = 1.0,
        robust: Literal["rows", "columns"] = "rows",
        alpha: float | Literal["auto"] = "auto",
        bounded: bool = True,
        batch_size: int | None = None,
        max_seconds: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.n_components = n_components
        self.p = p
        self.robust = robust
        self.alpha = alpha
        self.bounded = bounded
        self.batch_size = batch_size
        self.max_seconds = max_seconds
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the rows of X; `y` is ignored."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and return the embeddings of the rows."""
        attempt = self._attempt()
        u = attempt._learn(X)
        self._adopt(attempt)
        return u

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more chunk of rows; memory does not grow with the number of chunks.

        The first chunk sets the columns and must have at least `n_components` rows. Scores of
        outliers are those of the last chunk.
        """
        attempt = self._attempt(keep=True)
        attempt._learn_more(X)
        return self._adopt(attempt)

    def transform(self, X: Any) -> Array:
        """The embedding of each row with the components fixed: a convex problem, solved to 1e-8.

        That is the gap to the optimum over the norm of the row, and proven: a `ConvergenceWarning`
        counts the rows for which it is not.
        """
        return self._out(self._embed(X)[1].u)

    def inverse_transform(self, X: Any) -> Array:
        """The rows U V that belong to embeddings."""
        check_is_fitted(self)
        rows: Array = read_codes(X, len(self.components_)) @ self.components_
        return rows

    def impute(self, X: Any) -> Array:
        """X with its missing cells filled from the embeddings of their rows.

        They are pulled towards the medians of their columns as far as held-out cells prefer.
        """
        cells, embedded = self._embed(X)
        if cells.observed is None:
            return self._out(cells.values)
        filled = embedded.u @ self._basis()
        if self._bounds is not None:
            middle = self._bounds.middle.to(filled)
            filled = middle + self.shrinkage_ * (filled - middle)
        return self._out(torch.where(cells.observed, cells.values, filled))

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Minus the norm of each row's residual, as if no cell were missing: low for outliers."""
        return -as_array(self._embed(X)[1].full_norms)

    def outlier_scores(self, X: Any) -> NDArray[np.float64]:
        """Robust standard deviations of each row's residual norm above the training rows' middle.

        Higher is more of an outlier, as in `outlier_scores_`.
        """
        norms = -self.score_samples(X)
        return self.outlier_scale_.scores(norms)

    def _embed(self, X: Any) -> tuple[Cells, EmbeddedRows]:
        check_is_fitted(self)
        cells = self._read(X, reset=False)
        embedded = self._fixed().embed(cells)
        if embedded.unsolved:
            warnings.warn(
                f"{embedded.unsolved} of {len(embedded.u)} embeddings are not proven optimal to"
                " 1e-8; their rows may fit a little worse than they could.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return cells, embedded

    def _fixed(self) -> FixedBasis:
        """The components as rows are embedded with them; wrong cells count for a bounded amount."""
        given, device = self.column_scales_, self._torch_device()
        scales = None if given is None else as_tensor(given, dtype=torch.float64, device=device)
        return FixedBasis(self._basis(), self._norm(), scales, self._bounds)

    def _learn(self, X: Any) -> Array:
        norm = self._checked()
        cells = self._read(X, reset=True)
        seed = self._seed()
        self._bounds = Bounds.of(cells) if self.bounded else None
        rank = self._choose(cells, norm, seed)
        norm = self._norm()
        by_column = self.robust == "columns"
        settings = FactorSettings(
            by_column=by_column,
            batch=self.batch_size,
            tol=self._tolerance,
            max_iter=self.max_iter,
            max_seconds=self.max_seconds,
            seed=seed,
        )
        with self._watched(f"sweeps for {rank} components") as watching:
            settings = replace(settings, callbacks=watching)
            if self._bounds is None:
                return self._out(self._keep(fit_factors(cells, rank, norm, settings)))
            bounds = Bounds.of(cells.transposed) if by_column else self._bounds
            fit = fit_bounded(cells, bounds, rank, norm, settings)
        if by_column:  # columns that are wrong as a whole have no spread of their own
            winsorized = bounds.winsorized(cells.transposed, (fit.u @ fit.v).T)
            self._bounds = Bounds.of(winsorized.transposed)
        return self._out(self._keep(fit, cells))

    def _choose(self, cells: Cells, norm: RowNorm, seed: int) -> int:
        """The rank; notes the penalty and the shrinkage."""
        choice = chosen_rank(
            cells,
            self._bounds,
            norm,
            n_components=self.n_components,
            alpha=self.alpha,
            by_column=self.robust == "columns",
            seed=seed,
        )
        self.alpha_, self.shrinkage_ = choice.alpha, choice.shrinkage
        return choice.rank

    def _learn_more(self, X: Any) -> None:
        norm = self._checked()
        first = not hasattr(self, "stream_")
        # A first chunk after a fit keeps the columns of that fit, and begins anew otherwise.
        fresh = not hasattr(self, "components_")
        cells = self._read(X, reset=fresh)
        stream = None if first else self.stream_
        start = self._basis() if first and not fresh else None
        if fresh:
            self._bounds = Bounds.of(cells) if self.bounded else None
            rank = self._choose(cells, norm, self._seed())
        else:
            rank = len(self.components_)
        winsorized = cells if self._bounds is None else self._bounds.winsorized(cells)
        if self._bounds is not None and winsorized is not cells and not fresh:
            fixed = self._fixed()
            winsorized = self._bounds.winsorized(cells, fixed.embed(cells).u @ fixed.v)
        self.stream_, found = fit_stream(
            winsorized,
            rank,
            self._norm(),
            by_column=self.robust == "columns",
            seed=self._seed(),
            stream=stream,
            start=start,
        )
        self._keep(found, None if winsorized is cells else cells)

    def _keep(self, found: Fit, cells: Cells | None = None) -> Tensor:
        """Keep the fit; embeddings of these cells as `transform` has them, or those of the fit."""
        self.components_ = self._out(found.v)
        self.n_components_ = len(self.components_)
        self.column_scales_ = None if found.scales is None else as_array(found.scales)
        self.reconstruction_err_ = found.result.objective
        u, norms = found.u, found.full_norms
        if cells is not None:
            rows = self._fixed().embed(cells)
            u, norms = rows.u, rows.full_norms
        sizes, size = as_array(norms), found.size
        # Every basis fits rows of zeros: they say nothing of how far off a row may be.
        told = (sizes > 0) | (as_array(u) != 0).any(axis=1)
        judges = sizes[told] if told.any() else sizes
        scale = OutlierScale.fit(judges, size=size, tol=self._tolerance)
        self._record(found.result, sizes, scale=scale)
        if found.column_norms is not None:
            columns = as_array(found.column_norms)
            scale = OutlierScale.fit(columns, size=size, tol=self._tolerance)
            self.column_scores_ = scale.scores(columns)
            self.outlier_columns_ = scale.flags(self.column_scores_)
        return u

    def _checked(self) -> RowNorm:
        self._check_shared()
        check_choice("robust", self.robust, ("rows", "columns"))
        check_flag("bounded", self.bounded)
        if isinstance(self.alpha, str):
            check_choice("alpha", self.alpha, ("auto",))
        alpha = 0.0 if isinstance(self.alpha, str) else check_non_negative("alpha", self.alpha)
        if self.n_components is not None and self.n_components != "auto":
            check_count("n_components", self.n_components)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        if self.robust == "columns" and alpha > 0:
            raise CombinationError(
                f'alpha must be 0 with robust="columns"; got {self.alpha!r}. The weight of a'
                " column is learned from the fit, and would not be that of a new row."
            )
        return RowNorm(self.p, alpha, self._non_negative)  # type: ignore[arg-type]

    @property
    def _tolerance(self) -> float:
        return _TOL if self.tol is None else self.tol

    def _norm(self) -> RowNorm:
        return RowNorm(self.p, self.alpha_, self._non_negative)  # type: ignore[arg-type]

    def _read(self, X: Any, *, reset: bool) -> Cells:
        table = read_table(self, X, reset=reset, allow_nan=True)
        dtype = torch.float32 if table.dtype == np.float32 else torch.float64
        cells = Cells.of(as_tensor(table, dtype=dtype, device=self._torch_device()))
        check_observed(cells, columns=reset)
        check_size(cells)
        if self._non_negative and bool((cells.values < 0).any()):
            least = float(cells.values.min())
            raise InvalidInputError(
                f"Negative values in data passed to {type(self).__name__}: X must be >= 0; got"
                f" {least:g}. Shift the columns, or use RobustFactorization."
            )
        return cells

    def _basis(self) -> Tensor:
        dtype = torch.float32 if self.components_.dtype == np.float32 else torch.float64
        return as_tensor(self.components_, dtype=dtype, device=self._torch_device())

    @staticmethod
    def _out(tensor: Tensor) -> Array:
        array: Array = tensor.detach().cpu().numpy()
        return array

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.positive_only = self._non_negative
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
