"""The report of a fit: what was run, on what, what came out, and which rows do not fit."""

from __future__ import annotations

import warnings

from proxlin.app.tabular.columns import NumberColumn, show_number, show_plain
from proxlin.app.tabular.measures import MIDDLE, MODEL
from proxlin.app.tabular.model import TableModel
from proxlin.app.tabular.outcome import Outcome
from proxlin.app.tabular.pictures import convergence, residuals, scores
from proxlin.estimators import RobustAutoencoder, RobustRegressor
from proxlin.report.page import render
from proxlin.report.parts import Code, Facts, Report, Section, Text, Tiles
from proxlin.report.table import Field, Figures, Table

_MOST_COEFFICIENTS = 40
_MOST_TARGETS = 3  # that the first sentences and tiles speak of
_FORMS = {"number": "number", "date": "date, as days since 1970", "truth": "yes or no, as 1 and 0"}


def fit_report(outcome: Outcome, command: str) -> str:
    """One HTML page about the fit; `command` is what the user typed."""
    model = outcome.fitted.model
    rebuilt = isinstance(model.estimator, RobustAutoencoder)
    sections = [
        _run(outcome, command),
        _data(outcome),
        Section("Errors", [_errors(outcome, rebuilt), Text(_REBUILT if rebuilt else _ERRORS)]),
        *_doubts(outcome),
        _misfits(outcome, rebuilt),
    ]
    if isinstance(model.estimator, RobustRegressor) and hasattr(model.estimator, "coef_"):
        sections.append(_coefficients(model, model.estimator))
    curve = convergence(model.estimator.history_)
    if curve is not None:
        sections.append(Section("Training", [Text(str(model.estimator.result_.status)), curve]))
    what = ", ".join(model.target_names) or "all columns"
    title = f"{outcome.source}: {'what belongs together' if rebuilt else what}"
    report = Report(title, lead(outcome), sections, Tiles(_tiles(outcome)))
    with warnings.catch_warnings():
        # A name in letters that the font of the drawings lacks is shown as boxes there.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        return render(report)


def lead(outcome: Outcome) -> str:
    """What came out, in two or three sentences."""
    found = outcome.metrics["outliers"]
    share = f"{found['training_share']:.1%}"
    flagged = f"{found['training_rows']:,} of {len(outcome.fitted.train.rows):,} training rows"
    told = f"{outcome.fitted.tested_on} {flagged} ({share}) do not fit what the others say."
    names = outcome.fitted.model.target_names
    if not names:
        return told
    clauses = [
        f"{_median(outcome, name, MODEL)} for {name!r} (always answering the median:"
        f" {_median(outcome, name, MIDDLE)})"
        for name in names[:_MOST_TARGETS]
    ]
    others = len(names) - len(clauses)
    more = f", and {others} other(s) in the table of errors" if others else ""
    return f"{told} Half of the predictions are off by at most {', '.join(clauses)}{more}."


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


def _tiles(outcome: Outcome) -> dict[str, str]:
    found = outcome.metrics["outliers"]
    tiles = {"of the training rows are outliers": f"{found['training_share']:.1%}"}
    names = outcome.fitted.model.target_names
    for name in names[:_MOST_TARGETS]:
        tiles[f"median error of {name}"] = _median(outcome, name, MODEL)
    if len(names) > _MOST_TARGETS:
        tiles["other target(s), under Errors"] = f"and {len(names) - _MOST_TARGETS}"
    tiles["test rows"] = f"{len(outcome.fitted.test.rows):,}"
    return tiles


def _median(outcome: Outcome, name: str, predictor: str) -> str:
    """The median error of a target."""
    (found,) = (
        error.median_absolute_error
        for error in outcome.errors
        if (error.column, error.predictor) == (name, predictor)
    )
    return show_plain(found, 4)


def _run(outcome: Outcome, command: str) -> Section:
    fitted, result = outcome.fitted, outcome.fitted.model.estimator.result_
    p = fitted.settings.p
    facts = {
        "table": outcome.source,
        "model": fitted.settings.kind,
        "loss": "squared errors" if p == "mse" else f"norm of a row's errors, p = {p:g}",
        "rows": fitted.tested_on,
        "seed": str(fitted.settings.seed),
        "training": f"{result.iterations:,} steps, {result.seconds:.1f} s. {result.status}",
        "versions": ", ".join(f"{k} {v}" for k, v in outcome.metrics["versions"].items()),
    }
    return Section("What was run", [Code(command), Facts(facts)])


def _data(outcome: Outcome) -> Section:
    encoding = outcome.fitted.model.encoding
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
    notes = outcome.fitted.notes or ("Nothing had to be done.",)
    done = "\n\n".join(["What was done to the table:", *notes])
    return Section("The data", [used, Text(done)])


def _errors(outcome: Outcome, rebuilt: bool) -> Table:
    rows: list[tuple[Field, ...]] = []
    for column in dict.fromkeys(error.column for error in outcome.errors):
        group = [error for error in outcome.errors if error.column == column]
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
    if len({error.column for error in outcome.errors}) == 1:
        # A phone is narrow.
        what, headings, rows = repr(outcome.errors[0].column), headings[1:], [r[1:] for r in rows]
    return Table(
        f"Errors of {what}, test rows",
        headings,
        rows,
        (outcome.fitted.tested_on, "The lowest median error of each column is bold."),
    )


def _doubts(outcome: Outcome) -> list[Section]:
    told = outcome.metrics["doubts"]
    return [Section("What to doubt", [Text("\n\n".join(told))])] if told else []


def _misfits(outcome: Outcome, rebuilt: bool) -> Section:
    rows: list[tuple[Field, ...]] = []
    for one in outcome.worst:
        where = "; ".join(
            f"{cell.column}: {got}, expected {expected}"
            for cell in one.cells
            for expected, got in (cell.texts,)
        )
        rows.append((one.row, round(one.score, 1), one.outlier, where))
    table = Table(
        "Training rows that fit worst",
        ("row", "outlier score", "outlier", "where, and what the model expects"),
        rows,
        ("Rows are counted from 1, without the line of names.",),
    )
    drawings = [scores(outcome)] if rebuilt else [residuals(outcome), scores(outcome)]
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
