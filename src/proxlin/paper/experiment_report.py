"""The report of an experiment: what was run, how it stands to the paper, and what the nets do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from proxlin.paper.catalog import EXPERIMENTS, Experiment
from proxlin.paper.experiment_sections import (
    against_the_paper,
    convergence_section,
    robustness_section,
    row_sections,
)
from proxlin.paper.grid import Cell, Grid
from proxlin.paper.store import Record
from proxlin.paper.table1 import Score, short
from proxlin.report import Code, Facts, Part, Picture, Report, Section, Table, Text, Tiles

_READING = (
    "A net is trained while a share of its training rows is replaced by noise: the outliers. On"
    " images the net is an autoencoder, which gives back what it is shown; on tables it is a"
    " regressor, which predicts several numbers at once. The loss of a row is the p-norm of what"
    " the net gets wrong in it, or the square of the 2-norm for squared error.\n\n"
    "F_OBJ is what training lowers: the mean loss of all training rows, outliers included, plus a"
    " small penalty on the size of the parameters. F_NOUTL is the mean loss of the training rows"
    " that are no outliers, F_TEST that of test rows, none of which is an outlier. Lower is better."
    "\n\nThe paper is A. Moharrer, K. Kamran, E. Yeh and S. Ioannidis, Robust Regression via Model"
    " Based Methods (ECML PKDD 2021). Its best is the lowest figure of any of its methods."
)


def experiment_report(
    experiment: Experiment,
    cells: Sequence[Cell],
    records: Mapping[str, Record],
    *,
    table: pd.DataFrame,
    scores: Sequence[Score],
    failures: Mapping[str, str],
    remarks: Sequence[str],
    accuracy: Sequence[Table] = (),
    figure: Picture | None = None,
) -> Report:
    """A page for readers who do not know the paper.

    `table` is what `compare` makes of the runs; `accuracy` and `figure` are the experiment's own,
    where it has them.
    """
    paper = experiment.grid.rows is None
    own: list[Part] = [*([figure] if figure else []), *accuracy]
    sections = [
        Section("What was run", _what(experiment, cells, records, failures)),
        *([Section(experiment.title.split(":")[0], own)] if own else []),
        *against_the_paper(table, tuple(remarks)),
        *convergence_section(cells, records, paper=paper),
        *robustness_section(table, paper=paper),
        *row_sections(cells, records),
    ]
    tiles = {
        **{_beaten(score): f"{score.better} of {score.compared}" for score in scores},
        "training runs": f"{len(records)}",
        "of training each": _budget(experiment.grid),
    }
    return Report(
        experiment.title,
        _lead(experiment.grid, records, scores),
        sections,
        Tiles(tiles),
    )


def _beaten(score: Score) -> str:
    return f"figures of {score.method} beat the paper's best"


def _lead(grid: Grid, records: Mapping[str, Record], scores: Sequence[Score]) -> str:
    budget = _budget(grid)
    start = f"{len(records)} training runs, {budget} each."
    if not scores:
        return f"{start} None of their figures has a published one to stand beside."
    best = max(scores, key=lambda score: score.better / score.compared)
    return (
        f"{start} The method {best.method} is better than the best the paper reports in"
        f" {best.better} of {best.compared} figures."
    )


def _budget(grid: Grid) -> str:
    parts = [] if grid.seconds is None else [f"{grid.seconds:g} s"]
    return " and ".join(parts + ([] if grid.steps is None else [f"{grid.steps:,} steps"]))


def command(experiment: Experiment) -> str:
    """What to type for this experiment; only what differs from its defaults."""
    grid, usual = experiment.grid, EXPERIMENTS[experiment.name].grid
    words = ["proxlin", "reproduce", experiment.name]
    lists = {
        "datasets": "datasets", "outliers": "outliers", "p": "exponents",
        "methods": "methods", "seeds": "seeds",
    }  # fmt: skip
    for option, axis in lists.items():
        if getattr(grid, axis) != getattr(usual, axis):
            words += [f"--{option}", ",".join(short(value) for value in getattr(grid, axis))]
    for option in ("seconds", "steps", "rows"):
        value = getattr(grid, option)
        if value is not None and value != getattr(usual, option):
            words += [f"--{option}", short(value)]
    return " ".join(words)


def _what(
    experiment: Experiment,
    cells: Sequence[Cell],
    records: Mapping[str, Record],
    failures: Mapping[str, str],
) -> list[Part]:
    grid = experiment.grid
    facts: dict[str, object] = {
        "data sets": ", ".join(grid.datasets),
        "share of outliers": ", ".join(f"{ratio:g}" for ratio in grid.outliers),
        "norms p": ", ".join(f"{p:g}" for p in grid.exponents),
        "methods": ", ".join(grid.methods),
        "seeds": ", ".join(map(str, grid.seeds)),
        "training of each": _budget(grid),
        "training runs": f"{len(records)} of {len(cells)} finished",
        **_made_with(records),
    }
    parts: list[Part] = [Code(command(experiment)), Facts(facts), Text(_READING)]
    if failures:
        rows = [(name, sentence) for name, sentence in failures.items()]
        parts.append(Table("What failed", ("run", "why"), rows))
    return parts


def _made_with(records: Mapping[str, Record]) -> dict[str, object]:
    """What made most of the records, and when the last was finished."""
    versions = [record["versions"] for record in records.values() if "versions" in record]
    if not versions:
        return {}
    most_common: dict[str, object] = {
        name: Counter(str(made_with.get(name, "unknown")) for made_with in versions).most_common(1)[
            0
        ][0]
        for name in ("proxlin", "torch", "python", "machine", "threads")
    }
    finished = max(str(made_with["finished"]) for made_with in versions)
    return {**most_common, "last finished": finished.replace("T", " ").replace("+00:00", " UTC")}
