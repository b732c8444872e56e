"""How RobustRegressor learns: scale, weigh the rows, solve."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from proxlin.errors import CombinationError
from proxlin.estimators.base import Checkpoint, named_regularizer
from proxlin.estimators.regression.linear_fit import LinearFit, linear_regularizer
from proxlin.estimators.regression.net_fit import build_module, default_steps, regression_problem
from proxlin.estimators.regression.regression_model import RegressionModel, Weights
from proxlin.estimators.regression.reservoir import Reservoir
from proxlin.estimators.regression.robust_linear import RobustLinear, fit_robust_linear
from proxlin.estimators.robust_scale import EFFICIENT, bisquare_weight
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array, as_array, as_tensor
from proxlin.exact.linear import LinearResult, quantile_levels, solve_quantiles
from proxlin.methods.contract import Status
from proxlin.methods.probed.batch_size import fitting_batch_size
from proxlin.models import linear_regressor
from proxlin.problem.loss import Pinball
from proxlin.run.held_out import far_weight, lower_for_most
from proxlin.run.loop import check_callbacks
from proxlin.run.result import Result
from proxlin.terms import Regularizer

_NET_ALPHA = 1e-3  # ridge of a net by default: without it a net learns the outliers by heart
_ENDED = (Status.INTERRUPTED, Status.STOPPED)  # by the user
_SURE = 1.5  # standard errors by which a net must be better than the line
_LEAST_TO_SPLIT, _LEAST_HELD = 20, 25  # rows below which none is held out; rows held out at least
_MOSTLY = 0.4  # of the rows at the median of a target, which is then mostly one value
_NET_WEIGHTS = "*weight"  # the parameters that a named regulariser charges for


class RegressionLearner(RegressionModel):
    """What `fit` and `partial_fit` do once the rows are read and the settings are right."""

    leverage: bool | str | None
    scaling: bool
    validation_fraction: float

    alpha_: float
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
        run = _Run((x, columns), scaled, (features, targets), weights, seed, checkpoint)
        self.row_weights_ = np.ones(len(x))
        self.chosen_ = "linear" if self._linear else "net"
        self._judged_ = self._trust_ = self._held_ = None
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
        del self._judged_, self._held_

    def _learn_quantiles(self, run: _Run, share: float) -> Result:
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

    def _linear_quantiles(self, run: _Run, levels: list[float]) -> list[LinearResult]:
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

    def _learn_line(self, run: _Run, share: float) -> Result:
        """The majority's linear fit, or with settings of one's own the fit to its trusted rows."""
        if not self._reweighted:
            return self._solve(run, self.row_weights_, share)
        line = self._robust_line(run)
        self.row_weights_ = line.trust.mean(axis=1)
        plain = self.p == "auto" and self._term == "auto" and self.constraint is None
        if plain and self.method == "auto":
            return self._take(run, line)
        if line.strength > 0 and self._term == "auto" and self.method == "auto":
            run.regularizer = "ridge"
        result = self._solve(run, self.row_weights_, share)
        return replace(result, remarks=(*line.result.remarks, *result.remarks))

    def _robust_line(self, run: _Run, rows: NDArray[np.bool_] | None = None) -> RobustLinear:
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

    def _take(self, run: _Run, line: RobustLinear) -> Result:
        """Keep this linear fit as the model."""
        self._features_, self._targets_ = run.scalings
        self.coef_ = line.coef[0] if self._flat_ else line.coef
        self.intercept_ = float(line.intercept[0]) if self._flat_ else line.intercept
        self.alpha_ = line.strength
        self.row_weights_ = line.trust.mean(axis=1)
        self._judged_, self._trust_, self._slope_ = line.judged, line.trust, line.slope
        return line.result

    def _learn_net(self, run: _Run, share: float) -> Result:
        """A net on the rows that a line trusts; those that the net does not fit lose their weight.

        Net and line are judged by rows that neither has seen; of few rows none can be spared, and
        the line is kept.
        """
        held = self._held_rows(run)
        line = self._robust_line(run, None if held is None else ~held)
        off = run.rows[1] - (run.rows[0] @ line.coef.T + line.intercept)
        trust = bisquare_weight((np.abs(off) / line.judged.scale).max(axis=1) / (2 * EFFICIENT))
        run.held = self._held_ = held
        if (_at_median(run.rows[1]) > _MOSTLY).any():  # nobody can tell what is far from that
            run.reweight, trust = False, np.ones(len(off))
        self._scale_again(run, trust)
        result = self._solve(run, trust, share)
        result = replace(result, remarks=(*line.result.remarks, *result.remarks))
        norms = torch.from_numpy(self._norms(*run.rows))
        if held is not None and run.reweight:
            trust = trust * far_weight(norms, norms[held]).numpy()
        self.row_weights_ = trust
        free = self.module is not None or self.validation_fraction == 0
        if free or result.status in _ENDED:
            return result
        if held is None:
            remark = (
                f"Fewer than {_LEAST_TO_SPLIT} rows cannot judge a net; the linear model is kept."
            )
        else:
            by_net, by_line = norms[held], torch.from_numpy(self.misfits(off[held]))
            if lower_for_most(by_net, by_line, p=1.0, errors=_SURE):
                return result
            remark = "A linear model predicts most held-out rows better than the net and is kept."
        self.chosen_ = "linear"
        chosen = self._take(run, line if held is None else self._robust_line(run))
        return replace(result, objective=chosen.objective, remarks=(*result.remarks, remark))

    def _scale_again(self, run: _Run, trust: Weights) -> None:
        """Take centre and scale from the trusted rows: a cluster of wrong ones moves quartiles."""
        scalings = self._scalings(*run.rows, _product(run.weights, trust))
        run.scalings = scalings
        run.data = scalings[0].apply(run.rows[0]), scalings[1].apply(run.rows[1])

    def _held_rows(self, run: _Run) -> NDArray[np.bool_] | None:
        """Rows that no training sees: a share, and some dozens at least; None of few."""
        n = len(run.rows[0])
        if self.validation_fraction == 0 or n < _LEAST_TO_SPLIT:
            return None
        count = min(n // 4, max(round(self.validation_fraction * n), _LEAST_HELD))
        held = np.zeros(n, dtype=bool)
        held[np.random.default_rng(run.seed).permutation(n)[:count]] = True
        return held

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

    def _solve(self, run: _Run, trust: Weights, share: float) -> Result:
        """One problem, from the present coefficients or net if there are any."""
        weights = _product(run.weights, trust)
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
        run: _Run,
        weights: Weights | None,
        start: tuple[Array, Array] | None,
        share: float,
    ) -> Result:
        (x, y), seed = run.data, run.seed
        alpha = _NET_ALPHA if self.alpha == "auto" else float(self.alpha)
        if self._linear:
            line = _linear_module(x.shape[1], y.shape[1], self.fit_intercept, start)
            net: nn.Module = line
            g = None if self._term == "auto" else named_regularizer(self._term, alpha, "weight")
        else:
            trained = getattr(self, "module_", None)
            net = copy.deepcopy(trained) if trained is not None else build_module(
                self.module, self.hidden, x.shape[1], y.shape[1], seed
            )  # fmt: skip
            g = named_regularizer(
                "ridge" if self._term == "auto" else self._term, alpha, _NET_WEIGHTS
            )
        problem = regression_problem(
            net.to(self._torch_device()), x, y, weights,
            p=self._exponent, loss=self._pinball(), regularizer=g, constraint=self.constraint,
        )  # fmt: skip
        method = "probed" if self.method == "auto" else self.method
        steps = max(1, int(share * default_steps(problem, fitting_batch_size(problem))))
        held = run.held if run.held is None or weights is None else run.held[weights > 0]
        result = self._minimize(
            problem, seed=seed, steps=steps, method=method,
            held_share=0.0 if self._linear or held is not None else self.validation_fraction,
            held_rows=held, reweight=self._reweighted and run.reweight, checkpoint=run.checkpoint,
        )  # fmt: skip
        net = net.to("cpu").eval()
        if self._linear:
            bias = line.bias if self.fit_intercept else torch.zeros(y.shape[1])
            self._keep_linear(as_array(line.weight), as_array(bias), alpha)
        else:
            self.module_, self.alpha_ = net, alpha
        return result

    def _start(self, scalings: tuple[RobustScaling, RobustScaling]) -> tuple[Array, Array] | None:
        if not self._linear or not hasattr(self, "coef_"):
            return None
        coef = self.coef_.reshape(-1, self.n_features_in_)
        return scalings[0].unfold(coef, np.reshape(self.intercept_, -1), scalings[1])

    def _keep_linear(self, coef: Array, offset: Array, alpha: float) -> None:
        weight, bias = self._features_.fold(coef, offset, self._targets_)
        self.coef_ = weight[0] if self._flat_ else weight
        self.intercept_ = float(bias[0]) if self._flat_ else bias
        self.alpha_ = alpha


@dataclass
class _Run:
    """What stays the same while the rows are weighed again and again."""

    rows: tuple[Array, Array]  # features and targets as they came
    data: tuple[Array, Array]  # scaled features and targets
    scalings: tuple[RobustScaling, RobustScaling]
    weights: Weights | None  # the user's
    seed: int
    checkpoint: Checkpoint = None
    held: NDArray[np.bool_] | None = None  # rows that no net is trained on
    reweight: bool = True  # whether rows far off may lose their weight
    regularizer: str | None = None  # where the rows ask for one


def _at_median(y: Array) -> Weights:
    """The share of the rows that lie at the median of each target."""
    share: Weights = (y == np.median(y, axis=0)).mean(axis=0)
    return share


def _product(weights: Weights | None, distrust: Weights) -> Weights | None:
    """Both weights together; None if all are one, which is solved faster."""
    product = distrust if weights is None else weights * distrust
    if weights is not None and not product.any():
        return weights  # every row that counts is far out: there is no bulk to trust more
    return None if bool((product == 1.0).all()) else product


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
