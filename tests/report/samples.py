"""Reports for the tests: one with every kind of part."""

from __future__ import annotations

import numpy as np

from proxlin.report import (
    Code,
    Facts,
    Figures,
    Picture,
    Report,
    Section,
    Table,
    Text,
    Tiles,
    palette,
    panel,
)

EVIL = "<script>alert('x')</script> & \"quotes\""


def curve(title: str = "Objective", *, width: float = 5.2):
    figure, axes = panel(title, x="seconds", y="objective", width=width)
    seconds = np.linspace(0, 10, 50)
    axes.plot(seconds, np.exp(-seconds), color=palette.BLUE, label="probed")
    axes.plot(seconds, np.exp(-seconds / 5), color=palette.ORANGE, label="sgd", linestyle="--")
    axes.legend(frameon=False, fontsize=9)
    return figure


def image():
    figure, axes = panel(width=3.0, height=3.0)
    axes.imshow(np.eye(8), cmap="gray_r", interpolation="none")
    return figure


def everything() -> Report:
    """Every kind of part, a wide table, names and values that try to break the page."""
    methods = ("probed", "mbo-sadm", "mbo-sgd", "sgd", "adam", "squared error")
    wide = [
        (
            f"data set {place}",
            place / 10,
            *(
                Figures((f"{1.5 * place:.3f}", f"{place + 0.25:.3f}"), (place % 2 == 0, False))
                for _ in methods
            ),
        )
        for place in range(12)
    ]
    numbers = [
        ("ten", 10, 0.5, "–"),
        ("nine", 9, float("nan"), "2 s"),
        ("minus one", -1, 1e-3, "11 s"),
        (EVIL, 1797, 2.0, "–"),
    ]
    return Report(
        f"A report on {EVIL}",
        "What came out, in a sentence that a reader understands without having read anything else.",
        [
            Section(
                "What was run",
                [
                    Text("A first paragraph.\n\nA second one with <b>no</b> markup in it."),
                    Code("proxlin fit table.csv --targets price --p 1 --out " + "long/" * 40),
                    Facts({"rows": "1,797", EVIL: EVIL, "file": "averylongname" * 12}),
                ],
            ),
            Section(
                "Tables",
                [
                    Table("Numbers", ("name", "rows", "error", "time"), numbers, ("A remark.",)),
                    Table("Wide", ("data set", "outliers", *methods), wide),
                    Table("Nothing yet", ("name", "value"), []),
                ],
            ),
            Section(
                "Pictures",
                [
                    Picture(curve(), "The objective falls.", "Two falling curves."),
                    Picture((curve("a"), curve("b"), image()), "Three.", "Three drawings."),
                    Picture(curve("wide", width=12.0), "A wide one.", EVIL),
                ],
            ),
            Section("Tables", [Text("A section with a title that is taken.")]),
        ],
        Tiles({"of the outliers found": "92 %", "objective": "1.08", "of training": "30 s"}),
    )
