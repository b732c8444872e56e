"""Drawings: axes in the style of the reports, SVG for the page, SVG and PNG files."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter

from proxlin.report.figure_text import show_figure
from proxlin.report.palette import MUTED, VARIABLES
from proxlin.run.storage import write_whole

_SVG = "http://www.w3.org/2000/svg"
_LINK = "http://www.w3.org/1999/xlink"
_PLAIN: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {"Software": None}}

ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _LINK)


def panel(
    title: str = "", *, x: str = "", y: str = "", width: float = 4.8, height: float = 3.2
) -> tuple[Figure, Axes]:
    """A figure with one pair of axes that a phone can show: `x` and `y` name what they measure."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelsize=9)
    axes.grid(alpha=0.35, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(x, color=MUTED, fontsize=9)
    axes.set_ylabel(y, color=MUTED, fontsize=9)
    if title:
        axes.set_title(title, fontsize=10, loc="left")
    return figure, axes


def plain_ticks(*axes: Axis) -> None:
    """Numbers at the ticks of axes that are drawn on: no powers of ten, thousands apart."""
    for axis in axes:
        low, high = sorted(axis.get_view_interval())
        decades = np.log10(high / low) if axis.get_scale() == "log" else 0.0
        if decades > 1:
            steps = (1.0, 2.0, 5.0) if decades < 3 else (1.0,)
            axis.set_major_locator(LogLocator(subs=steps))
        elif (linear := getattr(axis.get_transform(), "linthresh", np.inf)) < max(-low, high):
            powers = 10.0 ** np.arange(np.ceil(np.log10(linear)), 17)
            axis.set_major_locator(FixedLocator([*-powers, 0.0, *powers]))
        else:
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(lambda value, _: show_figure(value, 6))
        axis.set_minor_formatter(NullFormatter())


def write_picture(folder: Path, name: str, figure: Figure) -> list[Path]:
    """Write name.svg and name.png; the same figure gives the same bytes."""
    return write_drawing(folder, name, figure, svg_bytes(figure))


def write_drawing(folder: Path, name: str, figure: Figure, svg: bytes) -> list[Path]:
    """As `write_picture`, with the SVG at hand: drawing takes longer than all else."""
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    for path, content in zip(paths, (svg, _bytes(figure, "png")), strict=True):
        write_whole(path, content)
    return paths


def svg_bytes(figure: Figure) -> bytes:
    """The figure as an SVG file, without a date."""
    return _bytes(figure, "svg")


def page_svg(svg: bytes, prefix: str, alt: str) -> str:
    """The SVG as an element of a page whose colours follow those of the page.

    `prefix` goes before every id, so that pictures of one page do not take each other's parts.
    """
    root = ElementTree.fromstring(svg)
    for child in list(root):
        if child.tag == f"{{{_SVG}}}metadata" or child.find(f"{{{_SVG}}}style") is not None:
            root.remove(child)  # its style would apply to the whole page
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, _adapted(key, value, prefix))
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("aria-label", alt)
    return ElementTree.tostring(root, encoding="unicode")


def _bytes(figure: Figure, ending: str) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "proxlin"}):
        figure.savefig(buffer, format=ending, dpi=130, metadata=_PLAIN[ending])
    return buffer.getvalue()


def _adapted(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return f"{prefix}{value}"
    if key in ("href", f"{{{_LINK}}}href") and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    value = value.replace("url(#", f"url(#{prefix}")
    return re.sub(r"#[0-9a-f]{6}\b", _variable, value) if key == "style" else value


def _variable(match: re.Match[str]) -> str:
    name = VARIABLES.get(match[0])
    return match[0] if name is None else f"var(--{name})"
