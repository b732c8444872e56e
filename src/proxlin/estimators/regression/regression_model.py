"""What a fitted RobustRegressor is: a line or a net, its predictions, and the scores of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from proxlin.estimators.base import RobustBase
from proxlin.estimators.regression.judged_rows import Judged, judge_residuals
from proxlin.estimators.regression.net_fit import ModuleFactory, predict_rows
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.scores import CUTOFF, OutlierScale
from proxlin.estimators.tables import Array
from proxlin.exact.linear import quantile_levels
from proxlin.problem.loss import Exponent, RowLoss

Weights = NDArray[np.float64]
Mask = NDArray[np.bool_]


class RegressionModel(RobustBase):
    """Settings, parameters, predictions and outlier scores."""

    p: Exponent | Literal["auto"]  # type: ignore[assignment]
    quantile: float | Sequence[float] | None
    hidden: Sequence[int]
    module: ModuleFactory | None
    reweight: bool | str
    fit_intercept: bool

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64] | float
    module_: nn.Module
    chosen_: str  # "linear" or "net": the model that predicts
    scale_: NDArray[np.float64]  # of a linear model
    _unseen_scale_: NDArray[np.float64]  # of a linear model: of good rows that it has not seen
    # While fitting: residuals from fits without the rows, where these are few.
    _left_out_: Array | None
    row_weights_: Weights
    _judged_: Judged | None  # while fitting: the rows against a fit that judged them itself
    # While fitting: rows held out, and what a net that had not seen them predicts of them.
    _unseen_: tuple[Mask, Array] | None
    _copies_: int  # outputs for each target: so many quantiles were asked for
    _features_: RobustScaling
    _targets_: RobustScaling

    @property
    def _linear(self) -> bool:
        """Whether a linear model is asked for."""
        return self.module is None and not tuple(self.hidden)

    @property
    def _reweighted(self) -> bool:
        """Whether rows that do not fit lose their weight: unless squares are asked for by name."""
        return self.p != "mse" if self.reweight == "auto" else bool(self.reweight)

    @property
    def _exponent(self) -> Exponent:
        """p; by default squares once bad rows have no weight, and absolute values otherwise."""
        if self.p != "auto":
            return self.p
        return "mse" if self._reweighted and self._linear else 1.0

    def _predict(self, table: Array) -> NDArray[np.float64]:
        if self.chosen_ == "linear":
            coef = self.coef_.reshape(-1, self.n_features_in_)
            predicted: NDArray[np.float64] = table @ coef.T + np.reshape(self.intercept_, -1)
            return predicted
        scaled = predict_rows(self.module_, self._features_.apply(table), self._torch_device())
        if self._copies_ > 1:  # sorted, quantiles of a net do not cross and fit no worse
            order = np.argsort(quantile_levels(self.quantile)[0])
            apart = scaled.reshape(len(scaled), -1, self._copies_)
            apart[..., order] = np.sort(apart, axis=-1)
            scaled = apart.reshape(len(scaled), -1)
        return self._targets_.invert(scaled)

    def _norms(self, x: Array, y: Array) -> NDArray[np.float64]:
        return self.misfits(self._predict(x) - np.repeat(y, self._copies_, axis=1))

    def misfits(self, residual: Array) -> NDArray[np.float64]:
        """What outlier scores are made of: the size of each row (n, targets) of residuals.

        For a linear model the largest one in the standard deviations of good rows that the fit has
        not seen, for a net ||f(x_i) - y_i||_p in scaled targets.
        """
        if self.chosen_ == "linear":
            largest: NDArray[np.float64] = np.abs(residual / self._unseen_scale_).max(axis=1)
            return largest
        loss = RowLoss(2.0 if self._exponent == "mse" else self._exponent)
        scaled = np.ascontiguousarray(residual / self._targets_.scale, dtype=np.float64)
        return loss(torch.from_numpy(scaled)).numpy()

    def _rescore(self, x: Array, y: Array) -> None:
        """Replace the scores of the training rows by those of these rows, on the same scale."""
        self.outlier_scores_ = self.outlier_scale_.scores(self._norms(x, y))
        self.outliers_ = self.outlier_scale_.flags(self.outlier_scores_)

    def _score_training(self, x: Array, y: Array, weights: Weights | None) -> None:
        norms = self._norms(x, y) if self.chosen_ == "net" else None
        y = np.repeat(y, self._copies_, axis=1)
        if norms is not None:
            size = _typical(self._targets_.apply(y))
            scale = OutlierScale.fit(norms, size=size)
            if self._unseen_ is not None:  # a net knows the rows it was trained on too well
                held, predicted = self._unseen_
                unseen = OutlierScale.fit(self.misfits(predicted - y[held]), size=size)
                scale = max(scale, unseen, key=lambda one: one.limit)
            self._record(self.result_, norms, scale=scale)
            return
        judged = self._judged_
        if judged is None:
            residual = (self._predict(x) - y) / self._targets_.scale
            judged = judge_residuals(
                self._features_.apply(x), residual, weights, self.row_weights_,
                intercept=self.fit_intercept, size=_typical(self._targets_.apply(y)),
                left_out=self._left_out_,
            ).times(self._targets_.scale)  # fmt: skip
        self._record_judged(judged)

    def _record_judged(self, judged: Judged) -> None:
        """Keep the scales of a linear fit, and how far its rows are from it."""
        self._judged_ = judged
        self.scale_, self._unseen_scale_ = judged.scale, judged.unseen_scale
        outlier_scale = OutlierScale(0.0, judged.cutoff / CUTOFF)
        self._record(self.result_, judged.distance.max(axis=1), scale=outlier_scale)


def _typical(scaled: Array) -> float:
    """The median distance of the targets from their middle, below which nothing is worth noting."""
    size = float(np.median(np.abs(scaled - np.median(scaled, axis=0)).sum(axis=1)))
    return size or 1.0
