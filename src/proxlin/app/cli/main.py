"""The command line: each command is a file of `proxlin.app.cli`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from proxlin.app.cli.datasets import datasets
from proxlin.app.cli.demo import demo
from proxlin.app.cli.fit import fit
from proxlin.app.cli.outliers import outliers
from proxlin.app.cli.predict import predict
from proxlin.app.cli.ranks import quiet_unless_leading, worth_saying
from proxlin.app.cli.reproduce import reproduce
from proxlin.app.tabular.model_file import versions
from proxlin.errors import ProxlinError

app = typer.Typer(
    help="Train models that outliers cannot pull away.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, fit, predict, outliers, reproduce, datasets):
    app.command()(command)


def main() -> None:
    """Run a command; bad input ends with exit code 2 and one sentence."""
    try:
        quiet_unless_leading()
        app()
    except (ProxlinError, OSError) as error:
        if worth_saying(error):
            told = Console(stderr=True)
            told.print(f"proxlin: {error}", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(2) from None


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"proxlin {versions()['proxlin']}")
        raise typer.Exit


@app.callback()
def _commands(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="The installed one."),
    ] = False,
) -> None:
    """Train models that outliers cannot pull away."""


if __name__ == "__main__":
    main()
