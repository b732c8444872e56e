"""What RobustRegressor says beyond its predictions: standard errors, intervals, diagnostics."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from proxlin._checks import (
    check_choice,
    check_count,
    check_flag,
    check_open_interval,
    counted,
    shown,
)
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.estimators.inference.coefficient_errors import FittedLine
from proxlin.estimators.inference.diagnostics import diagnose, draw_diagnostics
from proxlin.estimators.inference.prediction_interval import (
    Calibration,
    EvenCalibration,
    cross_interval,
)
from proxlin.estimators.inference.regression_summary import RegressionSummary
from proxlin.estimators.regression.judged_rows import row_counts
from proxlin.estimators.regression.regression_learner import RegressionLearner
from proxlin.estimators.regression.regression_model import Weights
from proxlin.estimators.regression.sparse_linear import fit_sparse_linear
from proxlin.estimators.robust_r2 import robust_r2_score
from proxlin.estimators.robust_scale import INNER
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array, Vector, read_pair, read_table
from proxlin.exact.linear import quantile_levels
from proxlin.run.callbacks import ProgressLine

_FOLDS = 10  # of CV+
_EXACT = 1e-9  # of the fitted values: misfits below are rounding


class RegressionInference(RegressionLearner):
    """The methods of RobustRegressor that look at a fit and its training rows."""

    _training_: tuple[Array, Array, Weights | None]  # features, targets, the user's weights
    _calibration_: Calibration
    _errors_: Vector | None  # (outputs, 1 + features) by the default formula
    _training_score_: Vector  # robust R2 of the training rows, target by target
    _folds_: list[RegressionInference]  # fits to all rows but a tenth, once CV+ was asked for

    def __getstate__(self) -> dict[str, Any]:
        # Without the training rows: a model that is sent or stored holds no table.
        state: dict[str, Any] = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("_training_", "_folds_")}

    def summary(
        self,
        coverage: float = 0.95,
        errors: str = "sandwich",
        *,
        repeats: int = 1000,
        progress: bool = False,
    ) -> RegressionSummary:
        """Coefficients with standard errors and intervals, scale, robust R2, rows without weight.

        For linear models by the default settings, least squares (`p="mse"`), quantiles, and the
        median (`p=1`); print it, or take its `frame()`. `errors` names the formula:
        "sandwich" holds whatever the spread of the noise does along the features; "H1", "H2", "H3"
        are those of statsmodels' RLM and "w" robustbase's `.vcov.w`; for quantiles "nid" (which the
        sandwich is), "iid" and "ker" are quantreg's, "epa" statsmodels'. "bootstrap" is the fast
        and robust bootstrap with so many `repeats`, whose intervals are its quantiles; `progress`
        shows how far it is.
        """
        check_is_fitted(self)
        check_open_interval("coverage", coverage, 0, 1)
        check_count("repeats", repeats)
        check_flag("progress", progress)
        if self._errors_ is None and self._kind is None:
            raise CombinationError(
                "summary is for linear models by the default settings, least squares, medians and"
                " quantiles, without a regularizer or constraint: standard errors of other fits are"
                " not known. Fit RobustRegressor()."
            )
        self._check_varied("summary")
        reach = None
        if errors == "bootstrap":
            found, reach = self._bootstrapped(coverage, repeats, progress=progress)
        elif errors == "sandwich" and self._errors_ is not None:
            found = self._errors_
        else:
            found = self._line().errors(errors)
        coef = self.coef_.reshape(-1, self.n_features_in_)
        table = np.column_stack([np.reshape(self.intercept_, -1), coef])
        first = 0 if self.fit_intercept else 1
        return RegressionSummary(
            self._coefficient_names(), self._output_names(), table[:, first:], found[:, first:],
            self.scale_, self.row_weights_, self._training_score_, self.result_, coverage, errors,
            None if reach is None else reach[:, :, first:],
        )  # fmt: skip

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        method: Literal["split", "cv+"] = "split",
        local: bool = True,
    ) -> tuple[Vector, Vector]:
        """Lower and upper ends that hold a new good row's target with this probability.

        Conformal: the prediction, more or less a quantile of the misfits of rows that had no part
        in their own prediction. "split" takes rows left out one by one for linear models and those
        held out of training for nets; "cv+" (Barber et al. 2021) fits ten times to nine tenths of
        the training rows, and counts how much the fits differ. With `local` misfits count in units
        of a spread that may follow the features and the prediction. New rows must be drawn as the
        good training rows were. Training rows beyond 3.5 deviations are not counted, and good ones
        among them made up for. If a share e of the others is wrong as well, without standing out,
        good rows are covered with a probability from (coverage - e) / (1 - e), where the wrong
        ones fit best, to coverage / (1 - e), where they fit worst.
        """
        check_is_fitted(self)
        check_open_interval("coverage", coverage, 0, 1)
        check_choice("method", method, ("split", "cv+"))
        check_flag("local", local)
        if self.quantile is not None:
            raise CombinationError(
                "predict_interval is for models of the middle; quantiles are ends of an interval"
                " themselves: take two columns of predict, or fit without quantile."
            )
        self._check_varied("predict_interval")
        table = read_table(self, X, reset=False, sparse=method == "split")
        fitted = self._predict(table)
        if method == "split":
            reach = self._calibration_.reach(table, fitted, coverage, local=local)
            low, high = fitted - reach, fitted + reach
        else:
            parts = [(fold._predict, fold._calibration_) for fold in self._cross_fits()]
            low, high = cross_interval(parts, table, coverage, local=local)
        return (low[:, 0], high[:, 0]) if self._flat_ else (low, high)

    def row_diagnostics(self, target: int = 0, X: Any = None, y: Any = None) -> pd.DataFrame:
        """What each training row is to the fit of one target, a row each.

        A model that was stored does not hold its training rows: give them as X and y.

        `fitted`, `residual`; `scaled`, the residual in robust standard deviations; `distance` of
        the features from their bulk, 1 at its border; `weight`; `field`: "good", "far" (a good row
        with features far out), "outlier" or "bad far" (both); for linear models with standard
        errors `influence of NAME`, by how many standard errors the row has moved each coefficient.
        """
        check_is_fitted(self)
        if X is not None:
            self._remember(X, y)
        x, y, _ = self._rows("row_diagnostics")
        self._check_varied("row_diagnostics")
        outputs = self._predict(x)
        if not isinstance(target, Integral) or not 0 <= target < outputs.shape[1]:
            raise InvalidInputError(
                f"target must be from 0 to {outputs.shape[1] - 1}; got {shown(target)}."
            )
        fitted, truth = outputs[:, target], np.repeat(y, self._copies_, axis=1)[:, target]
        frame = diagnose(
            self._features_.apply(x), fitted, truth - fitted, cutoff=self._cutoff,
            scale=float(self.scale_[target]) if self.chosen_ == "linear" else None,
        )  # fmt: skip
        frame["weight"] = self.row_weights_ if self._trust_ is None else self._trust_[:, target]
        known = self._kind in ("kept", "squares")
        moved = self._line().influence(target) if known else None
        if moved is not None:
            names = self._coefficient_names()
            first = 1 + self.n_features_in_ - len(names)
            shares = {f"influence of {name}": moved[:, first + j] for j, name in enumerate(names)}
            frame = pd.concat([frame, pd.DataFrame(shares, index=frame.index)], axis=1)
        return frame

    def diagnostics(self, target: int = 0, X: Any = None, y: Any = None) -> Any:
        """A matplotlib figure of `row_diagnostics`.

        Residuals over fitted values, the four fields of distance and residual (Rousseeuw & van
        Zomeren 1990), the weights, and the influence of the rows on the coefficients.
        """
        return draw_diagnostics(self.row_diagnostics(target, X, y), self._cutoff)

    def _score_training(self, x: Array, y: Array, weights: Weights | None) -> None:
        """Keep what errors and intervals are made of."""
        super()._score_training(x, y, weights)
        self._training_ = (x, y, weights)
        self.__dict__.pop("_folds_", None)
        fitted, outputs = self._predict(x), np.repeat(y, self._copies_, axis=1)
        self._training_score_ = robust_r2_score(
            outputs, fitted, sample_weight=weights, multioutput="raw_values"
        )
        unseen = np.ones(len(x), dtype=bool) if weights is None else weights > 0
        if self.chosen_ == "net" and self._unseen_ is not None:
            held, fitted[held] = self._unseen_
            unseen &= held
        judged = self._judged_
        misfit = np.abs(fitted - outputs)
        if judged is not None:
            # A row's own target has no part in its prediction but for the mean of all, else a fit
            # of little but the mean would foretell how far off a row is.
            misfit, worth = judged.left_out, self._worth_of_rows(weights)
            kept = 1.0 - worth / worth.sum() if self.fit_intercept else np.ones(len(x))
            fitted = outputs + kept[:, None] * np.copysign(misfit, fitted - outputs)
        self._calibration_ = Calibration.of(x[unseen], fitted[unseen], misfit[unseen])
        quick = self._kind in ("kept", "squares")
        self._errors_ = self._line().errors("sandwich") if quick else None

    def _learn_sparse(self, x: Any, y: Array, weights: Weights | None) -> None:
        """The default linear model of a sparse table, by products with it alone."""
        self._flat_, self._copies_, self.chosen_ = y.ndim == 1, 1, "linear"
        columns = y.reshape(len(y), -1).astype(np.float64)
        strength = self.alpha if self._term == "ridge" else 0.0 if self._term is None else "few"
        line = fit_sparse_linear(
            csr_array(x), columns, weights, intercept=self.fit_intercept,
            leverage=bool(self.leverage), strength=strength, seed=self._seed(),
        )  # fmt: skip
        plain = RobustScaling.identity(x.shape[1]), RobustScaling.identity(columns.shape[1])
        self.result_ = self._take(line, plain)
        self._record_judged(line.judged)
        fitted = self._predict(x)
        self._training_score_ = robust_r2_score(
            columns, fitted, sample_weight=weights, multioutput="raw_values"
        )
        nothing = np.empty((len(columns), 0))
        self._calibration_ = EvenCalibration.of(nothing, fitted, line.judged.left_out)
        self._errors_ = self._trust_ = None  # the rows are not kept
        del self._judged_, self._slope_

    def _worth_of_rows(self, weights: Weights | None) -> Vector:
        worth: Vector = self.row_weights_ if weights is None else self.row_weights_ * weights
        return worth if worth.any() else np.ones(len(worth))

    @property
    def _kind(self) -> str | None:
        """Which formulas the linear model has: "kept", "squares", "quantiles" or none."""
        if self.chosen_ != "linear" or self.constraint is not None or self.method != "auto":
            return None
        if self._trust_ is not None:
            return "kept"
        if self._term not in (None, "auto") or (self.quantile is None and self.alpha_ > 0):
            return None
        if self.quantile is None and self._exponent == "mse":
            return "squares"
        single = len(self._targets_.scale) == 1
        return "quantiles" if self.quantile is not None or self._exponent == 1 or single else None

    def _rows(self, name: str) -> tuple[Array, Array, Weights | None]:
        """The training rows, which a model that was stored has no more."""
        if not hasattr(self, "_training_"):
            raise InvalidInputError(
                f"{name} needs the training rows, and a model that was stored or sent does not hold"
                " them. Fit again, or give row_diagnostics(X=..., y=...) the same rows."
            )
        return self._training_

    def _remember(self, X: Any, y: Any) -> None:
        """Take these for the training rows."""
        table, targets = read_pair(self, X, y, reset=False)
        columns = targets.reshape(len(targets), -1)
        expected = (len(self.row_weights_), len(self._targets_.scale) // self._copies_)
        if columns.shape != expected:
            raise InvalidInputError(
                f"X and y must be the training rows, {expected[0]} of them with"
                f" {counted(expected[1], 'target')}; got {columns.shape[0]} with"
                f" {columns.shape[1]}."
            )
        self._training_ = (table, columns, None)

    def _check_varied(self, name: str) -> None:
        """Refuse a fit without noise."""
        spread = self._calibration_.misfit.max(axis=0)
        size = np.abs(self._calibration_.fitted).max(axis=0)
        exact = spread <= _EXACT * size
        if exact.any():
            target = self._output_names()[int(exact.argmax())]
            raise InvalidInputError(
                f"{name} needs a target with noise around its fit; got {target}, which is constant"
                " or fitted exactly. Its predictions need no interval."
            )

    def _line(self) -> FittedLine:
        """The linear fit with its training rows."""
        x, y, weights = self._rows("the formula")
        worth = self._worth_of_rows(weights)
        plain = weights is None and bool((worth == 1.0).all())
        levels = None
        if self._kind == "quantiles":
            levels = [0.5] if self.quantile is None else quantile_levels(self.quantile)[0]
        return FittedLine(
            x, np.repeat(y, self._copies_, axis=1), self._predict(x), row_counts(weights, len(x)),
            self.row_weights_, None if plain else worth, self.fit_intercept, self._trust_,
            None if self._trust_ is None else self._slope_, self.scale_, levels,
        )  # fmt: skip

    def _bootstrapped(
        self, coverage: float, repeats: int, *, progress: bool
    ) -> tuple[Vector, Vector]:
        """Errors (outputs, 1 + features), and quantiles (2, ...) of what the repeats add."""
        if self._kind not in ("kept", "squares"):
            raise CombinationError(
                'errors="bootstrap" is for the default fit and least squares; for quantiles choose'
                ' "sandwich", "iid" or "ker".'
            )
        line = ProgressLine("bootstrap")

        def tell(share: float) -> None:
            if progress:
                line.show(f"{share:.0%} of the repeats", share)

        generator = np.random.default_rng(self._seed())
        found = self._line().bootstrapped(coverage, repeats, generator, tell)
        if progress:
            line.close(f"{repeats:,} repeats")
        return found

    def _cross_fits(self) -> list[RegressionInference]:
        """Fits to all training rows but a tenth, calibrated by that tenth."""
        if not hasattr(self, "_folds_"):
            x, y, weights = self._rows('method="cv+"')
            used = np.arange(len(x)) if weights is None else np.flatnonzero(weights)
            order = np.random.default_rng(self._seed()).permutation(used)
            folds = []
            for held in np.array_split(order, min(_FOLDS, len(order))):
                kept = np.setdiff1d(used, held)
                fold = clone(self).set_params(checkpoint=None, warm_start=False)
                fold.fit(x[kept], y[kept], None if weights is None else weights[kept])
                fitted = fold._predict(x[held])
                fold._calibration_ = Calibration(
                    np.asarray(x[held], np.float64), fitted, np.abs(fitted - y[held])
                )
                folds.append(fold)
            self._folds_ = folds
        return self._folds_

    @property
    def _cutoff(self) -> float:
        """Deviations beyond which a residual is an outlier's."""
        return self.outlier_scale_.limit if self.chosen_ == "linear" else INNER

    def _coefficient_names(self) -> tuple[str, ...]:
        features = getattr(self, "feature_names_in_", range(self.n_features_in_))
        names = [name if isinstance(name, str) else f"x{name}" for name in features]
        return ("intercept", *names) if self.fit_intercept else tuple(names)

    def _output_names(self) -> tuple[str, ...]:
        count = len(self._targets_.scale) // self._copies_
        numbered = ["y"] if count == 1 else [f"y{j}" for j in range(count)]
        targets = getattr(self, "_target_names_", None) or numbered
        if self._copies_ == 1:
            return tuple(targets)
        levels, _ = quantile_levels(self.quantile)
        return tuple(f"{target}[{level:g}]" for target in targets for level in levels)
