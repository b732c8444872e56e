"""The report of a fit: what was run, on what, what came out, and which rows do not fit."""

from __future__ import annotations

import warnings

from proxlin.app.tabular.columns import NumberColumn, show_number, show_plain
from proxlin.app.tabular.fit_drawings import convergence, residuals, scores
from proxlin.app.tabular.fit_summary import FitSummary
from proxlin.app.tabular.model import TableModel
from proxlin.app.tabular.yardsticks import MIDDLE, MODEL
from proxlin.estimators import RobustAutoencoder, RobustRegressor
from proxlin.report.page import render
from proxlin.report.parts import Code, Facts, Report, Section, Text, Tiles
from proxlin.report.table import Field, Figures, Table

_MOST_COEFFICIENTS = 40
_MOST_TARGETS = 3  # that the first sentences and tiles speak of
_FORMS = {"number": "number", "date": "date, as days since 1970", "truth": "yes or no, as 1 and 0"}


def fit_report(summary: FitSummary, command: str) -> str:
    """One HTML page about the fit; `command` is what the user typed."""
    model = summary.fitted.model
    rebuilt = isinstance(model.estimator, RobustAutoencoder)
    sections = [
        _run(summary, command),
        _data(summary),
        Section("Errors", [_errors(summary, rebuilt), Text(_REBUILT if rebuilt else _ERRORS)]),
        *_caveats(summary),
        _misfits(summary, rebuilt),
    ]
    if isinstance(model.estimator, RobustRegressor) and hasattr(model.estimator, "coef_"):
        sections.append(_coefficients(model, model.estimator))
    curve = convergence(model.estimator.history_)
    if curve is not None:
        sections.append(Section("Training", [Text(str(model.estimator.result_.status)), curve]))
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
    more = f", and {others} other(s) in the table of errors" if others else ""
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
        tiles["other target(s), under Errors"] = f"and {len(names) - _MOST_TARGETS}"
    tiles["test rows"] = f"{len(summary.fitted.test.rows):,}"
    return tiles


def _median(summary: FitSummary, name: str, predictor: str) -> str:
    """The median error of a target."""
    (median,) = (
        error.median_absolute_error
        for error in summary.errors
        if (error.column, error.predictor) == (name, predictor)
    )
    return show_plain(median, 4)


def _run(summary: FitSummary, command: str) -> Section:
    fitted, result = summary.fitted, summary.fitted.model.estimator.result_
    p = fitted.settings.p
    facts = {
        "table": summary.source,
        "model": fitted.settings.kind,
        "loss": "squared errors" if p == "mse" else f"norm of a row's errors, p = {p:g}",
        "rows": fitted.tested_on,
        "seed": str(fitted.settings.seed),
        "training": f"{result.iterations:,} steps, {result.seconds:.1f} s. {result.status}",
        "versions": ", ".join(f"{k} {v}" for k, v in summary.metrics["versions"].items()),
    }
    return Section("What was run", [Code(command), Facts(facts)])


def _data(summary: FitSummary) -> Section:
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
    notes = summary.fitted.notes or ("Nothing had to be done.",)
    done = "\n\n".join(["What was done to the table:", *notes])
    return Section("The data", [used, Text(done)])


def _errors(summary: FitSummary, rebuilt: bool) -> Table:
    rows: list[tuple[Field, ...]] = []
    for column in dict.fromkeys(error.column for error in summary.errors):
        group = [error for error in summary.errors if error.column == column]
        best = min(error.median_absolute_error for error in group)
        for error in group:
            median = Figures(
                (show_plain(error.median_absolute_error, 4),),
                (error.median_absolute_error == best,),
            )
            r2 = float("nan") if error.r2 is None else error.r2
            rows.append(
                (column, error.predictor, median, show_plain(error.mean_absolute_error, 4), r2)
            )
    headings: tuple[str, ...] = ("column", "predicted by", "median error", "mean error", "r²")
    what = "numbers after a way through the code" if rebuilt else "targets"
    if len({error.column for error in summary.errors}) == 1:
        # A phone is narrow.
        what, headings, rows = repr(summary.errors[0].column), headings[1:], [r[1:] for r in rows]
    return Table(
        f"Errors of {what}, test rows",
        headings,
        rows,
        (summary.fitted.tested_on, "The lowest median error of each column is bold."),
    )


def _caveats(summary: FitSummary) -> list[Section]:
    caveats = summary.metrics["caveats"]
    return [Section("What to doubt", [Text("\n\n".join(caveats))])] if caveats else []


def _misfits(summary: FitSummary, rebuilt: bool) -> Section:
    rows: list[tuple[Field, ...]] = []
    for misfit in summary.worst:
        where = "; ".join(
            f"{cell.column}: {got}, expected {expected}"
            for cell in misfit.cells
            for expected, got in (cell.texts,)
        )
        rows.append((misfit.row, round(misfit.score, 1), misfit.outlier, where))
    table = Table(
        "Training rows that fit worst",
        ("row", "outlier score", "outlier", "where, and what the model expects"),
        rows,
        ("Rows are counted from 1, without the line of names.",),
    )
    drawings = [scores(summary)] if rebuilt else [residuals(summary), scores(summary)]
    return Section("Rows that do not fit", [Text(_SCORES), *drawings, table])


def _coefficients(model: TableModel, line: RobustRegressor) -> Section:
    """What moves the targets, the strongest first."""
    weights = abs(line.coef_).max(axis=0)
    order = weights.argsort(kind="stable")[::-1][:_MOST_COEFFICIENTS]
    scales = [column.scale for column in model.encoding.targets]
    rows: list[tuple[Field, ...]] = [
        (
            model.encoding.labels[j],
            *(show_plain(w * s, 4) for w, s in zip(line.coef_[:, j], scales, strict=True)),
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
