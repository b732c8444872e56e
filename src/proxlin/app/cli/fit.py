"""`proxlin fit`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from proxlin._checks import check_open_interval
from proxlin.app.cli.options import comma_separated
from proxlin.app.cli.session import Interrupts, leads
from proxlin.app.cli.terminal import Stages, console, printable, say
from proxlin.app.tabular import FitSettings, fit_table, read_table_file
from proxlin.app.tabular.fitting import Fitted
from proxlin.app.tabular.reporting.fit_report import fit_report, lead
from proxlin.app.tabular.reporting.fit_summary import FitSummary
from proxlin.app.tabular.storage.model_folder import check_destination, write_folder
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.methods.contract import Status
from proxlin.problem.loss import Exponent
from proxlin.report.figure_text import show_figure

_MOST_NOTES = 12
_INTERRUPTED = "Interrupted: nothing was written."
_BEST_SO_FAR = "Interrupted: training ended early; the best model until then was written."
_KEPT = "Interrupted: no model was written; the same command goes on from the checkpoint."


def fit(
    table: Annotated[Path, typer.Argument(help="CSV, Excel, Parquet or ARFF.", show_default=False)],
    *,
    targets: Annotated[
        str | None,
        typer.Option(help="Columns to predict, such as price,rent. Without: find outliers."),
    ] = None,
    features: Annotated[str | None, typer.Option(help="Use only these columns.")] = None,
    drop: Annotated[str | None, typer.Option(help="Leave these columns out.")] = None,
    p: Annotated[str, typer.Option(help="Norm of a row's errors: a number >= 1, inf, mse.")] = "1",
    model: Annotated[
        str | None,
        typer.Option(help="auto, linear, additive, kernel, trees, forest, net, mlp, autoencoder."),
    ] = None,
    hidden: Annotated[str | None, typer.Option(help="Widths of layers, such as 64,64.")] = None,
    code: Annotated[int | None, typer.Option(help="Width of an autoencoder's code.")] = None,
    regularizer: Annotated[
        str, typer.Option(help="auto, none, ridge, lasso, elasticnet or group.")
    ] = "auto",
    alpha: Annotated[
        str | None, typer.Option(help="Weight of the regulariser, or auto. Default: 0.001.")
    ] = None,
    reweight: Annotated[
        bool, typer.Option("--reweight", help="Rows that do not fit lose their weight.")
    ] = False,
    leverage: Annotated[
        bool, typer.Option("--leverage", help="Distrust rows whose features are far out.")
    ] = False,
    test: Annotated[Path | None, typer.Option(help="A table with the test rows.")] = None,
    test_share: Annotated[
        float | None, typer.Option(help="Share of rows held out for the test. Default: 0.2.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option(help="Separator of a CSV file, if it is not detected.")
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Let predict add bounds that contain this share of good rows, such as 0.9."
        ),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Time budget for training.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints; the same command resumes.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for everything random.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the model and its report.")] = Path(
        "proxlin-model"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing model.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON.")] = False,
) -> None:
    """Train a model on your own table that bad rows cannot pull away.

    Categories, dates and missing cells are handled, and every decision is reported. The
    folder holds the model, metrics.json, predictions.csv and report.html. Under torchrun all
    processes train a net together.
    """
    if test is not None and test_share is not None:
        raise InvalidInputError("--test and --test-share exclude each other; give one of them.")
    interval = None if interval is None else check_open_interval("--interval", interval, 0, 1)
    settings = FitSettings(
        targets=_columns("--targets", targets) or (),
        features=_columns("--features", features),
        drop=_columns("--drop", drop) or (),
        p=_exponent(p),
        model=model,
        hidden=comma_separated("--hidden", hidden, int),
        code=code,
        regularizer=regularizer,
        alpha=_alpha(alpha),
        reweight=reweight,
        leverage=leverage,
        test_share=0.2 if test_share is None else test_share,
        seconds=seconds,
        checkpoint=None if checkpoint is None else str(checkpoint),
        seed=seed,
    )
    if checkpoint is not None:
        _check_apart(checkpoint, out)
    if leads():
        check_destination(out, overwrite=overwrite)
    command = shlex.join(["proxlin", *sys.argv[1:]])
    try:
        with Interrupts() as interrupts, Stages(show=not (quiet or as_json)) as stages:
            stages(f"reading {table.name}")
            rows = read_table_file(table, separator=separator)
            others = None if test is None else read_table_file(test, separator=separator)
            fitted = fit_table(
                rows, settings, test=others, tell=stages, callbacks=[stages.training]
            )
            # Training hears Ctrl-C itself and returns the best so far: that is kept, unless a
            # checkpoint lets the same command go on.
            ended_early = fitted.tested.estimator.result_.status is Status.INTERRUPTED
            if ended_early and checkpoint is not None:
                raise KeyboardInterrupt
            if not ended_early:
                interrupts.check()
            interrupts.hit = False
            if not leads():
                return
            _keep_interval(fitted, interval)
            stages("measuring")
            summary = FitSummary.of(fitted, table.name)
            stages("writing the report")
            files = summary.files(fit_report(summary, command))
            interrupts.check()
            write_folder(out, files, overwrite=overwrite)
    except KeyboardInterrupt:
        if leads():
            typer.echo(_INTERRUPTED if checkpoint is None else _KEPT, err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps({**summary.metrics, "folder": str(out)}, indent=1))
    elif not quiet:
        _show(summary, out)
    if ended_early:
        typer.echo(_BEST_SO_FAR, err=True)
        raise typer.Exit(130)


def _check_apart(checkpoint: Path, out: Path) -> None:
    """The folder of the model is replaced as a whole."""
    inner, outer = checkpoint.resolve(), out.resolve()
    if inner == outer or outer in inner.parents:
        raise CombinationError(
            f"--checkpoint must be a folder outside of --out, which holds the model and nothing"
            f" else; got {checkpoint} and {out}. Choose another one of them."
        )


def _columns(name: str, text: str | None) -> tuple[str, ...] | None:
    columns = comma_separated(name, text, str)
    if columns == ():
        raise InvalidInputError(f"{name} must name at least one column; got {text!r}.")
    return columns


def _keep_interval(fitted: Fitted, coverage: float | None) -> None:
    """What `proxlin predict` adds by default; a model that has no bounds says so at once."""
    if coverage is not None:
        fitted.model.bounds(fitted.train.encoded[:1], coverage)
        fitted.model.facts["interval"] = coverage


def _exponent(text: str) -> Exponent:
    if text == "mse":
        return "mse"
    try:
        return float(text)
    except ValueError as cause:
        raise InvalidInputError(
            f'--p must be a number >= 1, inf or "mse"; got {text!r}.'
        ) from cause


def _alpha(text: str | None) -> float | Literal["auto"] | None:
    if text is None or text == "auto":
        return text  # type: ignore[return-value]
    try:
        return float(text)
    except ValueError as cause:
        raise InvalidInputError(f"--alpha must be a number >= 0 or auto; got {text!r}.") from cause


def _share(r2: float | None) -> str:
    if r2 is None:
        return "-"
    return f"{r2:.3f}" if r2 > -10 else show_figure(r2)


def _show(summary: FitSummary, out: Path) -> None:
    """What came out first; what was done to the table stands in the report."""
    say(printable(lead(summary)))
    table = Table(title="Errors on the test rows")
    for heading in ("column", "predicted by"):
        table.add_column(heading, overflow="fold")
    for heading in ("median error", "mean error", "r2"):
        table.add_column(heading, justify="right")
    for error in summary.errors:
        shown = [
            show_figure(number)
            for number in (error.median_absolute_error, error.mean_absolute_error)
        ]
        table.add_row(printable(error.column), error.predictor, *shown, _share(error.r2))
    console.print(table, markup=False)
    wrong = summary.metrics["outliers"]["test_rows"]
    if wrong:
        these = "is an outlier itself; it decides"
        if wrong > 1:
            these = "are outliers themselves; they decide"
        say(f"{wrong:,} of the test rows {these} mean error and r2: look at the median error.")
    if len(summary.metrics["families"]) > 1:
        families = Table(title="What was tried: error on held-out rows, in robust deviations")
        for heading in ("family", "held-out error", "weight"):
            families.add_column(heading, justify="left" if heading == "family" else "right")
        for family in summary.metrics["families"]:
            figures = (f"{family['held_out_error']:.4f}", f"{family['weight']:.0%}")
            families.add_row(family["family"], *figures)
        console.print(families, markup=False)
    matter = [name for name, share in summary.metrics["importances"].items() if share > 0.01]
    if matter:
        say(printable(f"What matters most: {', '.join(matter[:5])}."))
    for caveat in summary.metrics["caveats"]:
        say(f"Caveat: {printable(caveat)}")
    for note in summary.fitted.notes[:_MOST_NOTES]:
        say(f"- {printable(note)}")
    if len(summary.fitted.notes) > _MOST_NOTES:
        say(f"- and {len(summary.fitted.notes) - _MOST_NOTES} more remarks in the report")
    say(str(summary.fitted.tested.estimator.result_.status))
    say(f"Report: {out / 'report.html'}")
