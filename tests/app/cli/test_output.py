import os
import subprocess
import sys

import pandas as pd
import pytest
import torch
from rich.console import Console

from proxlin.app.cli import terminal
from proxlin.app.cli.options import comma_separated
from proxlin.app.cli.output import check_output, show_table, write_table
from proxlin.errors import InvalidInputError
from proxlin.report import Figures, Table
from proxlin.run.result import Progress

PRINTS = """
import pandas as pd
import typer
from pathlib import Path
from proxlin.app.cli.output import write_table
app = typer.Typer()

@app.command()
def long():
    write_table(pd.DataFrame({"a": range(200_000)}), Path("-"))

app([])
"""


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="needs pipes of POSIX")
def test_a_reader_that_leaves_early_is_no_error():
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PRINTS], env=found, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"a\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_file_is_replaced_whole(tmp_path):
    write_table(pd.DataFrame({"a": [1]}), tmp_path / "below" / "t.csv")
    write_table(pd.DataFrame({"a": [2]}), tmp_path / "below" / "t.csv")
    assert (tmp_path / "below" / "t.csv").read_text() == "a\n2\n"
    assert len(list((tmp_path / "below").iterdir())) == 1


def test_files_that_cannot_be_written_are_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "below.csv"):
        with pytest.raises(InvalidInputError, match=r"folder|cannot be written"):
            check_output(path)


def test_stages_are_shown_on_a_terminal_and_nowhere_else(monkeypatch, capsys):
    for is_terminal in (True, False):
        screen = Console(force_terminal=is_terminal, width=80)
        monkeypatch.setattr(terminal, "console", screen)
        with terminal.Stages(show=True) as shown:
            shown("reading")
            shown("training")
            shown.training(Progress(5, 1.0, 3.25, 2.5, None, 0.5, torch.empty(0)))
        out = capsys.readouterr().out
        assert ("training" in out) == is_terminal
        assert ("objective 3.25, best 2.5" in out) == is_terminal


def test_names_with_commas_stand_between_quotes():
    assert comma_separated("--targets", 'a, "b, c",d', str) == ("a", "b, c", "d")
    assert comma_separated("--hidden", None, int) is None
    with pytest.raises(InvalidInputError, match="--hidden must be whole numbers"):
        comma_separated("--hidden", "3,x", int)


def test_a_table_shows_every_field_and_remark_as_it_is(capsys):
    rows = [
        ("[red]l1[/red]", Figures(("0.25", "7"), (True, False)), 1797),
        ("a\x1b[31mb", float("nan"), -1),
    ]
    show_table(Table("[b]Errors[/b]", ("loss", "error", "rows"), rows, ("At [5] %.",)))
    told = capsys.readouterr().out
    assert "[b]Errors[/b]" in told
    assert "[red]l1[/red]" in told
    assert "0.25 / 7" in told
    assert "1,797" in told
    assert "At [5] %." in told
    assert "\x1b[31mb" not in told
