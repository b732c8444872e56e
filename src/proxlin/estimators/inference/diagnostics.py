"""Drawings of what each row is to a fit: residuals, the four fields, weights, influence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from proxlin.estimators.leverage import LeverageWeights
from proxlin.estimators.robust_scale import INNER, inner_scale, m_scale
from proxlin.estimators.tables import Array

FIELDS = ("good", "far", "outlier", "bad far")

_COLORS = {"good": "#4c72b0", "far": "#55a868", "outlier": "#dd8452", "bad far": "#c44e52"}
_MARKS = {"good": "o", "far": "^", "outlier": "x", "bad far": "X"}
_MOST_POINTS = 2000  # of those that stand out, and as many of the others
_FEW_VALUES, _LOOKED_AT = 5, 1000  # of a column; rows in which they are counted
_MOST_COEFFICIENTS = 12


def diagnose(
    x: Array, fitted: Array, residual: Array, *, scale: float | None = None, cutoff: float = INNER
) -> pd.DataFrame:
    """A row each: fitted, residual, in deviations, distance of the features, and field.

    x are features on comparable scales; without a `scale` it is the deviation of the residuals
    within 2.75 of it.
    """
    if scale is None:
        most = float(m_scale(residual)) or 1.0
        scale = inner_scale(residual, np.ones(len(x)), start=most, largest=most, lost=0.0)
    # Flags and other few values have no bulk to be far from.
    varied = [len(np.unique(column[:_LOOKED_AT])) > _FEW_VALUES for column in x.T]
    wide = np.subtract(*np.quantile(x, (0.75, 0.25), axis=0)) > 0
    spread = np.flatnonzero(wide & varied)
    distance = np.zeros(len(x))
    if len(spread) and len(x) > 2:
        bulk = LeverageWeights.fit(x[:, spread], None, seed=0)
        # Where most rows are copies of one the limit is 0.
        limit = max(bulk.limit, float(np.finfo(np.float32).tiny))
        distance = bulk.distances(x[:, spread]) / limit
    scaled = np.asarray(residual, dtype=np.float64) / scale
    far, off = distance > 1.0, np.abs(scaled) > cutoff
    field = np.array(FIELDS, dtype=object)[far + 2 * off]
    columns = {"fitted": fitted, "residual": residual, "scaled": scaled, "distance": distance}
    return pd.DataFrame({**columns, "field": field})


def draw_diagnostics(rows: pd.DataFrame, cutoff: float) -> Any:
    """The figure of `RobustRegressor.diagnostics`."""
    from matplotlib.figure import Figure  # noqa: PLC0415  takes long to import

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    axes = figure.subplots(2, 2).flatten()
    drawings = panels(rows, cutoff)
    for ax, draw in zip(axes, drawings, strict=False):
        draw(ax)
    for ax in axes[len(drawings) :]:
        ax.set_axis_off()
    return figure


def panels(rows: pd.DataFrame, cutoff: float) -> list[Callable[[Any], None]]:
    """What draws residuals, the four fields, and where they are known weights and influence.

    Each takes matplotlib axes. Of many rows all that stand out are drawn, of the others a sample.
    """
    counts = rows["field"].value_counts()
    shown = rows
    if len(rows) > _MOST_POINTS:
        good = rows[rows["field"] == "good"]
        odd = rows[rows["field"] != "good"].head(_MOST_POINTS)
        shown = pd.concat([odd, good.sample(min(len(good), _MOST_POINTS), random_state=0)])
    influence = [name for name in map(str, rows) if name.startswith("influence of ")]
    drawings: list[Callable[[Any], None]] = [
        lambda axes: _residuals(axes, shown, cutoff),
        lambda axes: _fields(axes, shown, cutoff, counts),
    ]
    if "weight" in rows:
        drawings.append(lambda axes: _weights(axes, shown))
    if influence:
        drawings.append(lambda axes: _influence(axes, shown, influence))
    return drawings


def _scatter(axes: Any, rows: pd.DataFrame, x: str, y: str) -> None:
    for name in FIELDS:
        part = rows[rows["field"] == name]
        if len(part):
            axes.scatter(part[x], part[y], s=14, color=_COLORS[name], marker=_MARKS[name], lw=0.8)


def _residuals(axes: Any, rows: pd.DataFrame, cutoff: float) -> None:
    _scatter(axes, rows, "fitted", "scaled")
    _limits(axes, cutoff)
    axes.set(xlabel="fitted", ylabel="residual in deviations", title="Residuals")


def _fields(axes: Any, rows: pd.DataFrame, cutoff: float, counts: pd.Series[int]) -> None:
    _scatter(axes, rows, "distance", "scaled")
    present = [f"{name} ({counts[name]:,})" for name in FIELDS if name in counts]
    axes.legend(present, loc="upper left", fontsize="small")
    _limits(axes, cutoff)
    axes.axvline(1.0, color="0.5", lw=0.8, ls="--")
    axes.set_xscale("symlog", linthresh=2.0)
    axes.set(xlabel="distance of the features from their bulk, 1 at its border",
             ylabel="residual in deviations", title="The four fields")  # fmt: skip


def _weights(axes: Any, rows: pd.DataFrame) -> None:
    for name in FIELDS:
        part = rows[rows["field"] == name]
        if len(part):
            axes.scatter(part.index, part["weight"], s=10, color=_COLORS[name], marker=_MARKS[name],
                         lw=0.8)  # fmt: skip
    axes.set(xlabel="row", ylabel="weight", ylim=(-0.05, 1.05), title="What each row counted")


def _influence(axes: Any, rows: pd.DataFrame, names: list[str]) -> None:
    """Those coefficients on which single rows have the most."""
    largest = rows[names].abs().max().sort_values(ascending=False)
    kept = [name for name in names if name in largest.index[:_MOST_COEFFICIENTS]]
    for place, name in enumerate(kept):
        axes.scatter(np.full(len(rows), place), rows[name], s=10, alpha=0.5,
                     color=[_COLORS[field] for field in rows["field"]])  # fmt: skip
        row = int(rows[name].abs().to_numpy().argmax())
        axes.annotate(str(rows.index[row]), (place, rows[name].iloc[row]), (4, 0),
                      textcoords="offset points", fontsize="small")  # fmt: skip
    axes.axhline(0.0, color="0.5", lw=0.8)
    axes.set_xticks(range(len(kept)), [name.removeprefix("influence of ") for name in kept],
                    rotation=30, ha="right")  # fmt: skip
    axes.set(ylabel="moves the coefficient by, in errors", title="Influence of single rows")


def _limits(axes: Any, cutoff: float) -> None:
    for end in (-cutoff, cutoff):
        axes.axhline(end, color="0.5", lw=0.8, ls="--")
    axes.set_yscale("symlog", linthresh=2 * cutoff)  # gross outliers would press the others flat
