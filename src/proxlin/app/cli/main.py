"""The command line: each command is a file of `proxlin.app.cli`, loaded when it is called."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from proxlin.app.cli.session import quiet_unless_leading, worth_saying
from proxlin.app.cli.terminal import brief
from proxlin.errors import ProxlinError

COMMANDS = {  # each with the first sentence of its help, which is told without loading it
    "demo": "Squared error against robust losses on digits with outliers; ends with a report.",
    "fit": "Train a model on your own table that bad rows cannot pull away.",
    "predict": "Predictions for the rows of a table: row number, --id columns, predictions.",
    "outliers": "Rows of a table that do not fit the others, and the cells to blame.",
    "reproduce": "The paper's tables and figures, with the published figures beside ours.",
    "datasets": "What can be loaded by name, and from where.",
}


class _PlainFlags(TyperCommand):
    """Help shows options that take no value without the type of one."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_type(super().get_params(ctx))


class _LoadedWhenCalled(TyperGroup):
    """Imports the file of a command when it is called."""

    _telling = False  # whether only help on all commands is asked for

    def __init__(self, **attributes: Any) -> None:
        # The names alone, for suggestions to who mistypes one.
        super().__init__(**{**attributes, "commands": dict.fromkeys(COMMANDS)})

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_type(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._telling = True
        super().format_help(ctx, formatter)
        self._telling = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if self._telling:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        function = getattr(import_module(f"{__package__}.{cmd_name}"), cmd_name)
        single.command(cmd_name, cls=_PlainFlags)(function)
        return typer.main.get_command(single)


def _without_type(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


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
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Train models that outliers cannot pull away."""


if __name__ == "__main__":
    main()
