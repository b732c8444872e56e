"""The report of the demonstration: the story in pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from proxlin.paper.demo.training import Demo, DemoRow, SharePoint
from proxlin.report import Code, Facts, Picture, Report, Section, Table, Text, Tiles
from proxlin.report.palette import BLUE, GREEN, ORANGE
from proxlin.report.plots import Curve, draw_curves, draw_images, draw_residuals

_COLOURS = {"squared error": ORANGE, "l2 norm": BLUE, "l1 norm": GREEN}
_MARKERS = {"squared error": "s", "l2 norm": "o", "l1 norm": "^"}


def demo_report(demo: Demo, points: Sequence[SharePoint], command: str) -> Report:
    """A page that tells what outliers do to each loss; `command` is what the user typed."""
    plain, best = demo.rows[0], min(demo.rows, key=lambda row: row.test_error)
    return Report(
        "What a few bad rows do to a model, and how to keep them from it",
        f"A net learns to complete digits from their upper half while {demo.ratio:.0%} of the"
        f" answers it learns from are rubbish. Trained with squared errors it is"
        f" {plain.test_error:.2f} off for each pixel of digits it has never seen; trained with the"
        f" {best.name}, {best.test_error:.2f}. Pixels lie between 0 and 1.",
        [
            _completions(demo),
            _shares(points),
            _residuals(demo),
            _convergence(demo),
            _table(demo, command),
        ],
        Tiles(
            {f"test error, {row.name}": f"{row.test_error:.3f}" for row in demo.rows}
            | {f"of the error of squared error, {best.name}": _share_of(best, plain)}
        ),
    )


def _share_of(row: DemoRow, other: DemoRow) -> str:
    return f"{row.test_error / other.test_error:.0%}"


def completions(demo: Demo) -> Figure:
    """Training rows with outliers, test digits, and how each net completes them."""
    strips = [
        ("rubbish among the\ntraining rows", _visible(demo.outliers)),
        ("digits never seen", demo.digits),
        *((f"{row.name}\n{row.test_error:.2f} off", row.completions) for row in demo.rows),
    ]
    return draw_images([(label, images.numpy()) for label, images in strips], divide=0.5)


def _visible(images: Tensor) -> Tensor:
    """Lower halves with values beyond 1 divided by their largest, so that noise is seen as such."""
    upper, lower = images[:, :4], images[:, 4:]
    return torch.cat([upper, lower / lower.amax(dim=(1, 2), keepdim=True).clamp(min=1)], dim=1)


def _completions(demo: Demo) -> Section:
    return Section(
        "The same net, three losses",
        [
            Picture(
                completions(demo),
                "Each net sees the part above the line and fills in the part below. First row:"
                " what some of the answers in the training data look like. Second row: digits"
                " that were not in the training data. Then what each net makes of their upper"
                " halves, and how far it is off for each pixel on average.",
                "Rows of digits. Those completed by the net trained with squared errors are"
                " smeared; those of the other nets can be read.",
            ),
            Text(
                "A squared error lets a row that is far off pull the harder the farther off it is,"
                " so that the net settles between digits and rubbish. The norm of a row's error"
                " grows only in proportion, and rows that cannot be explained are left alone."
            ),
        ],
    )


def _shares(points: Sequence[SharePoint]) -> Section:
    curves = []
    for name in dict.fromkeys(point.name for point in points):
        own = sorted((p for p in points if p.name == name), key=lambda point: point.ratio)
        curves.append(
            Curve(
                name,
                [100 * point.ratio for point in own],
                [point.test_error for point in own],
                _COLOURS[name],
                _MARKERS[name],
            )
        )
    figure = draw_curves(curves, x="outliers among the training rows, %", y="error on test digits")
    figure.axes[0].set_ylim(bottom=0)
    return Section(
        "The more rubbish, the larger the gap",
        [
            Picture(
                figure,
                "Mean error of a pixel on digits never seen, while more and more of the training"
                " answers are rubbish. A flat line is what robust means.",
                "Three lines over the share of outliers; that of squared errors rises most.",
            )
        ],
    )


def _residuals(demo: Demo) -> Section:
    drawings = [
        draw_residuals(row.losses.numpy(), demo.mask.numpy(), row.name, x="loss of a training row")
        for row in demo.rows
    ]
    best = min(demo.rows, key=lambda row: row.test_error)
    count = int(demo.mask.sum())
    return Section(
        "Which rows are rubbish",
        [
            Picture(
                drawings,
                "How many training rows have which loss, in the loss that the net was trained with."
                " Nobody told the nets which rows are outliers. Where the colours stand far apart,"
                " a look at the losses finds the bad rows.",
                "Histograms of losses for each net, outliers in a second colour.",
            ),
            Picture(
                draw_images([("fit worst", _visible(best.worst).numpy())], divide=0.5),
                f"The training rows that fit worst under the {best.name}. Of its {count} worst rows"
                f" {best.outlier_recall:.0%} are outliers; there are {count} outliers.",
                "A row of digits whose lower halves are dark noise.",
            ),
        ],
    )


def _convergence(demo: Demo) -> Section:
    curves = [_progress(row) for row in demo.rows]
    return Section(
        "How training went",
        [
            Picture(
                draw_curves(
                    curves,
                    x="seconds of training",
                    y="share of the first objective",
                    linear_x=True,
                ),
                "What training lowers, as a share of its value at the start. A net is kept as it"
                " was when it served rows best that were held out of training, which may be before"
                " the end of its curve: later it would only learn rubbish by heart.",
                "Three falling curves over the seconds of training.",
            )
        ],
    )


def _progress(row: DemoRow) -> Curve:
    history = row.result.history.frame()
    best = np.minimum.accumulate(history["objective"].to_numpy(dtype=float))
    return Curve(
        row.name,
        history["seconds"].to_list(),
        (best / best[0]).tolist(),
        _COLOURS[row.name],
        steps=True,
    )


def demo_frame(demo: Demo) -> pd.DataFrame:
    """The figures of each net, one line each."""
    return pd.DataFrame(
        {
            "loss": [row.name for row in demo.rows],
            "error on clean training rows": [row.clean_error for row in demo.rows],
            "error on test rows": [row.test_error for row in demo.rows],
            "outliers found": [row.outlier_recall for row in demo.rows],
            "seconds": [row.result.seconds for row in demo.rows],
        }
    )


def demo_table(demo: Demo) -> Table:
    """The same as a table for the report and for files."""
    frame = demo_frame(demo)
    frame["outliers found"] = [f"{100 * share:.1f} %" for share in frame["outliers found"]]
    frame["seconds"] = frame["seconds"].round(1)
    return Table.from_frame(
        frame,
        f"Completing digits, {demo.ratio:.0%} of the training answers are outliers",
        best={"error on clean training rows": "min", "error on test rows": "min"},
        remarks=(
            "Errors are mean absolute differences of pixels in [0, 1]; outliers found: the share of"
            " them among the rows that fit worst, as many rows as there are outliers.",
        ),
    )


def _table(demo: Demo, command: str) -> Section:
    return Section(
        "Figures, and how to get them again",
        [
            demo_table(demo),
            Code(command),
            Facts(
                {
                    "data": "1,797 digits of 8 × 8 pixels (scikit-learn)",
                    "net": "32 inputs, 64 hidden units, 32 outputs",
                    "method": "probed",
                    "share of outliers": f"{demo.ratio:g}",
                    "training rows": f"{len(demo.mask):,}",
                    "outliers among them": f"{int(demo.mask.sum()):,}",
                    "seed": demo.seed,
                }
            ),
        ],
    )
