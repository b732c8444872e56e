"""detection_report: the odd rows of a table, for people, on one HTML page."""

from __future__ import annotations

import numpy as np

from proxlin._checks import counted
from proxlin.app.tabular.detection import Detection
from proxlin.app.tabular.reporting.fit_drawings import score_drawing
from proxlin.app.tabular.reporting.fit_report import misfit_table, remarks_section
from proxlin.report.page import render
from proxlin.report.parts import Code, Report, Section, Text, Tiles
from proxlin.report.table import Field, Table

_ROWS_SHOWN = 30
_BLAMED = 5000  # odd rows whose worst columns are counted


def detection_report(found: Detection, source: str, command: str) -> str:
    """One HTML page: the oddest rows, the columns that are odd most often, and the scores."""
    flags, judged = found.judged.flags, found.judged
    count, rows = int(flags.sum()), len(flags)
    where = "where, and what the rest of the row suggests"
    misfits = found.worst(_ROWS_SHOWN)
    odd = np.flatnonzero(flags)[:_BLAMED]
    blamed = found.surprises(odd).argmax(axis=1) if count else np.empty(0, dtype=int)
    often = np.bincount(blamed, minlength=len(judged.names))
    columns: list[tuple[Field, ...]] = [
        (judged.names[j], int(often[j])) for j in np.argsort(-often, kind="stable") if often[j]
    ]
    sections = [
        Section(
            "Rows that do not fit the others",
            [
                misfit_table("The oddest rows", where, "score", misfits),
                score_drawing(judged, np.arange(1, rows + 1), found.cutoff),
                Text(
                    "The score says how many robust standard deviations a row is odder than a"
                    " middling one, by its place, its neighbours and its oddest cell; beyond"
                    f" {found.cutoff:g} it counts as odd. An odd row need not be a wrong one."
                ),
            ],
        )
    ]
    cells: list[tuple[Field, ...]] = [
        (row, cell.column, *reversed(cell.texts))
        for row, cell in found.other_cells(misfits, _ROWS_SHOWN)
    ]
    if cells:
        title = "Other single numbers far out"
        note = "Far from the others of their column, and from what the rest of their row suggests."
        head = ("row", "column", "got", "expected")
        sections.append(Section(title, [Table(title, head, cells, (note,))]))
    if columns:
        title = "Columns that are to blame most often"
        sections.append(Section(title, [Table(title, ("column", "odd rows"), columns)]))
    sections.append(remarks_section(found.notes))
    sections.append(Section("What was run", [Code(command)], folded=True))
    far, within = found.count_odd_cells()
    lead = f"{count:,} of {rows:,} rows ({count / rows:.1%}) do not fit the others."
    if far:
        lead += f" {counted(far, 'single number')} in {counted(within, 'row')} far out."
    tiles = {"odd rows": f"{count:,}", "single numbers far out": f"{far:,}", "rows": f"{rows:,}"}
    return render(Report(f"{source}: odd rows", lead, sections, Tiles(tiles)))
