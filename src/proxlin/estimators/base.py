"""RobustBase: what all estimators share, from reading their settings to replacing their state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from proxlin._checks import check_count, check_positive, shown
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.estimators.estimator_settings import check_device, drawn_seed
from proxlin.estimators.plot import plot_scores
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.tables import Array
from proxlin.methods import Method
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent, RowLoss
from proxlin.run.callbacks import ProgressLine
from proxlin.run.checkpoint import Checkpoints, as_checkpoints
from proxlin.run.loop import check_callbacks
from proxlin.run.minimize import minimize
from proxlin.run.result import Callback, Result
from proxlin.terms import Constraint, Regularizer

if TYPE_CHECKING:
    from typing import Self

_LEAST_TO_SPLIT = 100  # rows below which none is held out: too few would be left to judge by

Checkpoint = str | os.PathLike[str] | Checkpoints | None

_SEVERAL = ("hidden", "quantile", "image_shape")  # settings that may be several numbers


class RobustBase(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Shared settings and the fitted state that every estimator leaves.

    A subclass stores its parameters in `__init__` as they are given, checks them in `fit`, and
    learns on an attempt that only replaces the present state once it has succeeded:

        attempt = self._attempt()
        attempt._learn(X, y)
        return self._adopt(attempt)

    Everything learned has a name that ends with an underscore.
    """

    p: Exponent
    regularizer: str | Regularizer | None
    alpha: float | str  # a number, or what a subclass makes of a word
    constraint: Constraint | None
    method: str | Method
    max_seconds: float | None
    max_iter: int | None
    tol: float | None
    callbacks: Sequence[Callback] = ()  # for subclasses that train nets
    verbose: bool | int = False
    random_state: Any
    device: str | torch.device | None

    result_: Result
    history_: pd.DataFrame
    n_iter_: int
    n_features_in_: int
    outlier_scale_: OutlierScale
    outlier_scores_: NDArray[np.float64]
    outliers_: NDArray[np.bool_]

    @property
    def _exponent(self) -> Exponent:
        """p as a loss takes it."""
        return self.p

    @property
    def _without_budget(self) -> bool:
        return self.max_seconds is None and self.max_iter is None

    def _attempt(self, *, keep: bool = False) -> Self:
        """A twin with the same settings, without what was learned unless `keep`."""
        twin = object.__new__(type(self))
        kept = {n: v for n, v in self.__dict__.items() if keep or not n.endswith("_")}
        twin.__dict__.update(kept)
        return twin

    def _adopt(self, attempt: Self) -> Self:
        """Take over what the attempt has learned, all of it at once."""
        self.__dict__ = attempt.__dict__
        if self.verbose:
            result, flagged = self.result_, int(self.outliers_.sum())
            ProgressLine(type(self).__name__).close(
                f"objective {result.objective:.6g} after {result.seconds:.1f} s, {flagged:,} of"
                f" {len(self.outliers_):,} rows flagged. {result.status}"
            )
        return self

    def _check_shared(self) -> None:
        """Refuse settings that no fit could use, before any data are read."""
        for name, value in self.get_params(deep=False).items():
            array = isinstance(value, np.ndarray | torch.Tensor | pd.Series | pd.DataFrame)
            if array and name not in _SEVERAL:
                raise InvalidInputError(f"{name} must not be an array; got {shown(value)}.")
        RowLoss(self._exponent)
        if self.max_seconds is not None:
            check_positive("max_seconds", self.max_seconds)
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter)
        if self.tol is not None:
            check_positive("tol", self.tol)
        check_device(self.device)
        verbose = int(self.verbose) if isinstance(self.verbose, bool | np.bool_) else self.verbose
        check_count("verbose", verbose, minimum=0)
        check_callbacks(self.callbacks)

    @contextmanager
    def _watched(self, doing: str) -> Iterator[tuple[Callback, ...]]:
        """The callback that shows one line on what is being done, where `verbose` asks for it."""
        if not self.verbose:
            yield ()
            return
        line = ProgressLine(f"{type(self).__name__}, {doing}")
        yield (line,)
        line.close("done.")

    def _check_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Refuse a folder that a later fit could not go on from."""
        if checkpoint is None:
            return
        as_checkpoints(checkpoint)
        if not isinstance(self.random_state, Integral):
            raise CombinationError(
                "checkpoint needs a whole number as random_state, or the next fit would not be the"
                f" same run; got random_state={self.random_state!r}."
            )

    def _seed(self) -> int:
        """A seed drawn from `random_state`: the same for the same number, a new one for None."""
        return drawn_seed(self.random_state)

    def _torch_device(self) -> torch.device:
        return check_device(self.device)

    def _minimize(
        self,
        problem: Problem,
        *,
        seed: int,
        steps: int,
        method: str | Method | None = None,
        checkpoint: Checkpoint = None,
        held_share: float = 0.0,
        held_rows: NDArray[np.bool_] | None = None,
        reweight: bool = True,
        stopping: Sequence[Callback] = (),
        portion: float = 1.0,
    ) -> Result:
        """Minimise within the user's budget; without one, within so many steps or until `stopping`.

        Steps and not seconds, so that the same seed gives the same numbers. A share of the rows, or
        given ones, may be held out of training, to choose the best point of the run; with
        `reweight` rows that are far off what those say lose their weight. `portion` is the share of
        the user's budget that is this run's.
        """
        free = self._without_budget
        held_out = None
        if held_rows is not None and held_rows.any():
            held_out = problem.rows.take(torch.from_numpy(np.flatnonzero(held_rows)))
            problem = problem.restricted(torch.from_numpy(np.flatnonzero(~held_rows)))
        elif held_share > 0 and problem.n_rows >= _LEAST_TO_SPLIT:
            order = torch.from_numpy(np.random.default_rng(seed).permutation(problem.n_rows))
            kept = problem.n_rows - round(held_share * problem.n_rows)
            held_out = problem.rows.take(order[kept:])
            problem = problem.restricted(order[:kept])
        rows = f"training a net on {problem.n_rows:,} rows"
        with self._watched(rows) as watching:
            return minimize(
                problem,
                self.method if method is None else method,
                max_seconds=None if self.max_seconds is None else portion * self.max_seconds,
                max_iter=steps if free else _part(self.max_iter, portion),
                tol=self.tol,
                seed=seed,
                callbacks=(*self.callbacks, *watching, *(stopping if free else ())),
                held_out=held_out,
                reweight=reweight,
                checkpoint=checkpoint,
            )

    def _record(
        self,
        result: Result,
        norms: Array,
        *,
        size: float = 1.0,
        tol: float | None = None,
        scale: OutlierScale | None = None,
    ) -> None:
        """Keep the run, and the scores of the training rows by the norms of their residuals."""
        self.result_ = result
        self.history_ = result.history.frame()
        self.n_iter_ = max(1, result.iterations)
        self.outlier_scale_ = (
            OutlierScale.fit(norms, size=size, tol=tol) if scale is None else scale
        )
        self.outlier_scores_ = self.outlier_scale_.scores(norms)
        self.outliers_ = self.outlier_scale_.flags(self.outlier_scores_)

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write what the fitted model computes, scaling included, as an ONNX file.

        Input `x` (n, features) float64 in the data's own units; output `y`: the predictions of a
        regressor, the reconstructions of an autoencoder. Needs `pip install 'proxlin[onnx]'`.
        """
        from proxlin.estimators.onnx import export_onnx  # noqa: PLC0415  few need it

        export_onnx(self, path)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the outlier score of each training row, the flagged ones marked; returns the axes.

        `ax` are matplotlib axes; by default new ones.
        """
        check_is_fitted(self)
        return plot_scores(self.outlier_scores_, self._score_cutoff, ax=ax)

    @property
    def _score_cutoff(self) -> float:
        """The outlier score beyond which a row is flagged."""
        return self.outlier_scale_.cutoff


def _part(count: int | None, portion: float) -> int | None:
    return None if count is None else max(1, int(portion * count))
