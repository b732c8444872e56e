"""`proxlin demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from proxlin.commands.terminal import console, make_writable, say
from proxlin.demo import Demo, draw, run_demo
from proxlin.minimize import Callback
from proxlin.minimize import Progress as Told


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("proxlin-demo"),
    seconds: Annotated[float, typer.Option(min=0.1, help="Training time for each loss.")] = 15.0,
    ratio: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of outliers.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Squared error against robust losses on digits with outliers, in under a minute."""
    make_writable(out)
    torch.set_num_threads(1)  # the net is so small that threads would wait for each other
    with Progress(
        TextColumn("{task.description:>14}"),
        BarColumn(),
        TextColumn("objective {task.fields[objective]}"),
        TimeElapsedColumn(),
        console=console,
        disable=as_json or not console.is_terminal,
    ) as bars:

        def watch(name: str) -> tuple[Callback, ...]:
            task = bars.add_task(name, total=1.0, objective="-")

            def update(told: Told) -> None:
                bars.update(task, completed=told.share, objective=f"{told.best:.4g}")

            return (update,)

        result = run_demo(ratio=ratio, seconds=seconds, seed=seed, watch=watch)
    picture = out / "completions.png"
    draw(result, picture)
    _show(result, picture, as_json)


def _show(result: Demo, picture: Path, as_json: bool) -> None:
    rows = [
        {
            "loss": row.name,
            "error on clean training rows": row.clean_error,
            "error on test rows": row.test_error,
            "outliers found": row.outlier_recall,
            "seconds": row.result.seconds,
        }
        for row in result.rows
    ]
    if as_json:
        console.print_json(json.dumps({"rows": rows, "picture": str(picture)}))
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
            f"{row.outlier_recall:.0%}",
            f"{row.result.seconds:.1f}",
        )
    console.print(table)
    say(
        "Errors are mean absolute differences of pixels in [0, 1]; outliers found is their share"
        " among the rows that fit worst."
    )
    say(f"Picture: {picture}")
