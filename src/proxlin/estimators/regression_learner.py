"""The learning half of RobustRegressor: scale, weigh the rows, solve, score."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from proxlin.estimators.base import Checkpoint, RobustBase, named_regularizer
from proxlin.estimators.leverage import LeverageWeights
from proxlin.estimators.linear_fit import LinearFit
from proxlin.estimators.net_fit import (
    ModuleFactory,
    build_module,
    default_steps,
    predict_rows,
    regression_problem,
)
from proxlin.estimators.reservoir import Reservoir
from proxlin.estimators.reweighting import ROUNDS, row_weights, settled
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array, as_array
from proxlin.methods.contract import Status
from proxlin.methods.probed.batch_size import fitting_batch_size
from proxlin.models import linear_regressor
from proxlin.problem.loss import RowLoss
from proxlin.run.checkpoint import as_checkpoints
from proxlin.run.result import Result

if TYPE_CHECKING:
    from typing_extensions import Self

Weights = NDArray[np.float64]

_NET_ALPHA = 1e-3  # ridge of a net by default: without it a net learns the outliers by heart
_NET_SHARE = 0.4  # of the steps, once the net itself has judged the rows
_NET_WEIGHTS = "*weight"  # the parameters that a named regulariser charges for


class RegressionLearner(RobustBase):
    """What `fit` and `partial_fit` do once the rows are read and the settings are right."""

    hidden: Sequence[int]
    module: ModuleFactory | None
    leverage: str | None
    reweight: bool
    scaling: bool
    fit_intercept: bool
    validation_fraction: float

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64] | float
    module_: nn.Module
    alpha_: float
    row_weights_: Weights
    _flat_: bool  # whether y came as a vector
    _features_: RobustScaling
    _targets_: RobustScaling
    _reservoir_: Reservoir
    _base_: Weights  # what the features alone leave of each row's weight

    @property
    def _linear(self) -> bool:
        return self.module is None and not tuple(self.hidden)

    def _learn(
        self,
        x: Array,
        y: Array,
        weights: Weights | None,
        *,
        share: float,
        checkpoint: Checkpoint = None,
    ) -> None:
        """Scale, weigh the rows, solve, and weigh them again by how well they fit."""
        seed = self._seed()
        self._flat_ = y.ndim == 1
        columns = y.reshape(len(y), -1)
        features, targets = self._scalings(x, columns, weights)
        scaled = (features.apply(x), targets.apply(columns))
        run = _Run((x, columns), scaled, (features, targets), weights, seed, checkpoint)
        if self.leverage or self.reweight:
            result = self._learn_rows(run, share)
        else:
            self.row_weights_ = np.ones(len(x))
            result = self._solve(run, self.row_weights_, share)
        self.result_ = result
        self._score_training(x, columns)

    def _learn_rows(self, run: _Run, share: float) -> Result:
        """Solve, weigh the rows by their residuals, and again, until the weights settle."""
        if self._linear:
            base, trust = self._judge_features(run, share)
            rounds, later = ROUNDS, share
        else:
            # A net could learn bad rows by heart before it is asked; a line cannot.
            line = self._line()
            line._learn_rows(replace(run, alpha=None), share)
            base, trust = line._base_, line.row_weights_
            first = self._solve(run, trust, share, rough=True)
            if first.status is Status.INTERRUPTED:  # a net on weights of half a net is no use
                self._base_, self.row_weights_ = base, trust
                return first
            rounds, later = 1, share * _NET_SHARE
        for _ in range(rounds):
            before, trust = trust, base * self._judge(run, base > 0)
            if settled(before, trust):
                break
            if self._linear:
                self._solve(run, trust, later, rough=True)
        self._base_, self.row_weights_ = base, trust
        return self._solve(run, trust, later)

    def _judge_features(self, run: _Run, share: float) -> tuple[Weights, Weights]:
        """Fit the bulk of the features, then the weights of the rows that are far from it."""
        whole = np.ones(len(run.rows[0]))
        if not self.leverage:
            self._solve(run, whole, share, rough=True)
            return whole, whole
        near = LeverageWeights.fit(run.data[0], run.weights, run.seed).weights(run.data[0])
        self._solve(run, near, share, rough=True)
        base = np.where(near > 0, 1.0, self._judge(run, near > 0))
        return base, near

    def _judge(self, run: _Run, among: NDArray[np.bool_]) -> Weights:
        return row_weights(self._norms(*run.rows), among, size=_typical(run.data[1]))

    def _line(self) -> Self:
        """A linear twin that tells good rows from bad before a net sees them."""
        twin = self._attempt()
        twin.hidden, twin.module, twin.constraint, twin.method = (), None, None, "auto"
        twin.regularizer, twin.alpha = "ridge", "auto"
        twin.max_seconds = twin.max_iter = twin.tol = None
        twin.n_features_in_, twin._flat_ = self.n_features_in_, self._flat_
        return twin

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
        plain = [replace(one, center=np.zeros_like(one.center)) for one in pair]
        return plain[0], plain[1]

    def _solve(self, run: _Run, trust: Weights, share: float, *, rough: bool = False) -> Result:
        """One problem, from the present coefficients or net if there are any."""
        scalings, data, seed = run.scalings, run.data, run.seed
        weights = _product(run.weights, trust)
        start = self._start(scalings)
        self._features_, self._targets_ = scalings
        if self._linear and self.method == "auto":
            problem = LinearFit(
                p=self.p,
                regularizer=None if self.regularizer == "auto" else self.regularizer,
                alpha=self.alpha if run.alpha is None else run.alpha,
                constraint=self.constraint,
                fit_intercept=self.fit_intercept,
                tol=self.tol,
                max_iter=self.max_iter,
                max_seconds=self.max_seconds,
            )
            problem = problem.roughly() if rough else problem
            coef, offset, alpha, result = problem.solve(*data, weights, start=start, seed=seed)
            run.alpha = alpha
            self._keep_linear(coef, offset, alpha)
            return result
        return self._train(run, weights, start, share)

    def _train(
        self,
        run: _Run,
        weights: Weights | None,
        start: tuple[Array, Array] | None,
        share: float,
    ) -> Result:
        (x, y), seed = run.data, run.seed
        alpha = float(self.alpha) if self.regularizer != "auto" else _NET_ALPHA
        if self._linear:
            line = _linear_module(x.shape[1], y.shape[1], self.fit_intercept, start)
            net: nn.Module = line
            g = None if self.regularizer == "auto" else self._bound_regularizer("weight")
        else:
            known = getattr(self, "module_", None)
            net = copy.deepcopy(known) if known is not None else build_module(
                self.module, self.hidden, x.shape[1], y.shape[1], seed
            )  # fmt: skip
            name = "ridge" if self.regularizer == "auto" else self.regularizer
            g = named_regularizer(name, alpha, _NET_WEIGHTS)
        problem = regression_problem(
            net.to(self._torch_device()), x, y, weights,
            p=self.p, regularizer=g, constraint=self.constraint,
        )  # fmt: skip
        method = "probed" if self.method == "auto" else self.method
        steps = max(1, int(share * default_steps(problem, fitting_batch_size(problem))))
        result = self._minimize(
            problem, seed=seed, steps=steps, method=method,
            held_share=0.0 if self._linear else self.validation_fraction,
            checkpoint=run.next_checkpoint(),
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
        return scalings[0].unfold(coef, np.atleast_1d(self.intercept_), scalings[1])

    def _keep_linear(self, coef: Array, offset: Array, alpha: float) -> None:
        weight, bias = self._features_.fold(coef, offset, self._targets_)
        self.coef_ = weight[0] if self._flat_ else weight
        self.intercept_ = float(bias[0]) if self._flat_ else bias
        self.alpha_ = alpha

    def _predict(self, table: Array) -> NDArray[np.float64]:
        if self._linear:
            coef = self.coef_.reshape(-1, self.n_features_in_)
            found: NDArray[np.float64] = table @ coef.T + np.atleast_1d(self.intercept_)
            return found
        scaled = predict_rows(self.module_, self._features_.apply(table), self._torch_device())
        return self._targets_.invert(scaled)

    def _norms(self, x: Array, y: Array) -> NDArray[np.float64]:
        """||f(x_i) - y_i||_p in the scaled targets, in which the loss is meant."""
        residual = (self._predict(x) - y) / self._targets_.scale
        loss = RowLoss(2.0 if self.p == "mse" else self.p)
        return loss(torch.from_numpy(np.ascontiguousarray(residual, dtype=np.float64))).numpy()

    def _score_training(self, x: Array, y: Array) -> None:
        size = _typical(self._targets_.apply(y))
        self._record(self.result_, self._norms(x, y), size=size)


@dataclass
class _Run:
    """What stays the same while the rows are weighed again and again."""

    rows: tuple[Array, Array]  # features and targets as they came
    data: tuple[Array, Array]  # scaled features and targets
    scalings: tuple[RobustScaling, RobustScaling]
    weights: Weights | None  # the user's
    seed: int
    checkpoint: Checkpoint = None
    alpha: float | None = None  # once it is chosen
    nets: int = 0  # trained so far

    def next_checkpoint(self) -> Checkpoint:
        """A folder of its own for each net of the fit."""
        self.nets += 1
        if self.checkpoint is None:
            return None
        settings = as_checkpoints(self.checkpoint)
        return replace(settings, folder=settings.path / f"net-{self.nets}")


def _typical(scaled: Array) -> float:
    """The median distance of the targets from their middle, below which nothing is worth noting."""
    size = float(np.median(np.abs(scaled - np.median(scaled, axis=0)).sum(axis=1)))
    return size or 1.0


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
