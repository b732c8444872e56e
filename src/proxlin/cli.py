"""The command line: `proxlin demo` and `proxlin datasets`."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from proxlin.data import list_datasets
from proxlin.demo import Demo, draw, run_demo
from proxlin.errors import InvalidInputError, ProxlinError
from proxlin.minimize import Callback
from proxlin.minimize import Progress as Told

app = typer.Typer(
    help="Train models that outliers cannot pull away.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_console = Console()


def main() -> None:
    """Run a command; bad input ends with exit code 2 and one sentence."""
    try:
        app()
    except (ProxlinError, OSError) as error:
        told = Console(stderr=True)
        told.print(f"proxlin: {error}", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(2) from None


@app.callback()
def _commands() -> None:
    """Train models that outliers cannot pull away."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("proxlin-demo"),
    seconds: Annotated[float, typer.Option(min=0.1, help="Training time for each loss.")] = 15.0,
    ratio: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of outliers.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Squared error against robust losses on digits with outliers, in under a minute."""
    _make_writable(out)
    torch.set_num_threads(1)  # the net is so small that threads would wait for each other
    with Progress(
        TextColumn("{task.description:>14}"),
        BarColumn(),
        TextColumn("objective {task.fields[objective]}"),
        TimeElapsedColumn(),
        console=_console,
        disable=as_json or not _console.is_terminal,
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


def _make_writable(folder: Path) -> None:
    """Make the folder and put a file there for a moment, before any time goes into training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as cause:
        raise InvalidInputError(
            f"--out must name a folder that can be written to; got {folder}: {cause.strerror}."
        ) from cause


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
        _console.print_json(json.dumps({"rows": rows, "picture": str(picture)}))
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
    _console.print(table)
    _console.print(
        "Errors are mean absolute differences of pixels in [0, 1]; outliers found is their share"
        " among the rows that fit worst.",
        highlight=False,
        markup=False,
    )
    # A path is printed as it is, in one piece.
    _console.print(f"Picture: {picture}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def datasets() -> None:
    """What can be loaded by name, and from where."""
    table = Table(title="Data sets")
    for heading in ("name", "what", "rows", "features", "targets", "where from"):
        table.add_column(heading, overflow="fold")
    for entry in list_datasets():
        sizes = [str(value) for value in (entry.rows, entry.features, entry.targets)]
        table.add_row(entry.name, entry.description, *sizes, "; ".join(entry.where))
    _console.print(table)


if __name__ == "__main__":
    main()
