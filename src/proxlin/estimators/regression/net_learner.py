"""How the nets of RobustRegressor learn: absolute values first, then squares, or the line.

Absolute residuals find out which rows fit, and least squares on those, each with what it is worth,
is more efficient, as for the line. What a net of hundreds of weights makes of a few hundred rows
depends most on its ridge: rows held out choose it, and whether the line is the better model. Then
these rows are learned, too.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import norm
from scipy.stats import t as student
from torch import nn

from proxlin.estimators.base import Checkpoint
from proxlin.estimators.estimator_settings import named_regularizer
from proxlin.estimators.regression.judged_rows import row_counts
from proxlin.estimators.regression.near_rows import near_rows
from proxlin.estimators.regression.net_fit import (
    build_module,
    default_steps,
    regression_problem,
)
from proxlin.estimators.regression.regression_model import Mask, RegressionModel, Weights
from proxlin.estimators.regression.regression_run import Run, product
from proxlin.estimators.robust_scale import EFFICIENT, bisquare_weight, inner_scale
from proxlin.estimators.tables import Array, Vector
from proxlin.methods.contract import Status
from proxlin.methods.probed.batch_size import fitting_batch_size
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent
from proxlin.run.checkpoint import as_checkpoints
from proxlin.run.held_out import far_weight, lower_for_most
from proxlin.run.result import Result

ENDED = (Status.INTERRUPTED, Status.STOPPED)  # by the user
_ALPHA = 1e-3  # ridge of a net where nothing chooses it
_RIDGES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)  # of least squares,
_FIRST = 2  # the one that is tried first,
_TRIALS = 4  # and how many are
_BY_NORM, _BY_SQUARES, _IN_THE_END = 0.4, 0.11, 0.16  # shares of the steps
_SURE = 1.5  # standard errors, of many rows, by which a net must be better than the line
_LEAST_TO_SPLIT = 20  # rows below which none is held out
_FEWEST_JURORS = 4  # of those held out that lie in the bulk of the features
_LEAST_HELD = 25  # rows held out at least, of so many as there are,
_LEAST_LENT = 200  # and where they are learned in the end
_MOSTLY = 0.4  # of the rows at the median of a target, which is then mostly one value
_NET_WEIGHTS = "*weight"  # the parameters that a named regulariser charges for
_GAUSSIAN = 0.6745  # median of |r| in deviations


@dataclass(frozen=True)
class Stage:
    """One training of a net."""

    p: Exponent
    alpha: float
    portion: float = 1.0  # of the steps
    on_all_rows: bool = False
    name: str = ""  # of its folder within that of the checkpoints


@dataclass(frozen=True)
class _Judged:
    """A net and what rows say of it that it has not seen."""

    net: nn.Module
    alpha: float
    unseen: Array  # predictions of the rows held out
    norms: torch.Tensor  # of their residuals
    result: Result


class NetLearner(RegressionModel):
    """The part of `RegressionLearner` that trains nets."""

    leverage: bool | str | None
    validation_fraction: float
    alpha_: float

    def _learn_net(self, run: Run, share: float) -> Result:
        """A net on the rows that a line trusts; those that the net does not fit lose their weight.

        Net and line are judged by rows that neither has seen; of few rows none can be spared, and
        the line is kept.
        """
        held = self._held_rows(run)
        line = self._robust_line(run, None if held is None else ~held)
        off = run.rows[1] - (run.rows[0] @ line.coef.T + line.intercept)
        trust = _trust_by_line(np.abs(off), line.judged.scale, run.weights)
        run.held = held
        if (_at_median(run.rows[1]) > _MOSTLY).any():  # nobody can tell what is far from that
            run.reweight, trust = False, np.ones(len(off))
        near = self._near(run)
        self._scale_again(run, trust, near)
        if held is not None and self._finishes and run.reweight:
            judged, self.row_weights_ = self._efficient_net(run, trust, share)
        else:
            result = self._solve(run, trust, share)
            judged, self.row_weights_ = self._judge(run, result, trust)
        result = judged.result
        result = replace(result, remarks=(*line.result.remarks, *result.remarks))
        self._unseen_ = None if held is None else (held, judged.unseen)
        free = self.module is not None or self.validation_fraction == 0
        if free or result.status in ENDED:
            return result
        if held is None:
            remark = (
                f"Fewer than {_LEAST_TO_SPLIT} rows cannot judge a net; the linear model is kept."
            )
        else:
            by_line = torch.from_numpy(self.misfits(off[held]))
            usual = torch.from_numpy(near[held])  # a net fits a cluster far away, whatever it says
            sure = float(student.ppf(norm.cdf(_SURE), int(usual.sum()) - 1))
            if lower_for_most(judged.norms[usual], by_line[usual], p=1.0, errors=sure):
                return result
            remark = "A linear model predicts most held-out rows better than the net and is kept."
        self.chosen_ = "linear"
        chosen = self._take(line if held is None else self._robust_line(run), run.scalings)
        return replace(result, objective=chosen.objective, remarks=(*result.remarks, remark))

    @property
    def _finishes(self) -> bool:
        """Whether least squares follow: unless an exponent is asked for."""
        return self.p == "auto" and self._reweighted and self.quantile is None

    def _judge(self, run: Run, result: Result, trust: Weights) -> tuple[_Judged, Weights]:
        """The present net by the rows held out, and what all rows are worth by it."""
        fitted = self._predict(run.rows[0])
        norms = torch.from_numpy(self.misfits(fitted - run.rows[1]))
        held = np.zeros(len(norms), dtype=bool) if run.held is None else run.held
        if held.any() and run.reweight:
            trust = trust * far_weight(norms, norms[held]).numpy()
        return _Judged(self.module_, self.alpha_, fitted[held], norms[held], result), trust

    def _efficient_net(self, run: Run, trust: Weights, share: float) -> tuple[_Judged, Weights]:
        """Absolute values, then least squares by the ridge that suits the rows held out."""
        self._features_, self._targets_ = run.scalings
        stage = Stage(1.0, self._net_alpha, _BY_NORM)
        result = self._train_net(run, product(run.weights, trust), share, stage)
        first, row_weights = self._judge(run, result, trust)
        if result.status in ENDED:
            return first, row_weights
        best = self._by_squares(run, share, result)
        if not lower_for_most(best.norms, first.norms, p=1.0):
            self.module_, self.alpha_ = first.net, first.alpha
            return replace(first, result=best.result), row_weights
        self.module_, self.alpha_ = best.net, best.alpha
        cells = self._worth(run)
        stage = Stage("mse", best.alpha, _IN_THE_END, on_all_rows=True, name="all-rows")
        if best.result.status not in ENDED and self._whole(run, cells, stage):
            last = self._train_net(run, _times(run.weights, cells), share, stage)
            known, _ = self._judge(run, best.result.continued(last), trust)
            if lower_for_most(known.norms, best.norms, p=1.0):  # of rows that it has seen, too
                best = replace(best, result=known.result)
            else:
                self.module_ = best.net
        return best, cells.mean(axis=1)

    def _by_squares(self, run: Run, share: float, before: Result) -> _Judged:
        """The best net by least squares, from the present one: up the ridges, or down."""
        assert run.held is not None
        chosen = self.alpha == "auto" and self.regularizer == "auto"
        place, upwards, best = _FIRST, True, None
        for _ in range(_TRIALS if chosen else 1):
            cells = self._worth(run)
            cells = np.where(run.held[:, None], cells > 0, cells)
            alpha = _RIDGES[place] if chosen else self._net_alpha
            portion = _BY_SQUARES if chosen else 2 * _BY_SQUARES
            stage = Stage("mse", alpha, portion, name=f"squares-{place}")
            result = self._train_net(run, _times(run.weights, cells), share, stage)
            before = before.continued(result)
            judged, _ = self._judge(run, before, np.ones(len(cells)))
            if best is None or lower_for_most(judged.norms, best.norms, p=1.0):
                best = judged
            elif upwards and best.alpha == _RIDGES[_FIRST]:
                upwards, place = False, _FIRST
            else:
                break
            self.module_ = best.net
            place += 1 if upwards else -1
            if before.status in ENDED or not 0 <= place < len(_RIDGES):
                break
        assert best is not None
        return replace(best, result=before)

    def _worth(self, run: Run) -> Weights:
        """(n, targets) what each cell of the targets is worth by the present net.

        Bisquare weights, in deviations of the rows held out.
        """
        assert run.held is not None
        off = np.abs(self._predict(run.rows[0]) - run.rows[1])
        unseen = off[run.held]
        count = np.ones(len(unseen)) if run.weights is None else run.weights[run.held]
        middle = np.median(unseen, axis=0) / _GAUSSIAN
        scale = np.array([
            inner_scale(column, count, start=start, largest=start, lost=0.0)
            for column, start in zip(unseen.T, middle, strict=True)
        ])  # fmt: skip
        known = scale > 0  # a net that hits most rows exactly tells nothing of the others
        worth: Weights = np.where(
            known, bisquare_weight(off / np.where(known, scale, 1.0) / EFFICIENT), 1.0
        )
        return worth

    def _train_net(self, run: Run, weights: Weights | None, share: float, stage: Stage) -> Result:
        """One training, from the present net if there is one."""
        problem, net, held = self._net_problem(run, weights, stage)
        steps = default_steps(problem, fitting_batch_size(problem))
        result = self._minimize(
            problem, seed=run.seed, steps=max(1, int(share * stage.portion * steps)),
            method="probed" if self.method == "auto" else self.method,
            held_share=self.validation_fraction if run.held is None else 0.0,
            held_rows=held, reweight=self._reweighted and run.reweight,
            checkpoint=_folder_of(run.checkpoint, stage.name), portion=stage.portion,
        )  # fmt: skip
        self.module_, self.alpha_ = net.to("cpu").eval(), stage.alpha
        return result

    def _net_problem(
        self, run: Run, weights: Weights | None, stage: Stage
    ) -> tuple[Problem, nn.Module, Mask | None]:
        """The problem of one training, its net, and which of its rows are held out."""
        (x, y), trained = run.data, getattr(self, "module_", None)
        net = copy.deepcopy(trained) if trained is not None else build_module(
            self.module, self.hidden, x.shape[1], y.shape[1], run.seed
        )  # fmt: skip
        term = "ridge" if self._term == "auto" else self._term
        problem = regression_problem(
            net.to(self._torch_device()), x, y, weights, p=stage.p, loss=self._pinball(),
            regularizer=named_regularizer(term, stage.alpha, _NET_WEIGHTS),
            constraint=self.constraint,
        )  # fmt: skip
        held = None if stage.on_all_rows else run.held
        if held is not None and weights is not None:
            held = held[weights.reshape(len(weights), -1).any(axis=1)]
        return problem, net, held

    def _whole(self, run: Run, weights: Weights, stage: Stage) -> bool:
        """Whether all rows make one batch: few enough for those held out to be missed."""
        problem, _, _ = self._net_problem(run, weights, stage)
        return fitting_batch_size(problem) >= problem.n_rows

    @property
    def _net_alpha(self) -> float:
        return _ALPHA if self.alpha == "auto" else float(self.alpha)

    def _near(self, run: Run) -> Mask:
        """Rows in the bulk of the features; all of them if it is not to be looked for."""
        near = np.ones(len(run.rows[0]), dtype=bool)
        if self.leverage:
            columns = np.asarray(run.data[0], dtype=np.float64)
            near = near_rows(columns, row_counts(run.weights, len(columns)), run.seed)
        enough = run.held is None or near[run.held].sum() >= _FEWEST_JURORS
        return near if enough else np.ones_like(near)

    def _scale_again(self, run: Run, trust: Weights, near: Mask) -> None:
        """Take centre and scale from trusted rows nearby: a cluster of wrong ones moves quartiles.

        Unless hardly any row is both.
        """
        both = product(run.weights, trust * near)
        few = both is not None and (both > 0).mean() < 0.5 * (trust > 0).mean()
        scalings = self._scalings(*run.rows, product(run.weights, trust) if few else both)
        run.scalings = scalings
        run.data = scalings[0].apply(run.rows[0]), scalings[1].apply(run.rows[1])

    def _held_rows(self, run: Run) -> Mask | None:
        """Rows that no training sees: a share, and some dozens at least; None of few."""
        n = len(run.rows[0])
        if self.validation_fraction == 0 or n < _LEAST_TO_SPLIT:
            return None
        least = _LEAST_LENT if self._finishes else _LEAST_HELD
        count = min(n // 4, max(round(self.validation_fraction * n), least))
        held = np.zeros(n, dtype=bool)
        held[np.random.default_rng(run.seed).permutation(n)[:count]] = True
        return held


def _trust_by_line(off: Array, scale: Vector, weights: Weights | None) -> Weights:
    """Bisquare weights by these sizes of residuals, in deviations that half of the rows bear out.

    A line may follow a third of the rows closely, and few of those that a net would describe.
    """
    counting = off if weights is None else off[weights > 0]
    scale = np.maximum(scale, np.median(counting, axis=0) / _GAUSSIAN)
    return bisquare_weight((off / scale).max(axis=1) / (2 * EFFICIENT))


def _times(weights: Weights | None, cells: Weights) -> Weights:
    """The user's weights of rows times those of cells."""
    worth = cells if weights is None else cells * weights[:, None]
    return worth if worth.any() else np.ones_like(cells)


def _at_median(y: Array) -> Weights:
    """The share of the rows that lie at the median of each target."""
    share: Weights = (y == np.median(y, axis=0)).mean(axis=0)
    return share


def _folder_of(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """The folder of one training within that of the fit."""
    if checkpoint is None or not name:
        return checkpoint
    settings = as_checkpoints(checkpoint)
    return replace(settings, folder=Path(settings.folder) / name)
