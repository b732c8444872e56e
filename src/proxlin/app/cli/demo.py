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

from proxlin.app.cli.output import make_writable, show_table
from proxlin.app.cli.session import Interrupts
from proxlin.app.cli.terminal import console, say
from proxlin.paper.demo import (
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
from proxlin.report import write_report, write_tables
from proxlin.run.result import Callback
from proxlin.run.result import Progress as TrainingProgress

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
    try:
        with Interrupts():
            result, points, report = _carry_out(
                out, seconds=seconds, ratio=ratio, seed=seed, show=not as_json
            )
    except KeyboardInterrupt:
        typer.echo("Interrupted: there is no report.", err=True)
        raise typer.Exit(130) from None
    _show(result, points, report, as_json)


def _carry_out(
    out: Path, *, seconds: float, ratio: float, seed: int, show: bool
) -> tuple[Demo, list[SharePoint], Path]:
    with Progress(
        TextColumn("{task.description:>22}"),
        BarColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
        disable=not (show and console.is_terminal),
    ) as bars:
        result = run_demo(ratio=ratio, seconds=seconds, seed=seed, watch=_one_bar_each(bars))
        others = [share for share in SHARES if share != ratio]
        points = known_points(result) + trace_shares(
            others,
            seconds=_SHARE_OF_TIME * seconds,
            seed=seed,
            watch=_one_bar(bars, "other shares", len(LOSSES) * len(others)),
        )
        bars.update(bars.task_ids[-1], completed=len(LOSSES) * len(others), detail="")
        bars.add_task("drawing the report", total=None, detail="")
        command = f"proxlin demo --seconds {seconds:g} --ratio {ratio:g} --seed {seed}"
        return result, points, _write(result, points, command, out)


def _one_bar_each(bars: Progress) -> Callable[[str], tuple[Callback, ...]]:
    def watch(name: str) -> tuple[Callback, ...]:
        task = bars.add_task(name, total=1.0, detail="")

        def update(state: TrainingProgress) -> None:
            bars.update(task, completed=state.share, detail=f"objective {state.best:.4g}")

        return (update,)

    return watch


def _one_bar(bars: Progress, title: str, runs: int) -> Callable[[str], tuple[Callback, ...]]:
    """One bar for many short runs, named after the one that is going on."""
    task: list[TaskID] = []

    def watch(name: str) -> tuple[Callback, ...]:
        if not task:
            task.append(bars.add_task(title, total=runs, detail=""))
        else:
            bars.advance(task[0])
        bars.update(task[0], detail=name)
        return ()

    return watch


def _write(result: Demo, points: Iterable[SharePoint], command: str, out: Path) -> Path:
    write_tables(out, "table", demo_frame(result), [demo_table(result)])
    page = demo_report(result, list(points), command)
    return write_report(page, out / "report.html", pictures=out / "pictures")


def _show(result: Demo, points: list[SharePoint], report: Path, as_json: bool) -> None:
    if as_json:
        summary = {
            "rows": demo_frame(result).to_dict("records"),
            "shares": [asdict(point) for point in points],
            "report": str(report),
        }
        console.print_json(json.dumps(summary))
        return
    show_table(demo_table(result))
    say(f"Report: {report}")
