"""The command line: each command is a file of `proxlin.app.cli`, loaded when it is called."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from proxlin.app.cli.session import quiet_unless_leading, worth_saying
from proxlin.app.cli.terminal import brief
from proxlin.errors import ProxlinError

COMMANDS = ("demo", "fit", "predict", "outliers", "reproduce", "datasets")


class _LoadedWhenCalled(TyperGroup):
    """Imports the file of a command when it is called, or when help tells of all of them."""

    def __init__(self, **attributes: Any) -> None:
        # The names alone, for suggestions to who mistypes one.
        super().__init__(**{**attributes, "commands": dict.fromkeys(COMMANDS)})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(cmd_name)(getattr(import_module(f"{__package__}.{cmd_name}"), cmd_name))
        return typer.main.get_command(single)


app = typer.Typer(
    cls=_LoadedWhenCalled,
    help="Train models that outliers cannot pull away.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run a command; bad input ends with exit code 2 and one sentence."""
    try:
        quiet_unless_leading()
        app()
    except (ProxlinError, OSError) as error:
        if worth_saying(error):
            stderr = Console(stderr=True)
            text = f"proxlin: {brief(error)}"
            stderr.print(text, highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(2) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"proxlin {version('proxlin')}")
        raise typer.Exit


@app.callback()
def _commands(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="The installed one."
        ),
    ] = False,
) -> None:
    """Train models that outliers cannot pull away."""


if __name__ == "__main__":
    main()
