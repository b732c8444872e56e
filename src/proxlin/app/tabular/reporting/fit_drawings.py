"""Drawings of a fit: predicted against actual, curves, residuals and scores, the training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from proxlin.app.tabular.model import Judgement
from proxlin.app.tabular.reading.columns import Column, NumberColumn, show_number
from proxlin.app.tabular.reporting.fit_summary import FitSummary
from proxlin.estimators.families.additive import AdditiveModel, Ramps
from proxlin.estimators.families.table_regressor import TableRegressor
from proxlin.estimators.tables import Vector
from proxlin.report.drawing import panel, plain_ticks
from proxlin.report.palette import BLUE, MUTED, ORANGE
from proxlin.report.parts import Picture
from proxlin.report.plots import scale_axis

_MOST_PANELS = 6
_MOST_POINTS = 4000  # more would only make the page heavy
_BINS = 41
_MOST_LEVELS = 12
_POINTS = 101  # of a curve


def predicted_against_actual(summary: FitSummary) -> Picture:
    """The test rows: what the model said, and what was there."""
    fitted, judged = summary.fitted, summary.tested
    answers, truth = fitted.test_answers, fitted.test.targets
    some = _sample(judged.scores)
    good, bad = some[~judged.flags[some]], some[judged.flags[some]]
    figures = []
    for number, column in enumerate(fitted.tested.encoding.targets[:_MOST_PANELS]):
        figure, axes = panel(x="predicted", y=literal(f"actual {column.name[:40]}"))
        x, y = answers[:, number], truth[:, number]
        shown = np.concatenate([x[some], y[good]]) if len(good) else x[some]
        low, high = float(shown.min()), float(shown.max())
        edge = 0.08 * (high - low) or 1.0
        limits = (low - edge, high + edge)
        axes.axline((low, low), slope=1, color=MUTED, linewidth=0.8)
        axes.scatter(x[good], y[good], s=8, color=BLUE, alpha=0.5, label="fits")
        inside = np.clip(y[bad], low - 0.7 * edge, high + 0.7 * edge)
        axes.scatter(x[bad], inside, s=20, color=ORANGE, marker="x", label="outlier")
        axes.set_xlim(*limits)
        axes.set_ylim(*limits)
        axes.legend(loc="upper left", fontsize=8, frameon=False)
        plain_ticks(axes.xaxis, axes.yaxis)
        figures.append(figure)
    return Picture(
        figures,
        "Each point is a test row. On the line the prediction is right; outliers beyond the drawing"
        " stand at its edge.",
        alt="Points of actual against predicted values along a diagonal.",
    )


def curves(summary: FitSummary, names: Sequence[str]) -> Picture | None:
    """What the columns named add to the first target in the additive model, or in the linear."""
    model = summary.fitted.model
    if not isinstance(model.estimator, TableRegressor) or not model.estimator.straight:
        return None
    kind, additive = list(model.estimator.straight.items())[-1]
    target = model.encoding.targets[0]
    unit = "%" if target.log else target.name[:30]
    figures = []
    by_name = {column.name: number for number, column in enumerate(model.encoding.features)}
    owners = np.array(model.encoding.owners)
    if model.estimator.columns is not None:
        owners = owners[model.estimator.columns]
    for name in names[:_MOST_PANELS]:
        column = model.encoding.features[by_name[name]]
        places = np.flatnonzero(owners == by_name[name])
        if not len(places):
            continue
        figure, axes = panel(x=literal(name[:40]), y=literal(f"changes {unit} by"))
        if isinstance(column, NumberColumn):
            knots = additive.ramps.knots[places[0]]
            ends = knots[[0, -1]] if len(knots) else _usual_ends(column)
            between = np.linspace(ends[0], ends[1], _POINTS)  # percents are not straight there
            points = np.unique([*knots, *between])
            effects = _effect(additive, places[0], points)
            middle = float(_effect(additive, places[0], np.array([column.scaled_fill]))[0])
            axes.plot(column.plain(points), _in_units(effects - middle, target), color=BLUE)
        else:
            levels = additive.coef[np.isin(additive.ramps.owners, places), 0]
            order = np.argsort(np.abs(levels), kind="stable")[-_MOST_LEVELS:]
            order = order[np.argsort(levels[order], kind="stable")]
            named = model.encoding.labels
            if model.estimator.columns is not None:
                named = [named[j] for j in model.estimator.columns]
            labels = [named[places[j]].removeprefix(f"{name} = ")[:18] for j in order]
            axes.barh(
                [literal(label) for label in labels], _in_units(levels[order], target), color=BLUE
            )
            axes.set_ylabel("")
            axes.set_xlabel(literal(f"{name[:30]}: changes {unit} by"), color=MUTED, fontsize=9)
        _name_ticks(axes, column)
        figures.append(figure)
    if not figures:
        return None
    return Picture(
        figures,
        f"What the columns that matter most do to {target.name!r} in the {kind} model, the others"
        " held still: against the median of the column, for categories against none of the known"
        " values.",
        alt="Curves and bars of the effect of single columns.",
    )


def _usual_ends(column: NumberColumn) -> Vector:
    """Scaled, between which the training cells lie but for those far out."""
    if column.low is None or column.high is None or not column.low < column.high:
        return np.array([0.0, 1.0] if column.reading.form == "truth" else [-2.0, 2.0])
    return column.scaled(np.array([column.low, column.high]))


def _name_ticks(axes: Axes, column: Column) -> None:
    """Dates and yes or no below in words, all else in plain numbers."""
    plain_ticks(axes.xaxis)
    if not isinstance(column, NumberColumn):
        return
    plain_ticks(axes.yaxis)
    if column.reading.form == "date":
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(lambda value, _: show_number(value, column.reading))
    elif column.reading.form == "truth":
        axes.set_xticks([0, 1], ["no", "yes"])


def _effect(additive: AdditiveModel, place: int, points: Vector) -> Vector:
    ramps = Ramps((additive.ramps.knots[place],))
    own = additive.coef[additive.ramps.owners == place, 0]
    effect: Vector = ramps.apply(points[:, None]) @ own
    return effect


def _in_units(effects: Vector, target: NumberColumn) -> Vector:
    plain = effects * target.scale
    return 100 * np.expm1(np.clip(plain, -50, 50)) if target.log else plain


def residuals(summary: FitSummary) -> Picture:
    """How far the targets lie from the predictions, training rows, in bars."""
    train, model = summary.fitted.train, summary.fitted.tested
    away = train.targets - model.training_answers(train.encoded)
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
    cutoff = summary.fitted.tested.scale.cutoff
    return score_drawing(summary.trained, summary.fitted.train.rows, cutoff)


def score_drawing(judged: Judgement, rows: NDArray[Any], cutoff: float) -> Picture:
    """Outlier scores over the rows' numbers, with those beyond the cut-off as crosses."""
    figure, axes = panel(x="row of the table", y="outlier score")
    some = _sample(judged.scores)
    good, bad = some[~judged.flags[some]], some[judged.flags[some]]
    axes.scatter(rows[good], judged.scores[good], s=8, color=BLUE, alpha=0.6, label="fits")
    axes.scatter(rows[bad], judged.scores[bad], s=20, color=ORANGE, marker="x", label="outlier")
    axes.axhline(cutoff, color=ORANGE, linewidth=0.8, linestyle="--")
    highest = float(np.nanmax(judged.scores[some], initial=0.0))
    if highest > 4 * cutoff:
        axes.set_yscale("symlog", linthresh=2 * cutoff)
        axes.set_ylim(top=2 * highest)
    axes.legend(loc="best", fontsize=8, frameon=False)
    plain_ticks(axes.xaxis, axes.yaxis)
    thinned = "" if len(some) == len(rows) else f" Of {len(rows):,} rows {len(some):,} are drawn."
    return Picture(
        figure,
        "Outlier score of each row in the order of the table; crosses lie beyond the"
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
    scale_axis(axes, "y", history["objective"])
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
    plain_ticks(axes.xaxis, axes.yaxis)
    return figure


def _sample(values: Vector) -> NDArray[np.intp]:
    """The rows to draw: all, or the worst and an even choice of the others."""
    if len(values) <= _MOST_POINTS:
        return np.arange(len(values))
    half = _MOST_POINTS // 2
    worst = np.argsort(-values, kind="stable")[:half]
    even = np.linspace(0, len(values) - 1, half).astype(int)
    return np.unique(np.concatenate([worst, even]))
