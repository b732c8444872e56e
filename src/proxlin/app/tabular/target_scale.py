"""Whether a skewed target is better predicted on a log scale, as held-out rows say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from proxlin._checks import counted
from proxlin.app.tabular.reading.column_kinds import robust_scaling
from proxlin.app.tabular.reading.columns import NumberColumn
from proxlin.estimators.families.additive import AdditiveModel, Ramps
from proxlin.estimators.families.folds import ColumnRoles
from proxlin.estimators.families.held_out_error import HeldOutError
from proxlin.estimators.families.usual_values import coded_rows
from proxlin.estimators.tables import Matrix, Vector

_SKEWED = 1.2  # upper over lower half of the range between the outer tenths
_LEAST_POSITIVE = 0.9  # share of the values; the others may be wrong, and count as outliers
_LOG_MARGIN = 1.03  # a skewed target is on a log scale unless its own is better by more
_ROWS, _STRENGTH = 2000, 0.03  # of the models that are compared
_MOST_CURVED = 150  # columns with ramps,
_CURVED_ROWS = 40  # from so many rows on, as among the families


def choose_target_scales(
    targets: Sequence[NumberColumn], values: Matrix, x: Matrix, roles: ColumnRoles, seed: int
) -> tuple[tuple[NumberColumn, ...], list[str]]:
    """The targets, on a log scale where held-out rows are predicted better so, and sentences."""
    chosen, notes = [], []
    for target, cells in zip(targets, values.T, strict=True):
        chosen.append(target)
        known = ~coded_rows(cells)
        own = cells[known]
        if not _may_be_logarithmic(own):
            continue
        other = _log_target(target, own[own > 0])
        scaled = [target.scaled(own), other.scaled(own)]
        errors = _held_out_errors(x[known], scaled, [target.plain, other.plain], roles, seed)
        plain, log = (error / target.scale for error in errors)
        if log < _LOG_MARGIN * plain:
            chosen[-1] = other
            notes.append(
                f"{target.name!r} is skewed and was learned on a log scale: the held-out error is"
                f" {log:.3g} there, {plain:.3g} on its own scale, which must be"
                f" {1 - 1 / _LOG_MARGIN:.0%} lower to be preferred."
            )
            beyond = int((own <= 0).sum())
            if beyond:
                notes.append(
                    f"{target.name!r}: {counted(beyond, 'training row')} of 0 or less, without a"
                    " logarithm, taken for outliers."
                )
    return tuple(chosen), notes


def _may_be_logarithmic(values: Vector) -> bool:
    """Whether the values are positive, all but a few, and their upper half is much the wider."""
    positive = values[values > 0]
    if len(positive) < _LEAST_POSITIVE * len(values):
        return False
    low, middle, high = np.quantile(positive, (0.1, 0.5, 0.9))
    return bool(high - middle > _SKEWED * (middle - low) > 0)


def _log_target(target: NumberColumn, values: Vector) -> NumberColumn:
    """The target on a log scale, with the scaling of these values."""
    center, scale = robust_scaling(np.log(values))
    return replace(target, center=center, scale=scale, log=True)


def _held_out_errors(
    x: Matrix,
    targets: Sequence[Vector],
    units: Sequence[Callable[[Vector], Vector]],
    roles: ColumnRoles,
    seed: int,
) -> list[float]:
    """The held-out error of an additive model of one target on each scale; of few rows, a line."""
    order = np.random.default_rng(seed).permutation(len(x))[:_ROWS]
    parts = np.array_split(order, min(3, len(order)))
    curved = np.zeros(x.shape[1], dtype=bool)
    if len(x) >= _CURVED_ROWS:
        curved[roles.numbers[:_MOST_CURVED]] = True
    ramps = Ramps.fit(x[order], curved)
    residuals = []
    for z, plain in zip(targets, units, strict=True):
        away: dict[bool, list[Vector]] = {True: [], False: []}
        for part in parts:
            rest = np.setdiff1d(order, part)
            for mode in (True, False):
                model = next(
                    AdditiveModel.path(
                        x[rest], z[rest, None], ramps, (_STRENGTH,), redescending=mode
                    )
                )
                away[mode].append(plain(z[part]) - plain(model.predict(x[part])[:, 0]))
        residuals.append([np.concatenate(parts) for parts in away.values()])
    error = HeldOutError.over([part[:, None] for modes in residuals for part in modes])
    return [min(error.of(part[:, None]) for part in modes) for modes in residuals]
