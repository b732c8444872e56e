"""The report of a fit: what was run, on what, what came out, and which rows do not fit."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from proxlin._checks import counted
from proxlin.app.tabular.model import Misfit, TableModel
from proxlin.app.tabular.reading.columns import NumberColumn, show_number
from proxlin.app.tabular.reporting.fit_diagnostics import diagnostics
from proxlin.app.tabular.reporting.fit_drawings import (
    convergence,
    curves,
    predicted_against_actual,
    residuals,
    scores,
)
from proxlin.app.tabular.reporting.fit_summary import FitSummary
from proxlin.app.tabular.reporting.yardsticks import MIDDLE, MODEL
from proxlin.estimators import RobustAutoencoder, RobustRegressor
from proxlin.report.figure_text import show_figure
from proxlin.report.page import render
from proxlin.report.parts import Code, Facts, Part, Report, Section, Text, Tiles
from proxlin.report.table import Field, Figures, Table

_MOST_COEFFICIENTS = 40
_MOST_IMPORTANT = 12
_ABOUT = re.compile(r"(?P<start>(?:Test rows: )?)'(?P<name>[^']+)':? (?P<rest>.*)", re.DOTALL)
_MOST_TARGETS = 3  # that the first sentences and tiles speak of
_FORMS = {
    "number": "number",
    "date": "date, as days since 1970",
    "clock": "time, in hours",
    "truth": "yes or no, as 1 and 0",
}


def fit_report(summary: FitSummary, command: str) -> str:
    """One HTML page about the fit; `command` is what the user typed."""
    model = summary.fitted.model
    rebuilt = isinstance(model.estimator, RobustAutoencoder)
    errors: list[Part] = [_errors(summary, rebuilt), Text(_REBUILT if rebuilt else _ERRORS)]
    if not rebuilt:
        errors.insert(0, predicted_against_actual(summary))
    sections = [
        Section("How good it is", [*errors, *_choice(summary)]),
        *_caveats(summary),
        *_importances(summary),
        _misfits(summary, rebuilt),
    ]
    if isinstance(model.estimator, RobustRegressor) and hasattr(model.estimator, "coef_"):
        sections.append(_coefficients(model, model.estimator))
    history = getattr(model.estimator, "history_", None)
    curve = None if history is None else convergence(history)
    if curve is not None:
        status = str(summary.fitted.tested.estimator.result_.status)
        sections.append(Section("Training", [Text(status), curve]))
    sections += [_columns(summary), remarks_section(summary.fitted.notes), _run(summary, command)]
    what = ", ".join(model.target_names) or "all columns"
    title = f"{summary.source}: {'what belongs together' if rebuilt else what}"
    report = Report(title, lead(summary), sections, Tiles(_tiles(summary)))
    with warnings.catch_warnings():
        # A name in letters that the font of the drawings lacks is shown as boxes there.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        return render(report)


def lead(summary: FitSummary) -> str:
    """What came out, in two or three sentences."""
    outliers = summary.metrics["outliers"]
    share = f"{outliers['training_share']:.1%}"
    flagged = f"{outliers['training_rows']:,} of {len(summary.fitted.train.rows):,} training rows"
    lead = f"{summary.fitted.tested_on} {flagged} ({share}) do not fit what the others say."
    names = summary.fitted.model.target_names
    if not names:
        return lead
    clauses = [
        f"{_median(summary, name, MODEL)} for {name!r} (always answering the median:"
        f" {_median(summary, name, MIDDLE)})"
        for name in names[:_MOST_TARGETS]
    ]
    others = len(names) - len(clauses)
    more = f", and {counted(others, 'other')} in the table of errors" if others else ""
    return f"{lead} Half of the predictions are off by at most {', '.join(clauses)}{more}."


_ERRORS = (
    "The median error is that of a typical row: half of the rows are nearer, half are farther. Bad"
    " rows among the test rows cannot move it. The mean error and r² (the share of the variance"
    " that is explained) count every bad row in full, so that a model which rightly ignores bad"
    " rows can look worse by them."
)
_REBUILT = (
    "Each row was squeezed into a short code and rebuilt from it. The median error is that of a"
    " typical row: half of the rows are nearer, half are farther. Principal components do the same"
    " with squared errors; they follow bad cells, and a bad cell that is rebuilt well is not found."
    " A low mean error or a high r² is therefore no merit in a column with bad cells."
)
_SCORES = (
    "The outlier score of a row says how many robust standard deviations its error lies above the"
    " error of a middling training row. 0 is a middling row, below 0 fits better, beyond 3.5 counts"
    " as an outlier: fewer than 1 in 100 good rows with bell-shaped errors would come so far."
)


def _tiles(summary: FitSummary) -> dict[str, str]:
    outliers = summary.metrics["outliers"]
    tiles = {"of the training rows are outliers": f"{outliers['training_share']:.1%}"}
    names = summary.fitted.model.target_names
    for name in names[:_MOST_TARGETS]:
        tiles[f"median error of {name}"] = _median(summary, name, MODEL)
    if len(names) > _MOST_TARGETS:
        tiles["other targets, under Errors"] = f"and {len(names) - _MOST_TARGETS}"
    tiles["test rows"] = f"{len(summary.fitted.test.rows):,}"
    return tiles


def _median(summary: FitSummary, name: str, predictor: str) -> str:
    """The median error of a target."""
    (median,) = (
        error.median_absolute_error
        for error in summary.errors
        if (error.column, error.predictor) == (name, predictor)
    )
    return show_figure(median)


def _run(summary: FitSummary, command: str) -> Section:
    fitted, result = summary.fitted, summary.fitted.tested.estimator.result_
    p = fitted.settings.p
    additive = getattr(fitted.tested.estimator, "additive", None)
    facts = {
        "table": summary.source,
        "model": fitted.settings.kind,
        "loss": "squared errors" if p == "mse" else f"norm of a row's errors, p = {p:g}",
        "rows": fitted.tested_on,
        "seed": str(fitted.settings.seed),
        "training": f"{result.iterations:,} steps, {result.seconds:.1f} s. {result.status}",
        "versions": ", ".join(f"{k} {v}" for k, v in summary.metrics["versions"].items()),
    }
    if additive is not None:
        facts["additive model"] = (
            f"strength {additive.strength:g}; its objective is at most"
            f" {max(additive.gap, 1e-12):.1e} above the minimum, relative (duality gap)"
        )
    return Section("What was run", [Code(command), Facts(facts)], folded=True)


def _columns(summary: FitSummary) -> Section:
    encoding = summary.fitted.model.encoding
    rows: list[tuple[Field, ...]] = []
    for role, columns in (("target", encoding.targets), ("feature", encoding.features)):
        for column in columns:
            if isinstance(column, NumberColumn):
                rows.append(
                    (
                        column.name,
                        role,
                        _FORMS[column.reading.form],
                        show_number(column.fill, column.reading),
                    )
                )
            else:
                levels = ", ".join(column.levels[:6]) + (" …" if len(column.levels) > 6 else "")
                rows.append((column.name, role, f"category of {len(column.levels)}", levels))
    used = Table("Columns that were used", ("column", "role", "kind", "median or values"), rows)
    return Section("The columns", [used], folded=True)


def remarks_section(notes: Sequence[str]) -> Section:
    """Everything that was done to the table, column by column."""
    rows: list[tuple[Field, ...]] = []
    for note in notes:
        about = _ABOUT.fullmatch(note)
        rows.append((about["name"], about["start"] + about["rest"]) if about else ("", note))
    rows = rows or [("", "Nothing had to be done.")]
    table = Table("What was done to the table", ("column", "what"), rows)
    return Section("What was done to the table", [table], folded=True)


def _choice(summary: FitSummary) -> list[Part]:
    """The families beside each other, if there was a choice."""
    families = summary.metrics["families"]
    if not families:
        return []
    best = min(family["held_out_error"] for family in families)
    rows: list[tuple[Field, ...]] = [
        (
            family["family"],
            Figures((f"{family['held_out_error']:.4f}",), (family["held_out_error"] == best,)),
            f"{family['weight']:.0%}",
            round(family["seconds"], 1),
        )
        for family in families
    ]
    remark = (
        "Mean error of training rows that the members had not seen, in robust deviations of the"
        " target; rows that no family predicts within three deviations do not count. The model is"
        " the average by these weights."
    )
    headings = ("family", "held-out error", "weight", "seconds")
    parts: list[Part] = [
        Table("What was tried, and what held-out rows said", headings, rows, (remark,))
    ]
    return parts


def _importances(summary: FitSummary) -> list[Section]:
    shares = summary.metrics["importances"]
    if not shares:
        return []
    top = [(name, share) for name, share in shares.items() if share > 0][:_MOST_IMPORTANT]
    rows: list[tuple[Field, ...]] = [(name, f"{share:+,.0%}") for name, share in top]
    table = Table(
        "By how much the error grows when a column is shuffled",
        ("column", "error"),
        rows or [("none", "")],
        ("Good test rows only. Columns that say the same can stand in for each other.",),
    )
    drawing = curves(summary, [name for name, _ in top])
    return [Section("What matters", [table, *([drawing] if drawing else [])])]


def _errors(summary: FitSummary, rebuilt: bool) -> Table:
    rows: list[tuple[Field, ...]] = []
    for column in dict.fromkeys(error.column for error in summary.errors):
        group = [error for error in summary.errors if error.column == column]
        best = min(error.median_absolute_error for error in group)
        for error in group:
            median = Figures(
                (show_figure(error.median_absolute_error),),
                (error.median_absolute_error == best,),
            )
            r2 = float("nan") if error.r2 is None else error.r2
            rows.append(
                (column, error.predictor, median, show_figure(error.mean_absolute_error), r2)
            )
    headings: tuple[str, ...] = ("column", "predicted by", "median error", "mean error", "r²")
    what = "numbers after a way through the code" if rebuilt else "targets"
    if len({error.column for error in summary.errors}) == 1:
        # A phone is narrow.
        what, headings, rows = repr(summary.errors[0].column), headings[1:], [r[1:] for r in rows]
    several = " of each column" if "column" in headings else ""
    lowest = f"The lowest median error{several} is bold."
    return Table(
        f"Errors of {what}, test rows",
        headings,
        rows,
        (summary.fitted.tested_on, lowest),
    )


def _caveats(summary: FitSummary) -> list[Section]:
    caveats = summary.metrics["caveats"]
    return [Section("What to keep in mind", [Text("\n\n".join(caveats))])] if caveats else []


def misfit_table(title: str, where: str, score: str, misfits: Sequence[Misfit]) -> Table:
    """Rows with their odd cells; `where` and `score` head these two columns."""
    rows: list[tuple[Field, ...]] = []
    for misfit in misfits:
        cells = "; ".join(
            f"{cell.column}: {got}, expected {expected}"
            for cell in misfit.cells
            for expected, got in (cell.texts,)
        )
        rows.append((misfit.row, cells, round(misfit.score, 1), misfit.outlier))
    remark = "Rows are counted from 1, without the line of names."
    return Table(title, ("row", where, score, "outlier"), rows, (remark,))


def _misfits(summary: FitSummary, rebuilt: bool) -> Section:
    where = "where, and what the model expects"
    table = misfit_table("Training rows that fit worst", where, "outlier score", summary.worst)
    drawings = [scores(summary)] if rebuilt else [residuals(summary), scores(summary)]
    if not rebuilt:
        drawings.append(diagnostics(summary))
    return Section("Rows that do not fit", [Text(_SCORES), *drawings, table])


def _coefficients(model: TableModel, line: RobustRegressor) -> Section:
    """What moves the targets, the strongest first."""
    weights = abs(line.coef_).max(axis=0)
    order = weights.argsort(kind="stable")[::-1][:_MOST_COEFFICIENTS]
    scales = [column.scale for column in model.encoding.targets]
    rows: list[tuple[Field, ...]] = [
        (
            model.encoding.labels[j],
            *(show_figure(w * s) for w, s in zip(line.coef_[:, j], scales, strict=True)),
        )
        for j in order
    ]
    table = Table(
        "What the linear model learned",
        ("column", *model.target_names),
        rows,
        (
            "How much the prediction changes when the column grows by one robust standard"
            " deviation, or when the category is the one named.",
        ),
    )
    return Section("Coefficients", [table])
