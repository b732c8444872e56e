import os
import subprocess
import sys

import pandas as pd
import pytest
import torch
from rich.console import Console

from proxlin.app.cli import stages
from proxlin.app.cli.lists import split
from proxlin.app.cli.output import check_output, write_table
from proxlin.errors import InvalidInputError
from proxlin.run.progress import Progress

PRINTS = """
import pandas as pd
from pathlib import Path
from proxlin.app.cli.main import app
from proxlin.app.cli.output import write_table

@app.command()
def long():
    write_table(pd.DataFrame({"a": range(200_000)}), Path("-"))

app(["long"])
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
    for terminal in (True, False):
        screen = Console(force_terminal=terminal, width=80)
        monkeypatch.setattr(stages, "console", screen)
        with stages.Stages(show=True) as shown:
            shown("reading")
            shown("training")
            shown.training(Progress(5, 1.0, 3.25, 2.5, None, 0.5, torch.empty(0)))
        out = capsys.readouterr().out
        assert ("training" in out) == terminal
        assert ("objective 3.25, best 2.5" in out) == terminal


def test_names_with_commas_stand_between_quotes():
    assert split("--targets", 'a, "b, c",d', str) == ("a", "b, c", "d")
    assert split("--hidden", None, int) is None
    with pytest.raises(InvalidInputError, match="--hidden must be whole numbers"):
        split("--hidden", "3,x", int)
