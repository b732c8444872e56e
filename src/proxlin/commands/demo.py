"""`proxlin demo`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from proxlin.commands.terminal import console, make_writable, say
from proxlin.demo import (
    LOSSES,
    SHARES,
    Demo,
    SharePoint,
    demo_frame,
    demo_report,
    demo_table,
    known_points,
    run_demo,
    trace_shares,
)
from proxlin.minimize import Callback
from proxlin.minimize import Progress as Told
from proxlin.report import write_report, write_tables

_SHARE_OF_TIME = 0.4  # of the training time of a net that is shown, for each net of the curve


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("proxlin-demo"),
    seconds: Annotated[float, typer.Option(min=0.1, help="Training time for each loss.")] = 10.0,
    ratio: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of outliers.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Squared error against robust losses on digits with outliers; ends with a report."""
    make_writable(out)
    torch.set_num_threads(1)  # the net is so small that threads would wait for each other
    with Progress(
        TextColumn("{task.description:>22}"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        console=console,
        disable=as_json or not console.is_terminal,
    ) as bars:
        result = run_demo(ratio=ratio, seconds=seconds, seed=seed, watch=_one_bar_each(bars))
        others = [share for share in SHARES if share != ratio]
        points = known_points(result) + trace_shares(
            others,
            seconds=_SHARE_OF_TIME * seconds,
            seed=seed,
            watch=_one_bar(bars, "other shares", len(LOSSES) * len(others)),
        )
    command = f"proxlin demo --seconds {seconds:g} --ratio {ratio:g} --seed {seed}"
    report = _write(result, points, command, out)
    _show(result, points, report, as_json)


def _one_bar_each(bars: Progress) -> Callable[[str], tuple[Callback, ...]]:
    def watch(name: str) -> tuple[Callback, ...]:
        task = bars.add_task(name, total=1.0, told="")

        def update(told: Told) -> None:
            bars.update(task, completed=told.share, told=f"objective {told.best:.4g}")

        return (update,)

    return watch


def _one_bar(bars: Progress, title: str, runs: int) -> Callable[[str], tuple[Callback, ...]]:
    """One bar for many short runs, named after the one that is going on."""
    task: list[TaskID] = []

    def watch(name: str) -> tuple[Callback, ...]:
        if not task:
            task.append(bars.add_task(title, total=runs, told=""))
        else:
            bars.advance(task[0])
        bars.update(task[0], told=name)
        return ()

    return watch


def _write(result: Demo, points: Iterable[SharePoint], command: str, out: Path) -> Path:
    write_tables(out, "table", demo_frame(result), [demo_table(result)])
    page = demo_report(result, list(points), command)
    return write_report(page, out / "report.html", pictures=out / "pictures")


def _show(result: Demo, points: list[SharePoint], report: Path, as_json: bool) -> None:
    if as_json:
        told = {
            "rows": demo_frame(result).to_dict("records"),
            "shares": [asdict(point) for point in points],
            "report": str(report),
        }
        console.print_json(json.dumps(told))
        return
    table = Table(
        title=f"Completing digits, {result.ratio:.0%} of the training answers are outliers"
    )
    table.add_column("trained with")
    for heading in ("error, clean rows", "error, test rows", "outliers found", "seconds"):
        table.add_column(heading, justify="right")
    for row in result.rows:
        table.add_row(
            row.name,
            f"{row.clean_error:.4f}",
            f"{row.test_error:.4f}",
            f"{100 * row.outlier_recall:.1f} %",
            f"{row.result.seconds:.1f}",
        )
    console.print(table)
    say(
        "Errors are mean absolute differences of pixels in [0, 1]; outliers found is their share"
        " among the rows that fit worst."
    )
    say(f"Report: {report}")
