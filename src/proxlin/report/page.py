"""write_report: a report as one HTML file that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from proxlin.report.drawing import page_svg, svg_bytes, write_drawing
from proxlin.report.palette import DARK, LIGHT
from proxlin.report.parts import Picture, Report
from proxlin.report.table import Figures, numeric_columns, plain, sort_value
from proxlin.run.storage import write_whole

_SMALLEST = 0.7  # of its natural size: a wide drawing is not shown smaller but can be scrolled


def write_report(
    report: Report, path: Path, *, pictures: Path | None = None, prefix: str = ""
) -> Path:
    """Write the report to `path`, whole or not at all; folders on the way are made.

    The page holds its style, script and pictures, and its security policy forbids it to load
    anything. With a folder `pictures`, every drawing also becomes an SVG and a PNG file there;
    the prefix, the section and a number make its name.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from proxlin.report import Facts, Picture, Report, Section, Table, Text, panel, write_report
    >>> figure, axes = panel(x="seconds", y="objective")
    >>> lines = axes.plot([0, 1, 2], [3.0, 1.0, 0.5])
    >>> table = Table("Errors by loss", ("loss", "error"), [("squared", 0.5), ("l1", 0.25)])
    >>> section = Section(
    ...     "What came out",
    ...     [
    ...         Text("The l1 norm halves the error."),
    ...         Facts({"rows": 1797, "seed": 0}),
    ...         table,
    ...         Picture(figure, "The objective falls for two seconds.", alt="A falling curve."),
    ...     ],
    ... )
    >>> report = Report("A first report", "The l1 norm is better here.", [section])
    >>> with TemporaryDirectory() as folder:
    ...     print(write_report(report, Path(folder) / "report.html").name)
    report.html
    """
    drawn = {figure: svg_bytes(figure) for _, figure in _figures(report)}
    if pictures is not None:
        for name, figure in _figures(report):
            write_drawing(pictures, f"{prefix}{name}", figure, drawn[figure])
    write_whole(path, _render(report, drawn).encode())
    return path


def render(report: Report) -> str:
    """The page as text."""
    return _render(report, {figure: svg_bytes(figure) for _, figure in _figures(report)})


def _figures(report: Report) -> Iterator[tuple[str, Figure]]:
    """Every drawing with a name made of its section and a number."""
    for anchor, section in zip(report.anchors, report.sections, strict=True):
        pictures = [part for part in section.parts if isinstance(part, Picture)]
        drawings = [figure for picture in pictures for figure in picture.figures]
        for number, figure in enumerate(drawings, start=1):
            yield f"{anchor}-{number}", figure


def _render(report: Report, drawn: Mapping[Figure, bytes]) -> str:
    script = _resource("script.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            anchors=report.anchors,
            style=Markup(_resource("style.css")),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            drawings=partial(_drawings, drawn),
            light=LIGHT,
            dark=DARK,
            version=version("proxlin"),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("proxlin.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        kind=lambda part: type(part).__name__,
        numeric=numeric_columns,
        sort_value=sort_value,
        plain=plain,
    )
    environment.tests["figures"] = lambda item: isinstance(item, Figures)
    return environment


def _resource(name: str) -> str:
    return files("proxlin.report").joinpath("page", name).read_text(encoding="utf-8")


def _drawings(
    drawn: Mapping[Figure, bytes], picture: Picture, prefix: str
) -> list[tuple[Markup, int, int]]:
    """Each drawing with its natural width and the least width it is shown at, in pixels."""
    drawings = []
    for place, figure in enumerate(picture.figures):
        svg = Markup(page_svg(drawn[figure], f"{prefix}-{place}-", picture.alt))
        width = figure.get_figwidth() * 96
        least = 0 if width < 700 else round(width * _SMALLEST)
        drawings.append((svg, round(width), least))
    return drawings
