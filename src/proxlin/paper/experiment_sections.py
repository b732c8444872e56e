"""Sections of an experiment's report with figures and pictures; none where there is nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from proxlin.errors import DataError
from proxlin.paper.figures import cell_name
from proxlin.paper.grid import Cell
from proxlin.paper.inspection import Inspection, inspect_cell, worst_cells
from proxlin.paper.panels import (
    convergence,
    reconstructions,
    residuals,
    robustness,
    standing,
)
from proxlin.paper.store import Record
from proxlin.paper.table1 import layouts
from proxlin.report import Part, Picture, Section, Table, Text


def against_the_paper(table: pd.DataFrame, remarks: tuple[str, ...]) -> list[Section]:
    """Our figures beside the published ones; `table` is what `compare` makes of the runs."""
    if table.empty:
        return []
    parts: list[Part] = []
    overview = standing(table)
    if overview is not None:
        parts.append(
            Picture(
                overview,
                "Every figure of every run divided by the lowest that the paper reports for it."
                " Left of the dotted line ours is better; 0.1 means a tenth of the loss. A row"
                " holds all shares of outliers and all three losses.",
                "Points on a logarithmic axis, one row for each data set and norm.",
            )
        )
    return [Section("Beside the published figures", [*parts, *layouts(table, remarks)])]


def convergence_section(
    cells: Sequence[Cell], records: Mapping[str, Record], *, paper: bool
) -> list[Section]:
    """Objectives over time."""
    pictures: list[Part] = []
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        drawings = convergence(cells, records, dataset, paper=paper)
        if drawings:
            pictures.append(
                Picture(
                    drawings,
                    f"{dataset}: the lowest objective seen so far while training, with the fewest"
                    " and the most outliers: on 500 training rows on the way, on all of them at the"
                    " end. Curves that are lower and further left are better.",
                    f"Falling curves of the objective over time for {dataset}, one a method.",
                )
            )
    return [Section("Convergence", pictures)] if pictures else []


def robustness_section(table: pd.DataFrame, *, paper: bool) -> list[Section]:
    """Losses over the share of outliers, where there is more than one share."""
    pictures: list[Part] = []
    for dataset in dict.fromkeys(table["dataset"]):
        drawings = robustness(table, dataset, paper=paper)
        if drawings:
            pictures.append(
                Picture(
                    drawings,
                    f"{dataset}: the mean loss on clean test rows while more and more training rows"
                    " are outliers. A flat line is a robust method."
                    + (" Dashed lines are the paper's." if paper else ""),
                    f"Loss over the share of outliers for {dataset}, one line a method.",
                )
            )
    return [Section("Robustness", pictures)] if pictures else []


def row_sections(cells: Sequence[Cell], records: Mapping[str, Record]) -> list[Section]:
    """What the nets that were trained with most outliers do to single rows."""
    try:
        inspections = [
            inspect_cell(cell, records[cell.name]) for cell in worst_cells(cells, records)
        ]
    except DataError as cause:  # the cells may come from machines that have the data
        return [Section("Single rows", [Text(f"The data are not on this machine: {cause}")])]
    images: list[Part] = []
    losses: list[Part] = []
    for dataset in dict.fromkeys(inspection.cell.dataset for inspection in inspections):
        part = [inspection for inspection in inspections if inspection.cell.dataset == dataset]
        ratio = part[0].cell.outliers
        images += _images(dataset, ratio, part)
        if not any(inspection.mask.any() for inspection in part):
            continue  # nothing to mark
        losses.append(
            Picture(
                residuals(part),
                f"{dataset}, {ratio:.0%} outliers: how many training rows have which loss under"
                " each net. Where the two colours stand apart, the loss alone tells the outliers.",
                f"Histograms of the losses of rows for {dataset}, outliers in a second colour.",
            )
        )
    if losses:
        losses.append(
            _recall_table([inspection for inspection in inspections if inspection.mask.any()])
        )
    sections = [Section("Images given back", images)] if images else []
    return [*sections, *([Section("Losses of single rows", losses)] if losses else [])]


def _images(dataset: str, ratio: float, inspections: Sequence[Inspection]) -> list[Part]:
    parts: list[Part] = []
    clean = reconstructions(inspections, outliers=False)
    if clean is not None:
        parts.append(
            Picture(
                clean,
                f"{dataset}: test images that no net has seen, and below what each gives back"
                f" after training with {ratio:.0%} outliers.",
                f"Rows of images of {dataset}: as they are, then as each net gives them back.",
            )
        )
    outliers = reconstructions(inspections, outliers=True)
    if outliers is not None:
        parts.append(
            Picture(
                outliers,
                f"{dataset}: outliers among the training images and what each net makes of them."
                " Black is the largest value of an outlier, which lies beyond that of any image.",
                f"Rows of noise in place of {dataset}: as it is, then as each net gives it back.",
            )
        )
    return parts


def _recall_table(inspections: Sequence[Inspection]) -> Table:
    frame = pd.DataFrame(
        {
            "data set": [inspection.cell.dataset for inspection in inspections],
            "trained with": [cell_name(inspection.cell) for inspection in inspections],
            "rows looked at": [len(inspection.mask) for inspection in inspections],
            "outliers among them": [int(inspection.mask.sum()) for inspection in inspections],
            "outliers found": [f"{100 * inspection.recall:.1f} %" for inspection in inspections],
        }
    )
    return Table.from_frame(
        frame,
        "Outliers among the rows that fit worst",
        remarks=(
            "Found is the share of the outliers among as many rows that fit worst: 100 % means that"
            " the loss ranks every outlier above every other row.",
        ),
    )
