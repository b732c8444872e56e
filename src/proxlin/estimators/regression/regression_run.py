"""What stays the same while RobustRegressor weighs the rows of one fit again and again."""

from __future__ import annotations

from dataclasses import dataclass

from proxlin.estimators.base import Checkpoint
from proxlin.estimators.regression.regression_model import Mask, Weights
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array


@dataclass
class Run:
    """The rows of one fit."""

    rows: tuple[Array, Array]  # features and targets as they came
    data: tuple[Array, Array]  # scaled features and targets
    scalings: tuple[RobustScaling, RobustScaling]
    weights: Weights | None  # the user's
    seed: int
    checkpoint: Checkpoint = None
    held: Mask | None = None  # rows that no net is trained on
    reweight: bool = True  # whether rows far off may lose their weight
    regularizer: str | None = None  # where the rows ask for one


def product(weights: Weights | None, distrust: Weights) -> Weights | None:
    """Both weights together; None if all are one, which is solved faster."""
    result = distrust if weights is None else weights * distrust
    if weights is not None and not result.any():
        return weights  # every row that counts is far out: there is no bulk to trust more
    return None if bool((result == 1.0).all()) else result
