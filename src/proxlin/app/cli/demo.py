"""`proxlin demo`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer

from proxlin.app.cli.bars import Bars
from proxlin.app.cli.output import make_writable, show_table
from proxlin.app.cli.session import Interrupts
from proxlin.app.cli.terminal import console, say
from proxlin.paper.demo.story import demo_frame, demo_report, demo_table
from proxlin.paper.demo.training import (
    LOSSES,
    SHARES,
    Demo,
    SharePoint,
    known_points,
    run_demo,
    trace_shares,
)
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
    with Bars(show=show) as bars:
        result = run_demo(ratio=ratio, seconds=seconds, seed=seed, watch=bars.watch)
        others = [share for share in SHARES if share != ratio]
        bars.begin("other shares", len(LOSSES) * len(others))
        points = known_points(result) + trace_shares(
            others, seconds=_SHARE_OF_TIME * seconds, seed=seed, watch=bars.next_job
        )
        bars.begin("drawing the report", 0)
        command = f"proxlin demo --seconds {seconds:g} --ratio {ratio:g} --seed {seed}"
        return result, points, _write(result, points, command, out)


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
