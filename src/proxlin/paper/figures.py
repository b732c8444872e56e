"""The paper's figures, ours as full lines and the published as dashed ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxlin.paper import published
from proxlin.paper.grid import Cell, family
from proxlin.paper.metrics import best_runs
from proxlin.paper.store import Record
from proxlin.report import palette
from proxlin.report.palette import MUTED
from proxlin.report.plots import Curve

COLOURS = {
    "probed": palette.BLUE,
    "mbo-sadm": palette.ORANGE,
    "mbo-sgd": palette.GREEN,
    "sgd": palette.GREY,
    "adam": palette.PINK,
    "mse": palette.INK,
}
MARKERS = {"probed": "o", "mbo-sadm": "s", "mbo-sgd": "^", "sgd": "v", "adam": "D", "mse": "x"}


def loss_name(p: object) -> str:
    """What the loss with the exponent `p`, a number or a text, is called."""
    return "squared error" if p == "mse" else f"p = {float(str(p)):g}"


def cell_name(cell: Cell) -> str:
    """Method and loss of a cell, for a label."""
    return "squared error" if cell.p == "mse" else f"{family(cell.method)}, {loss_name(cell.p)}"


_COLUMN_NAMES = {
    "f_noutl": "loss on clean training rows",
    "f_test": "loss on test rows",
    "accuracy": "test accuracy",
}

_FIRST = 0.1  # seconds; what is earlier is drawn there, since the axis is logarithmic

CAPTIONS = {
    "fig1": "MNIST autoencoder trained with squared errors and with p-norms while more and more"
    " training images are outliers. Losses are those each net was trained with, on clean images,"
    " divided by the largest in the panel; right, the accuracy of a logistic regression on the"
    " codes.",
    "fig2": "Lowest objective so far over training time, no outliers: on 500 training rows while"
    " training, on all of them at the end; dotted, the best that the paper reports after hours.",
    "fig3": "Losses on clean images over the share of outliers, divided by the largest in the"
    " panel. Full lines are ours, dashed ones the paper's.",
    "fig4": "Test accuracy of a logistic regression on the codes over the share of outliers. Full"
    " lines are ours, dashed ones the paper's.",
    "figA": "Losses on clean images over the share of outliers for p = 1.5, divided by the largest"
    " in the panel. Full lines are ours, dashed ones the paper's.",
}


def points(cells: Iterable[Cell], records: Mapping[str, Record]) -> pd.DataFrame:
    """One line for each chosen cell, with the losses in the norm it trained with; p is text."""
    lines = [
        {
            **cell.labels(),
            **records[cell.name]["metrics"][str(cell.p)],
            "seconds": records[cell.name]["seconds"],
        }
        for cell in best_runs(cells, records)
    ]
    columns = ["dataset", "outliers", "p", "method", "seed"]
    losses = ["f_obj", "f_noutl", "f_test", "seconds"]
    return pd.DataFrame(lines, columns=[*columns, *losses])


def figure1(losses: pd.DataFrame, accuracy: pd.DataFrame) -> Figure:
    """Squared error against p-norms: losses and accuracy, a row for each data set."""
    datasets = list(dict.fromkeys(losses["dataset"]))
    figure, axes = _panels(max(1, len(datasets)), 3)
    styles = {"mse": "mse", "2.0": "mbo-sadm", "1.0": "probed"}
    for row, dataset in zip(axes, datasets, strict=False):
        for axis, column in zip(row, ("f_noutl", "f_test", "accuracy"), strict=True):
            frame = accuracy if column == "accuracy" else losses
            lines = []
            for (p, method), curve in frame[frame["dataset"] == dataset].groupby(["p", "method"]):
                label = loss_name(p) if method in ("probed", "mse") else f"{loss_name(p)}, {method}"
                style = styles.get(str(p), "adam")
                lines.append(over_outliers(curve, column, label, style))
            _draw(axis, lines, normalized=column != "accuracy")
            axis.set_title(f"{dataset}: {_COLUMN_NAMES[column]}", fontsize=10)
        row[0].set_ylabel("share of the largest")
    _legend(figure, axes)
    return figure


def figure2(cells: Iterable[Cell], records: Mapping[str, Record], *, paper: bool = True) -> Figure:
    """The lowest objective so far over time, a panel for each p."""
    finished = best_runs(cells, records)
    keys = list(dict.fromkeys((c.dataset, c.outliers, c.p) for c in finished if c.p != "mse"))
    figure, axes = _panels(max(1, math.ceil(len(keys) / 3)), min(3, max(1, len(keys))))
    best = published.table1().groupby(["dataset", "outliers", "p"])["f_obj"].min()
    for axis, (dataset, ratio, p) in zip(axes.flat, keys, strict=False):
        for cell in finished:
            if (cell.dataset, cell.outliers, cell.p) != (dataset, ratio, p):
                continue
            seconds, objectives = course(records[cell.name])
            method = family(cell.method)
            axis.step(
                seconds,
                objectives,
                where="post",
                color=COLOURS[method],
                label=method if cell.seed == finished[0].seed else None,
                linewidth=1.6,
            )
        if paper and (dataset, ratio, p) in best.index:
            axis.axhline(
                best[(dataset, ratio, p)], color=MUTED, linestyle=":", label="paper's best"
            )
        axis.set(xscale="log", yscale="log", xlabel="seconds")
        axis.set_title(f"{dataset}, {loss_name(p)}, outliers {ratio:g}", fontsize=10)
        axis.grid(alpha=0.25, which="both")
    for axis in axes[:, 0]:
        axis.set_ylabel("objective")
    _legend(figure, axes)
    return figure


def course(record: Record) -> tuple[list[float], list[float]]:
    """Seconds, and the lowest objective until then: on a sample of rows, and the full one last.

    Records without a trace, of earlier versions, have full objectives alone.
    """
    points = record.get("trace") or record["history"]
    last = record["history"][-1]
    seconds = [max(point["seconds"], _FIRST) for point in points] + [last["seconds"]]
    lowest = list(accumulate((float(point["objective"]) for point in points), min))
    return seconds, [*lowest, float(last["best"])]


def figure3(losses: pd.DataFrame, *, paper: bool = True) -> Figure:
    """Losses over the outlier ratio: clean training rows above, test rows below."""
    keys = _columns(losses)
    figure, axes = _panels(2, max(1, len(keys)))
    theirs = _paper_losses() if paper else losses.iloc[:0]
    for row, column in zip(axes, ("f_noutl", "f_test"), strict=True):
        for axis, (dataset, p) in zip(row, keys, strict=False):
            lines = _by_method(losses, theirs, dataset, p, column)
            _draw(axis, lines, normalized=True)
            axis.set_title(f"{dataset}, {loss_name(p)}: {_COLUMN_NAMES[column]}", fontsize=10)
        row[0].set_ylabel("share of the largest")
    _legend(figure, axes)
    return figure


def figure4(accuracy: pd.DataFrame, *, paper: bool = True) -> Figure:
    """Accuracies over the outlier ratio: a row for each data set, a column for each loss."""
    datasets = list(dict.fromkeys(accuracy["dataset"]))
    exponents = list(dict.fromkeys(p for _, p in _columns(accuracy)))
    figure, axes = _panels(max(1, len(datasets)), max(1, len(exponents)))
    theirs = published.accuracy() if paper else accuracy.iloc[:0]
    theirs = theirs.assign(method=theirs["method"].where(theirs["p"] != "mse", "mse"))
    for row, dataset in zip(axes, datasets, strict=False):
        for axis, p in zip(row, exponents, strict=False):
            _draw(axis, _by_method(accuracy, theirs, dataset, p, "accuracy"), normalized=False)
            axis.set_title(f"{dataset}, {loss_name(p)}", fontsize=10)
        row[0].set_ylabel("test accuracy")
    _legend(figure, axes)
    return figure


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(3.6 * columns + 0.6, 2.9 * rows + 0.7), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _columns(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Data set and loss of each column, squared error first, then falling p, as in the paper."""
    pairs = {(str(d), str(p)) for d, p in zip(frame["dataset"], frame["p"], strict=True)}
    return sorted(pairs, key=lambda key: (key[0], key[1] != "mse", -_number(key[1])))


def _number(p: str) -> float:
    return 0.0 if p == "mse" else float(p)


def _by_method(
    ours: pd.DataFrame, paper: pd.DataFrame, dataset: str, p: str, column: str
) -> list[Curve]:
    lines = []
    for frame, suffix in ((ours, ""), (paper, " (paper)")):
        part = frame[(frame["dataset"] == dataset) & (frame["p"] == p)]
        for method, curve in part.groupby("method", sort=False):
            label = f"{method}{suffix}"
            lines.append(over_outliers(curve, column, label, str(method), dashed=bool(suffix)))
    return lines


def over_outliers(
    runs: pd.DataFrame, column: str, label: str, method: str, *, dashed: bool = False
) -> Curve:
    """The mean of a column at each share of outliers, in colour and marker of the method."""
    means = runs.groupby("outliers")[column].mean().sort_index()
    shares = [float(share) for share in means.index]
    return Curve(label, shares, means.to_list(), COLOURS[method], MARKERS[method], dashed=dashed)


def _paper_losses() -> pd.DataFrame:
    table = published.table1()
    return table.assign(p=[str(float(p)) for p in table["p"]])


def _draw(axis: Axes, lines: list[Curve], *, normalized: bool) -> None:
    largest = max((y for line in lines for y in line.y), default=1.0) if normalized else 1.0
    for line in lines:
        axis.plot(
            line.x,
            [y / largest for y in line.y],
            color=line.colour,
            marker=line.marker,
            markersize=3 if line.dashed else 5,
            linestyle="--" if line.dashed else "-",
            linewidth=0.9 if line.dashed else 1.7,
            label=line.label,
        )
    if normalized:
        axis.set_ylim(0, 1.05)
    axis.set_xlabel("share of outliers")
    axis.grid(alpha=0.25)


def _legend(figure: Figure, axes: Any) -> None:
    """One legend for all panels, each label once."""
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=5,
            fontsize=8,
        )
