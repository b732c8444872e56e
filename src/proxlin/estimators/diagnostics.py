"""Drawings of what each row is to a fit: residuals, the four fields, weights, influence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FIELDS = ("good", "far", "outlier", "bad far")

_COLORS = {"good": "#4c72b0", "far": "#55a868", "outlier": "#dd8452", "bad far": "#c44e52"}
_MARKS = {"good": "o", "far": "^", "outlier": "x", "bad far": "X"}
_MOST_POINTS = 5000
_MOST_COEFFICIENTS = 12


def four_fields(distance: Any, scaled: Any, cutoff: float) -> NDArray[np.object_]:
    """Whether features are far from their bulk, and whether the residual is an outlier's."""
    far, off = np.asarray(distance) > 1.0, np.abs(np.asarray(scaled)) > cutoff
    names: NDArray[np.object_] = np.array(FIELDS, dtype=object)[far + 2 * off]
    return names


def draw_diagnostics(rows: pd.DataFrame, cutoff: float) -> Any:
    """The figure of `RobustRegressor.diagnostics`."""
    from matplotlib.figure import Figure  # noqa: PLC0415  takes long to import

    influence = [name for name in map(str, rows) if name.startswith("influence of ")]
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    axes = figure.subplots(2, 2)
    shown = rows
    if len(rows) > _MOST_POINTS:  # every row that stands out, and of the others a sample
        odd = rows[rows["field"] != "good"].head(_MOST_POINTS)
        good = rows[rows["field"] == "good"]
        shown = pd.concat([odd, good.sample(min(len(good), _MOST_POINTS), random_state=0)])
    _residuals(axes[0, 0], shown, cutoff)
    _fields(axes[0, 1], shown, cutoff)
    _weights(axes[1, 0], shown)
    if influence:
        _influence(axes[1, 1], shown, influence)
    else:
        axes[1, 1].set_axis_off()
    counts = rows["field"].value_counts()
    axes[0, 1].legend(
        [f"{name} ({counts[name]:,})" for name in FIELDS if name in counts],
        loc="upper left", fontsize="small",
    )  # fmt: skip
    return figure


def _scatter(axes: Any, rows: pd.DataFrame, x: str, y: str) -> None:
    for name in FIELDS:
        part = rows[rows["field"] == name]
        if len(part):
            axes.scatter(part[x], part[y], s=14, color=_COLORS[name], marker=_MARKS[name], lw=0.8)


def _residuals(axes: Any, rows: pd.DataFrame, cutoff: float) -> None:
    _scatter(axes, rows, "fitted", "scaled")
    _limits(axes, cutoff)
    axes.set(xlabel="fitted", ylabel="residual in deviations", title="Residuals")


def _fields(axes: Any, rows: pd.DataFrame, cutoff: float) -> None:
    _scatter(axes, rows, "distance", "scaled")
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
