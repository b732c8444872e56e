"""`proxlin reproduce`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from proxlin.app.cli.bars import Bars
from proxlin.app.cli.options import comma_separated
from proxlin.app.cli.output import make_writable, show_table
from proxlin.app.cli.session import Interrupts, leads
from proxlin.app.cli.terminal import console, say
from proxlin.paper.catalog import EXPERIMENTS, experiment
from proxlin.paper.grid import METHODS
from proxlin.paper.reproduction import Plan, Reproduction
from proxlin.paper.reproduction import plan as make_plan
from proxlin.paper.reproduction import reproduce as carry_out
from proxlin.paper.runner import Engine

_WHAT = f"One of {', '.join(EXPERIMENTS)}."


def reproduce(
    what: Annotated[str, typer.Argument(help=_WHAT, show_default=False)],
    *,
    out: Annotated[Path, typer.Option(help="Folder for cells, tables and figures.")] = Path(
        "proxlin-experiments"
    ),
    datasets: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    outliers: Annotated[str | None, typer.Option(help="Ratios, such as 0,0.3.")] = None,
    p: Annotated[str | None, typer.Option(help="Exponents, such as 1,1.5.")] = None,
    methods: Annotated[str | None, typer.Option(help=f"Of {', '.join(METHODS)}.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds, such as 0,1,2. Default: 0.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Training time of each cell. Default: 60, without --steps.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Training steps of each cell: same bits on every run.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Only so many training rows, for a quick look.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Cells at once; they share the cores.")] = 1,
    backend: Annotated[str, typer.Option(help="loky (this machine) or dask.")] = "loky",
    address: Annotated[str | None, typer.Option(help="Of the dask scheduler.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and stop.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON.")] = False,
) -> None:
    """The paper's tables and figures, with the published figures beside ours.

    Each finished cell is a file; the same command continues where an earlier one stopped.
    """
    chosen = experiment(
        what,
        datasets=comma_separated("--datasets", datasets, str),
        outliers=comma_separated("--outliers", outliers, float),
        exponents=comma_separated("--p", p, float),
        methods=comma_separated("--methods", methods, str),
        seeds=comma_separated("--seeds", seeds, int),
        seconds=seconds,
        steps=steps,
        rows=rows,
    )
    engine = Engine(jobs=jobs, backend=backend, address=address)
    if dry_run:
        _show_plan(make_plan(chosen, out, engine), chosen.title, out, as_json)
        return
    make_writable(out)
    try:
        with (
            Interrupts() as interrupts,
            Bars(show=not (quiet or as_json), after_each=interrupts.check) as bars,
        ):
            reproduction = carry_out(chosen, out, engine=engine, watch=bars)
    except KeyboardInterrupt:
        if leads():
            left = make_plan(chosen, out, engine)
            typer.echo(
                f"Interrupted: {len(left.cells) - len(left.left)} of {len(left.cells)} cells are"
                " finished; the same command goes on from there.",
                err=True,
            )
        raise typer.Exit(130) from None
    if reproduction is None:  # another process of torchrun speaks
        return
    _show(reproduction, what, quiet, as_json)
    if reproduction.failures:
        raise typer.Exit(1)


def _show_plan(plan: Plan, title: str, out: Path, as_json: bool) -> None:
    if as_json:
        names = [cell.name for cell in plan.left]
        summary = {
            "cells": len(plan.cells),
            "left": names,
            "classifiers_left": plan.classifiers,
            "estimated_seconds": plan.seconds,
        }
        console.print_json(json.dumps(summary))
        return
    say(title)
    say(f"{len(plan.cells)} cells in {out}, {len(plan.cells) - len(plan.left)} finished.")
    counts = Counter((cell.dataset, cell.method) for cell in plan.left)
    for (dataset, method), count in counts.items():
        say(f"  to run: {count:4d} x {dataset}, {method}")
    if plan.classifiers:
        say(f"  to run: {plan.classifiers:4d} x logistic regression on codes")
    if plan.seconds is None:
        say("No estimate of the time: only the steps are limited.")
    else:
        say(f"About {_duration(plan.seconds)}.")


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _show(reproduction: Reproduction, what: str, quiet: bool, as_json: bool) -> None:
    outcome = reproduction.outcome
    if as_json:
        summary: dict[str, Any] = {
            "what": what,
            "cells": len(outcome.records),
            "made_now": outcome.made,
            "failures": reproduction.failures,
            "scores": [vars(score) for score in reproduction.written.scores],
            "files": [str(path) for path in reproduction.files],
            "report": str(reproduction.files[-1]),
        }
        console.print_json(json.dumps(summary))
        return
    for name, sentence in reproduction.failures.items():
        typer.echo(f"failed: {name}: {sentence}", err=True)
    if quiet:
        return
    for table in reproduction.written.tables:
        if table.rows:
            show_table(table)
    say(f"{len(outcome.records)} cells, {outcome.made} of them run now.")
    for score in (
        () if reproduction.written.tables else reproduction.written.scores
    ):  # tables say it themselves
        say(f"{score}.")
    *others, report = reproduction.files
    for path in others:
        say(f"{path}")
    say(f"Report: {report}")
