"""Drawings of a fit: residuals and scores with the outliers marked, and the course of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from proxlin.app.tabular.columns import Vector
from proxlin.app.tabular.fit_summary import FitSummary
from proxlin.report.drawing import panel
from proxlin.report.palette import BLUE, ORANGE
from proxlin.report.parts import Picture

_MOST_PANELS = 6
_MOST_POINTS = 4000  # more would only make the page heavy
_BINS = 41


def residuals(summary: FitSummary) -> Picture:
    """How far the targets lie from the predictions, training rows, in bars."""
    train, model = summary.fitted.train, summary.fitted.model
    away = train.targets - model.answers(train.encoded)
    figures = [
        _bars(away[:, number], summary.trained.flags, column.name, column.scale)
        for number, column in enumerate(model.encoding.targets[:_MOST_PANELS])
    ]
    count = int(summary.trained.flags.sum())
    return Picture(
        figures,
        "Target minus prediction for the training rows: bars of rows that fit, and of rows that"
        f" count as outliers ({count:,}). Rows farther out than the axis shows stand in the last"
        " bar of their side. Bars around 0 mean that the model is right for the bulk.",
        alt="Bars of residuals around zero, with the outliers in another colour.",
    )


def scores(summary: FitSummary) -> Picture:
    """The outlier score of each training row over its number in the file."""
    rows, judged = summary.fitted.train.rows, summary.trained
    figure, axes = panel(x="row of the table", y="outlier score")
    some = _sample(judged.scores)
    good, bad = some[~judged.flags[some]], some[judged.flags[some]]
    axes.scatter(rows[good], judged.scores[good], s=8, color=BLUE, alpha=0.6, label="fits")
    axes.scatter(rows[bad], judged.scores[bad], s=20, color=ORANGE, marker="x", label="outlier")
    cutoff = summary.fitted.model.scale.cutoff
    axes.axhline(cutoff, color=ORANGE, linewidth=0.8, linestyle="--")
    axes.set_yscale("symlog", linthresh=2 * cutoff)
    axes.legend(loc="best", fontsize=8, frameon=False)
    thinned = "" if len(some) == len(rows) else f" Of {len(rows):,} rows {len(some):,} are drawn."
    return Picture(
        figure,
        "Outlier score of each training row in the order of the table; crosses lie beyond the"
        f" dashed line at {cutoff:g} and count as outliers.{thinned} Stretches of crosses hint at a"
        " time or a source that went wrong.",
        alt="Points of outlier scores by row, with those beyond the cut-off as crosses.",
    )


def convergence(history: pd.DataFrame) -> Picture | None:
    """The objective over the time, if it was looked at more than once."""
    if "objective" not in history or len(history) < 3:
        return None
    figure, axes = panel(x="seconds", y="objective")
    axes.plot(history["seconds"], history["objective"], color=BLUE)
    if float(history["objective"].min()) > 0:
        axes.set_yscale("log")
    return Picture(
        figure,
        "The quantity that training lowers, the mean norm of the rows' errors plus the regulariser,"
        " over the time. A curve that has become flat has nothing more to gain.",
        alt="A falling curve of the objective over the seconds of training.",
    )


def literal(text: str) -> str:
    """The text for matplotlib, which would otherwise read formulas between dollar signs."""
    seen = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return seen.replace("\\", "\\\\").replace("$", r"\$")


def _bars(away: Vector, flags: NDArray[np.bool_], name: str, scale: float) -> Figure:
    good = away[~flags] if (~flags).any() else away
    reach = max(float(np.quantile(np.abs(good), 0.99)) * 2, 1e-9 * scale)
    edges = np.linspace(-reach, reach, _BINS + 1)
    figure, axes = panel(x=literal(f"{name[:40]} minus prediction"), y="rows")
    shown = [np.clip(part, -reach, reach) for part in (away[~flags], away[flags])]
    looks: dict[str, Any] = {"color": [BLUE, ORANGE], "label": ["fits", "outlier"]}
    axes.hist(shown, bins=edges.tolist(), stacked=True, **looks)
    axes.legend(loc="best", fontsize=8, frameon=False)
    return figure


def _sample(values: Vector) -> NDArray[np.intp]:
    """The rows to draw: all, or the worst and an even choice of the others."""
    if len(values) <= _MOST_POINTS:
        return np.arange(len(values))
    half = _MOST_POINTS // 2
    worst = np.argsort(-values, kind="stable")[:half]
    even = np.linspace(0, len(values) - 1, half).astype(int)
    return np.unique(np.concatenate([worst, even]))
