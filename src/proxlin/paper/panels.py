"""Drawings of an experiment's report, one pair of axes each, so that a phone can show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from proxlin.paper import published
from proxlin.paper.figures import COLOURS, MARKERS, cell_name, course, loss_name, over_outliers
from proxlin.paper.grid import Cell, family
from proxlin.paper.inspection import Inspection
from proxlin.paper.metrics import LOSSES, best_runs
from proxlin.paper.store import Record
from proxlin.paper.table1 import KEY
from proxlin.report import panel
from proxlin.report.drawing import plain_ticks
from proxlin.report.palette import MUTED
from proxlin.report.plots import Curve, draw_curves, draw_images, draw_residuals


def convergence(
    cells: Iterable[Cell], records: Mapping[str, Record], dataset: str, *, paper: bool
) -> list[Figure]:
    """The lowest objective so far over time: for each p with the fewest and the most outliers."""
    finished = [cell for cell in best_runs(cells, records) if cell.dataset == dataset]
    first = min((cell.seed for cell in finished), default=0)
    ratios = {cell.outliers for cell in finished}
    best = published.table1().groupby(KEY)["f_obj"].min()
    drawings = []
    for p in dict.fromkeys(cell.p for cell in finished):
        for ratio in sorted({min(ratios), max(ratios)}):
            curves = [
                _curve_over_time(cell, records[cell.name])
                for cell in finished
                if (cell.p, cell.outliers, cell.seed) == (p, ratio, first)
            ]
            level = best.get((dataset, ratio, p)) if paper and p != "mse" else None
            title = f"{loss_name(p)}, {ratio:.0%} outliers"
            if curves:
                drawings.append(
                    draw_curves(
                        curves, title, x="seconds of training", y="objective",
                        level=None if level is None else ("paper's best, hours", float(level)),
                    )
                )  # fmt: skip
    return drawings


def _curve_over_time(cell: Cell, record: Record) -> Curve:
    seconds, objectives = course(record)
    method = family(cell.method)
    return Curve(
        "squared error" if method == "mse" else method,
        seconds,
        objectives,
        COLOURS[method],
        steps=True,
    )


def robustness(table: pd.DataFrame, dataset: str, *, paper: bool) -> list[Figure]:
    """The loss on clean test rows over the share of outliers, a drawing for each p.

    `table` is what `compare` makes of the runs.
    """
    part = table[table["dataset"] == dataset]
    theirs = published.table1()
    theirs = theirs[theirs["dataset"] == dataset]
    drawings = []
    for p, lines in part.groupby("p", sort=False):
        if lines["outliers"].nunique() < 2:
            continue
        curves = [_over_ratio(lines[lines["method"] == m], m) for m in _methods(lines)]
        if paper:
            same = theirs[theirs["p"] == p]
            curves += [
                _over_ratio(same[same["method"] == m], m, theirs=True) for m in _methods(same)
            ]
        drawings.append(
            draw_curves(curves, loss_name(p), x="share of outliers", y="loss on test rows")
        )
    return drawings


def _methods(frame: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(frame["method"]))


def _over_ratio(lines: pd.DataFrame, method: str, *, theirs: bool = False) -> Curve:
    name = "squared error" if method == "mse" else method
    label = f"{name} (paper)" if theirs else name
    return over_outliers(lines, "f_test", label, method, dashed=theirs)


def standing(table: pd.DataFrame) -> Figure | None:
    """Every figure as a share of the paper's best, left of 1 better; None without any."""
    compared = table.dropna(subset=["f_obj_better"])
    compared = compared[compared["method"] != "mse"]
    if compared.empty:
        return None
    keys = list(dict.fromkeys(zip(compared["dataset"], compared["p"], strict=True)))
    methods = _methods(compared)
    figure, axes = panel(
        x="our figure divided by the paper's best", width=6.4, height=0.36 * len(keys) + 1.2
    )
    for place, method in enumerate(methods):
        lines = compared[compared["method"] == method]
        x, y = [], []
        offset = 0.6 * ((place + 0.5) / len(methods) - 0.5)
        for _, line in lines.iterrows():
            row = keys.index((line["dataset"], line["p"]))
            x += [line[loss] / line[f"{loss}_paper"] for loss in LOSSES]
            y += [row + offset] * len(LOSSES)
        axes.plot(
            x, y, linestyle="", marker=MARKERS[method], color=COLOURS[method], alpha=0.65,
            markersize=5, label=method,
        )  # fmt: skip
    axes.axvline(1.0, color=MUTED, linewidth=1.2, linestyle=":")
    axes.set_xscale("log")
    plain_ticks(axes.xaxis)
    axes.set_yticks(range(len(keys)), [f"{dataset}, {loss_name(p)}" for dataset, p in keys])
    axes.set_ylim(len(keys) - 0.5, -0.5)
    if len(methods) > 1:
        axes.legend(frameon=False, fontsize=8)
    return figure


def reconstructions(inspections: Sequence[Inspection], *, outliers: bool) -> Figure | None:
    """Images as they are, and below what each net gives back; None without such images."""
    strips = [
        (cell_name(inspection.cell), strip)
        for inspection in inspections
        if (strip := inspection.outliers if outliers else inspection.clean) is not None
    ]
    if not strips:
        return None
    images = strips[0][1].images.numpy()
    rows = [(label, strip.rebuilt.numpy()) for label, strip in strips]
    named = ("outliers" if outliers else "test images", images)
    return draw_images([named, *rows], top=float(images.max()))


def residuals(inspections: Sequence[Inspection]) -> list[Figure]:
    """The losses of training rows under each net, outliers marked."""
    return [
        draw_residuals(
            inspection.losses.numpy(),
            inspection.mask.numpy(),
            cell_name(inspection.cell),
            x="loss of a row",
        )
        for inspection in inspections
    ]
