"""Drawings that reports share: curves, residuals with outliers marked, rows of images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from proxlin.report.drawing import panel, plain_ticks
from proxlin.report.palette import BLUE, MUTED, ORANGE

_SIDE = 0.72  # inches that a row of images is high
_WIDE = 30.0  # a range of values from which on a logarithmic axis shows more


@dataclass(frozen=True)
class Curve:
    """One line of a drawing; a dashed one is somebody else's."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    marker: str = ""
    dashed: bool = False
    steps: bool = False  # stays where it is until the next point


def draw_curves(
    curves: Iterable[Curve],
    title: str = "",
    *,
    x: str,
    y: str,
    linear_x: bool = False,
    level: tuple[str, float] | None = None,
) -> Figure:
    """Lines over each other; `level` is a named horizontal one. Wide ranges get a log axis.

    With `linear_x` the axis below stays linear whatever its range.
    """
    figure, axes = panel(title, x=x, y=y)
    shown = list(curves)
    for curve in shown:
        axes.plot(
            curve.x,
            curve.y,
            color=curve.colour,
            label=curve.label,
            marker=curve.marker or ("o" if len(set(curve.x)) == 1 else None),  # a point, no line
            markersize=3.5 if curve.dashed else 5,
            linestyle="--" if curve.dashed else "-",
            linewidth=1.1 if curve.dashed else 1.8,
            drawstyle="steps-post" if curve.steps else "default",
        )
    if level is not None:
        axes.axhline(level[1], color=MUTED, linestyle=":", linewidth=1.2, label=level[0])
    if not linear_x:
        scale_axis(axes, "x", [x for curve in shown for x in curve.x])
    scale_axis(axes, "y", [y for curve in shown for y in curve.y] + ([level[1]] if level else []))
    if shown:
        figure.legend(loc="outside lower center", frameon=False, fontsize=8, ncols=3)
    return figure


def draw_residuals(
    losses: ArrayLike,
    is_outlier: ArrayLike,
    title: str = "",
    *,
    x: str,
) -> Figure:
    """How many rows have which loss, the outliers in a colour of their own.

    The axis is logarithmic where the losses range widely.
    """
    values, mask = np.asarray(losses, dtype=float), np.asarray(is_outlier, dtype=bool)
    figure, axes = panel(title, x=x, y="rows", height=2.7)
    finite = np.isfinite(values)
    bins = _bins(values[finite])
    parts = [("rows that are no outliers", ~mask, BLUE), ("outliers", mask, ORANGE)]
    for label, part, colour in parts:
        if (finite & part).any():
            count = int((finite & part).sum())
            axes.hist(
                values[finite & part],
                bins=bins.tolist(),
                color=colour,
                alpha=0.75,
                label=f"{label} ({count:,})",
                histtype="stepfilled",
            )
    scale_axis(axes, "x", values[finite])
    if finite.any():
        figure.legend(loc="outside lower center", frameon=False, fontsize=8, ncols=3)
    return figure


def draw_images(
    strips: Sequence[tuple[str, NDArray[np.floating]]],
    *,
    top: float = 1.0,
    divide: float | None = None,
) -> Figure:
    """A row of images for each label: (k, height, width), 0 is paper and `top` ink.

    A line is drawn through each row where a share `divide` of it lies above.
    """
    height, width = strips[0][1].shape[1:]
    widest = max(len(images) for _, images in strips)
    gap = max(1, height // 10)
    # One picture for all: axes by the dozen take seconds. What is not an image stays transparent.
    whole = np.full((len(strips) * (height + gap) - gap, widest * (width + gap) - gap), np.nan)
    for row, (_, images) in enumerate(strips):
        for column, image in enumerate(images):
            above, left = row * (height + gap), column * (width + gap)
            whole[above : above + height, left : left + width] = image
    letters = max(len(line) for label, _ in strips for line in label.split("\n"))
    inch = _SIDE / height
    size = (inch * whole.shape[1] + 0.09 * letters + 0.2, inch * whole.shape[0])
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    # "none" keeps the pixels as they are; a browser shows them as squares.
    axes.imshow(np.ma.masked_invalid(whole), cmap="gray_r", vmin=0, vmax=top, interpolation="none")
    axes.spines[:].set_visible(False)
    if divide is not None:
        lines = [row * (height + gap) + divide * height - 0.5 for row in range(len(strips))]
        axes.hlines(lines, -0.5, whole.shape[1] - 0.5, colors=ORANGE, linewidth=0.9)
    middles = [row * (height + gap) + height / 2 - 0.5 for row in range(len(strips))]
    axes.set_yticks(middles, [label for label, _ in strips], fontsize=8.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    return figure


def _is_wide(values: NDArray[np.floating]) -> bool:
    return bool(len(values) and values.min() > 0 and values.max() / values.min() > _WIDE)


def scale_axis(axes: Axes, which: Literal["x", "y"], values: ArrayLike) -> None:
    """Make the axis logarithmic if the values range widely; plain numbers at its ticks."""
    array = np.asarray(values, dtype=float)
    if _is_wide(array[np.isfinite(array)]):
        axes.set(**{f"{which}scale": "log"})
    axes.autoscale_view()
    plain_ticks(axes.xaxis if which == "x" else axes.yaxis)


def _bins(values: NDArray[np.floating]) -> NDArray[np.floating]:
    if len(values) == 0:
        return np.array([0.0, 1.0])
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.array([low - 0.5, high + 0.5])
    if _is_wide(values):
        return np.geomspace(low, high, 41)
    return np.linspace(low, high, 41)
