"""RobustRegressor: several targets at once, coupled by the norm of their residual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from proxlin._checks import check_flag, check_interval, check_non_negative, counted
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.estimators.base import Checkpoint
from proxlin.estimators.estimator_settings import check_factory, check_widths, named_regularizer
from proxlin.estimators.plot import plot_scores
from proxlin.estimators.regression.net_fit import ModuleFactory
from proxlin.estimators.regression.regression_inference import RegressionInference
from proxlin.estimators.regression.reservoir import Reservoir
from proxlin.estimators.robust_r2 import robust_r2_score
from proxlin.estimators.tables import Array, check_squares, read_pair, read_table, read_weights
from proxlin.exact.linear import quantile_levels
from proxlin.methods import Method
from proxlin.problem.loss import Exponent
from proxlin.run.result import Callback
from proxlin.terms import Constraint, Regularizer

if TYPE_CHECKING:
    from typing import Self

_SMALL = 2**20  # cells of a sparse table that is made dense
_LATER = 0.1  # share of the steps that a later call of partial_fit takes


class RobustRegressor(RegressorMixin, MultiOutputMixin, RegressionInference):  # type: ignore[misc]
    """What most rows say about one or several targets, by a linear model or a net.

    By default rows that do not fit count for nothing: up to 45 % of them may be wrong, by any
    amount and on one side, in their targets or, where they lie apart, in their features. Clean
    rows with Gaussian noise mostly get least squares itself. With more features than
    rows, or nearly, it gets a ridge whose strength the rows choose. The plain norm,
    min (1/n) sum_i ||f(x_i) - y_i||_p proven optimal, is
    `RobustRegressor(p=1, reweight=False, leverage=False, regularizer=None)`.

    Parameters
    ----------
    p
        The norm of a row's residual: a number >= 1, `inf`, or "mse" for least squares, which alone
        means no reweighting. "auto" is squares over the rows that reweighting trusts, target by
        target, and 1 without reweighting. A net begins with 1 and ends with squares.
    hidden
        Widths of the hidden layers of a net; none for a linear model. A net is kept only if it
        predicts held-out rows better than the linear model; `chosen_` says which.
    module
        `module(n_in, n_out)` returns a torch module to train instead. Pickling the estimator needs
        a factory that can be pickled: a function or class with a name, not a lambda.
    regularizer
        "ridge", "lasso", "elasticnet" or "group" (whole features) of weight `alpha`, on the
        coefficients of a linear model or the weights of a net; or an object such as `Lasso(0.1)`.
        "auto" is a ridge where rows are few (below three for each coefficient), and for nets.
        Intercepts are never charged for by name.
    alpha
        The weight of a named regulariser, on data scaled by the rows that count; a number beside
        "auto" means a ridge. "auto" takes the one that predicts held-out rows best; for nets with a
        `p` of one's own, or without reweighting, 1e-3.
    quantile
        A number in (0, 1) for that quantile of every target given the features, or several, which
        then do not cross: by the pinball loss, all rows counting, linear models proven optimal.
        Several of one target are the columns of `predict`; of several targets its last axis.
    constraint
        For instance `NonNegative()`. On a linear model it bounds `coef_` in the data's own units,
        which are then not scaled.
    reweight
        Whether rows that do not fit lose their weight; "auto" unless p is "mse". With settings of
        one's own (p, regulariser, constraint) the fit is convex given the weights of the default,
        and its predictions in targets that it does not trust in rows that count.
    leverage
        Whether rows whose features are far from the bulk count only if the others predict them;
        "auto" as reweighting does, False or None trusts the features.
    scaling
        Whether features and targets are scaled by median and inter-quartile range first. The
        coefficients are for the data as they come either way.
    fit_intercept
        Whether the linear model has an intercept.
    method
        "auto" solves linear models to optimality and trains nets by "probed"; or any method of
        `minimize`.
    max_seconds, max_iter, tol
        Limits of the solver. Without any, linear models run until optimal to 1e-8 and nets for a
        number of steps that follows from the number of rows.
    validation_fraction
        Share of the rows that a net is not trained on (200 rows at least, a quarter of few): of all
        its steps and ridges, those that served most of them best are kept; training rows far off
        what they say lose their weight. Where the rows make one batch, some thousands, the last
        steps are on all of them. With a `p` of one's own 25 rows at least, and they stay out. Not
        for linear models; below 20 rows the linear model is kept; 0 trains on all rows to the end.
    warm_start
        Begin at the last fit.
    checkpoint
        A folder, or `Checkpoints`, in which `fit` keeps the training of nets, so that the same call
        goes on after whatever ended it; needs a number as `random_state`.
    callbacks
        Called while a net is trained, as in `minimize`: to watch it, or to end it by returning
        True; and after every pass over the rows of a default linear fit, to watch it.
    verbose
        Show on the standard error one line with objective, time left and what is being done.
    random_state, device
        A seed or numpy generator for nets and held-out rows; a torch device for nets.

    Attributes
    ----------
    coef_, intercept_
        Of the linear model, shaped as those of scikit-learn's `LinearRegression`.
    module_
        The trained net, on scaled data.
    chosen_
        "linear" or "net": the model that predicts.
    scale_
        The standard deviation of each target's noise around a linear model, good rows only. Where
        features are no fewer than rows, or rows fewer than twice the coefficients of a fit by
        settings of your own, that of rows which the fit has not seen.
    result_, history_
        Status, objective (on scaled data) with its certificate, which by default holds for the
        final row weights, and the course of the run as a table.
    outlier_scores_, outliers_
        How far each training row is from the model, and whether that is more than 3.5, which 0.6 %
        of good rows with Gaussian noise are, at any number of rows and features. For a linear
        model it is the largest of a row's residuals in standard deviations that count its leverage.
    alpha_
        The weight of the regulariser.
    row_weights_
        What each training row counted, from 0 to 1, the mean over the targets; ones without
        reweighting.

    >>> import numpy as np
    >>> x = np.arange(20.0)[:, None]
    >>> y = 2 * x[:, 0] + 1
    >>> y[::4] = 1000.0
    >>> model = RobustRegressor().fit(x, y)
    >>> model.coef_.round(6), round(model.intercept_, 6), int(model.outliers_.sum())
    (array([2.]), 1.0, 5)
    """

    def __init__(
        self,
        p: Exponent | Literal["auto"] = "auto",
        *,
        hidden: Sequence[int] = (),
        module: ModuleFactory | None = None,
        regularizer: str | Regularizer | None = "auto",
        alpha: float | Literal["auto"] = "auto",
        quantile: float | Sequence[float] | None = None,
        constraint: Constraint | None = None,
        reweight: bool | Literal["auto"] = "auto",
        leverage: bool | Literal["auto"] | None = "auto",
        scaling: bool = True,
        fit_intercept: bool = True,
        method: str | Method = "auto",
        max_seconds: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        checkpoint: Checkpoint = None,
        callbacks: Sequence[Callback] = (),
        verbose: bool | int = False,
        random_state: Any = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.p = p
        self.hidden = hidden
        self.module = module
        self.regularizer = regularizer
        self.alpha = alpha
        self.quantile = quantile
        self.constraint = constraint
        self.reweight = reweight
        self.leverage = leverage
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.method = method
        self.max_seconds = max_seconds
        self.max_iter = max_iter
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X (n, features) and targets y (n,) or (n, targets).

        X may be a sparse matrix. Beyond a million cells it is never made dense, and fitted by the
        default linear model alone, without or with a ridge.
        """
        attempt = self._attempt(keep=check_flag("warm_start", self.warm_start))
        attempt.__dict__.pop("_reservoir_", None)
        attempt._check_settings()
        if issparse(X) and self._linear and X.shape[0] * X.shape[1] <= _SMALL:
            X = X.toarray()
        table, targets = read_pair(attempt, X, y, reset=True, sparse=attempt._linear)
        check_squares(table)
        check_squares(targets, "y")
        weights = read_weights(sample_weight, table)
        attempt._check_warm(table, targets)
        if issparse(table):
            if not attempt._takes_sparse:
                raise CombinationError(
                    "a large sparse X is for the default linear model, with regularizer None,"
                    " 'auto' or 'ridge'; leave other settings alone, or pass X.toarray()."
                )
            attempt._learn_sparse(table, targets, weights)
        else:
            attempt._learn(table, targets, weights, share=1.0, checkpoint=self.checkpoint)
        return self._adopt(attempt)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to these rows and those of earlier calls, of which a sample of 20,000 is kept.

        Up to that number of rows a linear model is the same as after one `fit` on all of them. The
        outlier scores are those of the rows of this call.
        """
        first = not hasattr(self, "_reservoir_")
        attempt = self._attempt(keep=not first)
        attempt._check_settings()
        table, targets = read_pair(attempt, X, y, reset=first)
        weights = read_weights(sample_weight, table)
        columns = targets.reshape(len(targets), -1)
        if first:
            attempt._reservoir_ = Reservoir.empty(table.shape[1], columns.shape[1])
        else:
            attempt._check_targets(columns.shape[1])
        kept = attempt._reservoir_.with_rows(table, columns, weights, attempt._seed())
        attempt._reservoir_ = kept
        y_kept = kept.y[:, 0] if targets.ndim == 1 else kept.y
        attempt._learn(kept.x, y_kept, kept.weights, share=1.0 if first else _LATER)
        attempt._rescore(table, columns)
        return self._adopt(attempt)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """f(x) for each row, (n,) or (n, targets) as y was; of several quantiles, one more axis."""
        check_is_fitted(self)
        table = read_table(self, X, reset=False, sparse=self.chosen_ == "linear")
        predicted = self._predict(table)
        if self._copies_ > 1 and predicted.shape[1] > self._copies_:
            return predicted.reshape(len(predicted), -1, self._copies_)
        return predicted[:, 0] if self._flat_ else predicted

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """`robust_r2_score` of the predictions, which wrong rows among these cannot turn around."""
        return float(robust_r2_score(y, self.predict(X), sample_weight=sample_weight))

    def outlier_scores(self, X: Any, y: Any) -> NDArray[np.float64]:
        """The outlier score of each row, on the scale of the training rows; beyond 3.5 is one."""
        check_is_fitted(self)
        table, targets = read_pair(self, X, y, reset=False, sparse=self.chosen_ == "linear")
        columns = targets.reshape(len(targets), -1)
        self._check_targets(columns.shape[1])
        return self.outlier_scale_.scores(self._norms(table, columns))

    def plot(self, X: Any = None, y: Any = None, *, ax: Any = None) -> Any:
        """Draw outlier scores with the outliers marked: of these rows over the predicted target.

        Without rows, those of the training rows over their number. With several targets the rows
        are placed by the mean of their predictions. Returns the matplotlib axes.
        """
        if X is None and y is None:
            return super().plot(ax=ax)
        scores = self.outlier_scores(X, y)
        place = self._predict(read_table(self, X, reset=False)).mean(axis=1)
        cutoff = self.outlier_scale_.cutoff
        return plot_scores(scores, cutoff, place=place, label="predicted", ax=ax)

    def _check_settings(self) -> None:
        widths = check_widths(self.hidden)
        self._check_shared()
        self._check_checkpoint(self.checkpoint)
        for name in ("scaling", "fit_intercept", "warm_start"):
            check_flag(name, getattr(self, name))
        for name, words in (("reweight", ("auto",)), ("leverage", ("auto", None))):
            value = getattr(self, name)
            if value not in words:
                check_flag(name, value)
        if self.leverage is True and not self._reweighted:
            raise CombinationError(
                "leverage=True is a part of the reweighting; got it with reweight=False or p='mse'."
                " Set reweight=True, or leave leverage alone."
            )
        check_interval("validation_fraction", self.validation_fraction, 0, 0.5)
        if self.module is not None:
            check_factory(self.module, "n_in, n_out")
            if widths:
                raise CombinationError(
                    f"module decides its layers itself; got hidden={self.hidden!r} with it. Give"
                    " one of the two."
                )
        if self.quantile is not None:
            quantile_levels(self.quantile)
        if not self._linear and not self.fit_intercept:
            raise CombinationError(
                "fit_intercept=False is for linear models; leave the biases out of the module."
            )
        if self.alpha != "auto":
            check_non_negative("alpha", self.alpha)
        if self.regularizer != "auto":
            named_regularizer(self.regularizer, 1.0, None)

    @property
    def _takes_sparse(self) -> bool:
        """Whether a sparse X can be fitted: the default linear model, with a ridge or without."""
        return (
            self._linear
            and self._reweighted
            and (self.p, self.method, self.quantile, self.constraint)
            == ("auto", "auto", None, None)
            and (self.regularizer is None or self.regularizer in ("auto", "ridge"))
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._linear
        return tags

    def _check_warm(self, table: Array, targets: Array) -> None:
        """Refuse to go on from a fit of another shape."""
        if not hasattr(self, "_targets_"):
            return
        columns = 1 if targets.ndim == 1 else targets.shape[1]
        fitted = (len(self._features_.scale), len(self._targets_.scale) // self._copies_)
        if (table.shape[1], columns) != fitted:
            raise InvalidInputError(
                f"warm_start=True goes on with {counted(fitted[0], 'feature')} and"
                f" {counted(fitted[1], 'target')}; got {table.shape[1]} and {columns}. Set"
                " warm_start=False to begin anew."
            )

    def _check_targets(self, columns: int) -> None:
        fitted = len(self._targets_.scale) // self._copies_
        if columns != fitted:
            raise InvalidInputError(
                f"y must have {counted(fitted, 'target')}, as in the fit; got {columns}."
            )
