"""Errors on the test rows, beside those of baselines that know nothing of outliers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import HuberRegressor, Ridge

from proxlin.app.tabular.fitting import Fitted
from proxlin.app.tabular.model import bounded
from proxlin.app.tabular.reading.columns import NumberColumn
from proxlin.estimators import RobustAutoencoder
from proxlin.estimators.robust_scale import residual_scale
from proxlin.estimators.tables import Matrix, Vector

MODEL, MIDDLE, SQUARES = "proxlin", "always the median", "least squares"
COMPONENTS = "principal components"
BOOSTING, HUBER = "boosting, absolute error", "Huber"

_MOST_ROWS, _MOST_COLUMNS = 20_000, 400  # of what people would take instead


@dataclass(frozen=True)
class ColumnError:
    """How far one predictor is off in one column of the test rows."""

    column: str
    predictor: str
    median_absolute_error: float
    mean_absolute_error: float
    r2: float | None  # share of the variance explained; None where the column does not vary


def measure(fitted: Fitted) -> list[ColumnError]:
    """The errors of the model and of its baselines, column by column.

    For an autoencoder they are those of the table's numbers after a way through the code.
    """
    if isinstance(fitted.tested.estimator, RobustAutoencoder):
        return _measure_rebuilt(fitted, fitted.tested.estimator)
    encoding, train, test = fitted.tested.encoding, fitted.train, fitted.test
    answers = {
        MODEL: fitted.test_answers,
        MIDDLE: np.broadcast_to(np.median(train.targets, axis=0), test.targets.shape),
        SQUARES: _least_squares(train.encoded, train.targets, test.encoded),
    }
    if test is not train:
        answers |= _usual(train.encoded, train.targets, test.encoded)
    return [
        _error(column.name, name, answer[:, number], test.targets[:, number])
        for number, column in enumerate(encoding.targets)
        for name, answer in answers.items()
    ]


def _measure_rebuilt(fitted: Fitted, estimator: RobustAutoencoder) -> list[ColumnError]:
    train, test = fitted.train.encoded, fitted.test.encoded
    width = min(estimator.n_components_, *train.shape)
    components = PCA(width, random_state=fitted.settings.seed).fit(train)
    answers = {
        MODEL: estimator.reconstruct(bounded(test)),
        MIDDLE: np.broadcast_to(np.median(train, axis=0), test.shape),
        COMPONENTS: components.inverse_transform(components.transform(test)),
    }
    errors, first = [], 0
    for column in fitted.model.encoding.features:
        if isinstance(column, NumberColumn):
            truth = column.plain(test[:, first])
            errors += [
                _error(column.name, name, column.plain(answer[:, first]), truth)
                for name, answer in answers.items()
            ]
        first += len(column.labels)
    return errors


def _usual(x: Matrix, y: Matrix, new: Matrix) -> dict[str, Matrix]:
    """What people would take instead, by its defaults, on at most so many rows and columns."""
    rows = slice(None, None, -(-len(x) // _MOST_ROWS))
    middle, spread = _own_scale(y)
    x, z = x[rows, :_MOST_COLUMNS], ((y - middle) / spread)[rows]
    new = new[:, :_MOST_COLUMNS]
    boosting = HistGradientBoostingRegressor(loss="absolute_error", random_state=0)
    huber = HuberRegressor(max_iter=300)
    answers = {}
    for name, line in ((BOOSTING, boosting), (HUBER, huber)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that did not converge is a yardstick as well
            try:
                columns = [clone(line).fit(x, column).predict(new) for column in z.T]
            except ValueError:  # no optimum was found
                continue
        answers[name] = np.column_stack(columns) * spread + middle
    return answers


def _least_squares(x: Matrix, y: Matrix, new: Matrix) -> Matrix:
    """Ridge regression of weight 1, which is least squares for all but tiny tables."""
    middle, spread = _own_scale(y)
    line = Ridge(alpha=1.0).fit(x, (y - middle) / spread)
    answer: Matrix = line.predict(new)
    return answer.reshape(len(new), -1) * spread + middle


def _own_scale(y: Matrix) -> tuple[Vector, Vector]:
    """Median and robust deviation of each target, never on a log scale."""
    middle = np.median(y, axis=0)
    return middle, np.array([residual_scale(column) for column in (y - middle).T])


def _error(column: str, predictor: str, answer: Vector, truth: Vector) -> ColumnError:
    away = np.abs(answer - truth)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(((truth - truth.mean()) ** 2).sum())
        r2 = 1 - float((away**2).sum()) / spread if spread > 0 else None
    usable = r2 is not None and np.isfinite(r2)
    return ColumnError(
        column, predictor, float(np.median(away)), float(away.mean()), r2 if usable else None
    )
