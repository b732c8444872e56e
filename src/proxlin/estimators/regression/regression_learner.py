"""How RobustRegressor learns: scale, weigh the rows, solve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from proxlin.errors import CombinationError
from proxlin.estimators.base import Checkpoint
from proxlin.estimators.estimator_settings import named_regularizer
from proxlin.estimators.regression.judged_rows import few_for, row_counts
from proxlin.estimators.regression.linear_fit import LinearFit, linear_regularizer
from proxlin.estimators.regression.net_fit import default_steps, regression_problem
from proxlin.estimators.regression.net_learner import NetLearner, Stage
from proxlin.estimators.regression.regression_model import Mask, Weights
from proxlin.estimators.regression.regression_run import Run, product
from proxlin.estimators.regression.reservoir import Reservoir
from proxlin.estimators.regression.robust_linear import RobustLinear, fit_robust_linear
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array, as_array, as_tensor
from proxlin.exact.linear import LinearResult, quantile_levels, solve_quantiles
from proxlin.methods.probed.batch_size import fitting_batch_size
from proxlin.models import linear_regressor
from proxlin.problem.loss import Pinball
from proxlin.run.loop import check_callbacks
from proxlin.run.result import Result
from proxlin.terms import Regularizer


class RegressionLearner(NetLearner):
    """What `fit` and `partial_fit` do once the rows are read and the settings are right."""

    leverage: bool | str | None
    scaling: bool

    _trust_: Weights | None  # (n, targets) of the default linear fit
    _slope_: Weights  # (n, targets) of psi(r) = trust r; NaN without least squares
    _flat_: bool  # whether y came as a vector
    _reservoir_: Reservoir

    @property
    def _term(self) -> str | Regularizer | None:
        """The regulariser; a number for alpha alone means a ridge."""
        return "ridge" if self.regularizer == "auto" and self.alpha != "auto" else self.regularizer

    def _learn(
        self,
        x: Array,
        y: Array,
        weights: Weights | None,
        *,
        share: float,
        checkpoint: Checkpoint = None,
    ) -> None:
        """Scale, find out which rows to trust, solve, and score the rows."""
        seed = self._seed()
        self._flat_ = y.ndim == 1
        columns = y.reshape(len(y), -1)
        features, targets = self._scalings(x, columns, weights)
        scaled = (features.apply(x), targets.apply(columns))
        run = Run((x, columns), scaled, (features, targets), weights, seed, checkpoint)
        self.row_weights_ = np.ones(len(x))
        self.chosen_ = "linear" if self._linear else "net"
        self._judged_ = self._trust_ = self._unseen_ = self._left_out_ = None
        self._copies_ = 1
        if self.quantile is not None:
            self.result_ = self._learn_quantiles(run, share)
        elif self._linear:
            self.result_ = self._learn_line(run, share)
        elif self._reweighted:
            self.result_ = self._learn_net(run, share)
        else:
            self.result_ = self._solve(run, self.row_weights_, share)
        self._score_training(x, columns, weights)
        del self._judged_, self._unseen_, self._left_out_

    def _learn_quantiles(self, run: Run, share: float) -> Result:
        """Quantiles of each target, one output each: target by target, level by level."""
        levels, several = quantile_levels(self.quantile)
        self._copies_ = len(levels)
        targets = run.rows[1].shape[1]
        self._flat_ = self._flat_ and not several
        center, scale = (np.repeat(part, len(levels)) for part in vars(run.scalings[1]).values())
        wide = run.scalings[0], RobustScaling(center, scale)
        if not self._linear:
            outputs = np.repeat(run.data[1], len(levels), axis=1)
            run = replace(run, data=(run.data[0], outputs), scalings=wide)
            return self._solve(run, self.row_weights_, share)
        results = self._linear_quantiles(run, levels)
        self._features_, self._targets_ = wide
        coef = np.stack([as_array(result.coef).T for result in results], axis=1)
        offset = np.stack([as_array(result.intercept) for result in results], axis=1)
        width = coef.shape[-1]
        self._keep_linear(coef.reshape(-1, width), offset.reshape(-1), float(self._weight()))
        if several and targets > 1:
            self.coef_ = self.coef_.reshape(targets, len(levels), width)
            self.intercept_ = np.reshape(self.intercept_, (targets, len(levels)))
        return min(zip(levels, results, strict=True), key=lambda pair: abs(pair[0] - 0.5))[1]

    def _linear_quantiles(self, run: Run, levels: list[float]) -> list[LinearResult]:
        """The linear quantiles of these levels, on scaled data."""
        term, weight = (None if self._term == "auto" else self._term), self._weight()
        if isinstance(weight, str):
            raise CombinationError('alpha="auto" is not for quantiles; give a number.')
        return solve_quantiles(
            as_tensor(run.data[0], dtype=torch.float64),
            as_tensor(run.data[1], dtype=torch.float64),
            levels,
            regularizer=linear_regularizer(term, float(weight)),
            constraint=self.constraint,
            fit_intercept=self.fit_intercept,
            sample_weight=None if run.weights is None else torch.from_numpy(run.weights),
            max_iter=self.max_iter,
            max_seconds=self.max_seconds,
            tol=self.tol or 1e-8,
        )

    def _learn_line(self, run: Run, share: float) -> Result:
        """The majority's linear fit, or with settings of one's own the fit to its trusted rows."""
        if not self._reweighted:
            return self._solve(run, self.row_weights_, share)
        line = self._robust_line(run)
        self.row_weights_ = line.trust.mean(axis=1)
        plain = self.p == "auto" and self._term == "auto" and self.constraint is None
        if plain and self.method == "auto":
            return self._take(line, run.scalings)
        if line.strength > 0 and self._term == "auto" and self.method == "auto":
            run.regularizer = "ridge"
        run = self._trusted(run, line)
        result = self._solve(run, self.row_weights_, share)
        if self._left_out_ is not None:  # rows are judged by what they said
            self._left_out_ = self._left_out_ + run.scalings[1].apply(run.rows[1]) - run.data[1]
        return replace(result, remarks=(*line.result.remarks, *result.remarks))

    def _trusted(self, run: Run, line: RobustLinear) -> Run:
        """The same in units of the rows that are trusted, with the line's word for other cells.

        A row that is wrong in one target counts for the others, whatever it says in that one.
        """
        x, y = run.rows
        most = line.trust.max(axis=1, keepdims=True)
        share = np.divide(line.trust, most, out=np.ones_like(line.trust), where=most > 0)
        fitted = x @ line.coef.T + line.intercept
        told = np.where(share == 1.0, y, fitted + share * (y - fitted))
        scalings = self._scalings(x, told, product(run.weights, self.row_weights_))
        data = scalings[0].apply(x), scalings[1].apply(told)
        return replace(run, data=data, scalings=scalings)

    def _robust_line(self, run: Run, rows: Mask | None = None) -> RobustLinear:
        """The majority's linear fit to these rows, in their own units."""
        kept = np.ones(len(run.rows[0]), dtype=bool) if rows is None else rows
        return fit_robust_linear(
            run.rows[0][kept], run.rows[1][kept],
            None if run.weights is None else run.weights[kept],
            intercept=self.fit_intercept,
            leverage=bool(self.leverage),
            seed=0 if self.random_state is None else run.seed,
            callbacks=check_callbacks(self.callbacks) if self._linear else (),
        )  # fmt: skip

    def _take(self, line: RobustLinear, scalings: tuple[RobustScaling, RobustScaling]) -> Result:
        """Keep this linear fit as the model."""
        self._features_, self._targets_ = scalings
        self._keep_line(line.coef, line.intercept, line.strength)
        self.row_weights_ = line.trust.mean(axis=1)
        self._judged_, self._trust_, self._slope_ = line.judged, line.trust, line.slope
        return line.result

    def _scalings(
        self, x: Array, y: Array, weights: Weights | None
    ) -> tuple[RobustScaling, RobustScaling]:
        """Those of the features and the targets; a net that goes on keeps those it knows."""
        if hasattr(self, "module_") and not self._linear:
            return self._features_, self._targets_
        bounded = self._linear and self.constraint is not None
        if not self.scaling or bounded:
            return RobustScaling.identity(x.shape[1]), RobustScaling.identity(y.shape[1])
        pair = RobustScaling.fit(x, weights), RobustScaling.fit(y, weights)
        if self.fit_intercept:
            return pair
        # Without an intercept nothing may be shifted.
        plain = [replace(scaling, center=np.zeros_like(scaling.center)) for scaling in pair]
        return plain[0], plain[1]

    def _solve(self, run: Run, trust: Weights, share: float) -> Result:
        """One problem, from the present coefficients or net if there are any."""
        weights = product(run.weights, trust)
        start = self._start(run.scalings)
        self._features_, self._targets_ = run.scalings
        if self._linear and self.method == "auto":
            term = self._term if run.regularizer is None else run.regularizer
            problem = LinearFit(
                p=self._exponent,
                regularizer=None if term == "auto" else term,
                alpha="auto" if run.regularizer is not None else self._weight(),
                constraint=self.constraint,
                fit_intercept=self.fit_intercept,
                tol=self.tol,
                max_iter=self.max_iter,
                max_seconds=self.max_seconds,
            )
            coef, offset, alpha, result = problem.solve(
                *run.data, weights, start=start, seed=run.seed
            )
            self._keep_linear(coef, offset, alpha)
            x, y = run.data
            if len(x) > 1 and few_for(row_counts(weights, len(x)), x.shape[1] + self.fit_intercept):
                self._left_out_ = problem.left_out(x, y, weights, strength=alpha, seed=run.seed)
            return result
        return self._train(run, weights, start, share)

    def _pinball(self) -> Pinball | None:
        """The loss of a net's outputs, where quantiles are asked for."""
        if self.quantile is None:
            return None
        levels, _ = quantile_levels(self.quantile)
        return Pinball(tuple(levels) * (len(self._targets_.scale) // len(levels)))

    def _weight(self) -> float | str:
        """alpha for the solver of linear models; of no meaning without a name to go with it."""
        named = isinstance(self._term, str) and self._term != "auto"
        return self.alpha if named else 0.0

    def _train(
        self,
        run: Run,
        weights: Weights | None,
        start: tuple[Array, Array] | None,
        share: float,
    ) -> Result:
        """By a method of minimize: a net, or a linear model where a method is asked for by name."""
        if not self._linear:
            return self._train_net(run, weights, share, Stage(self._exponent, self._net_alpha))
        (x, y), alpha = run.data, self._net_alpha
        line = _linear_module(x.shape[1], y.shape[1], self.fit_intercept, start)
        problem = regression_problem(
            line.to(self._torch_device()), x, y, weights,
            p=self._exponent, loss=self._pinball(), constraint=self.constraint,
            regularizer=None if self._term == "auto"
            else named_regularizer(self._term, alpha, "weight"),
        )  # fmt: skip
        steps = max(1, int(share * default_steps(problem, fitting_batch_size(problem))))
        method = "probed" if self.method == "auto" else self.method
        result = self._minimize(
            problem, seed=run.seed, steps=steps, method=method, checkpoint=run.checkpoint
        )
        line = line.to("cpu").eval()
        bias = line.bias if self.fit_intercept else torch.zeros(y.shape[1])
        self._keep_linear(as_array(line.weight), as_array(bias), alpha)
        return result

    def _start(self, scalings: tuple[RobustScaling, RobustScaling]) -> tuple[Array, Array] | None:
        if not self._linear or not hasattr(self, "coef_"):
            return None
        coef = self.coef_.reshape(-1, self.n_features_in_)
        return scalings[0].unfold(coef, np.reshape(self.intercept_, -1), scalings[1])

    def _keep_linear(self, coef: Array, offset: Array, alpha: float) -> None:
        self._keep_line(*self._features_.fold(coef, offset, self._targets_), alpha)

    def _keep_line(self, weight: Array, bias: Array, alpha: float) -> None:
        """Coefficients (targets, features) and intercepts (targets,) on plain columns."""
        self.coef_ = weight[0] if self._flat_ else weight
        self.intercept_ = float(bias[0]) if self._flat_ else bias
        self.alpha_ = alpha


def _linear_module(
    n_in: int, n_out: int, bias: bool, start: tuple[Array, Array] | None
) -> nn.Linear:
    layer = linear_regressor(n_in, n_out, bias=bias).double()
    if start is not None:
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(start[0]))
            if bias:
                layer.bias.copy_(torch.from_numpy(start[1]))
    return layer
