"""Commands under torchrun: rank 0 speaks and writes once, the others work."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.forks import together
from tests.problem.parallel import commands
from tests.problem.parallel.launch import TIMEOUT, environment

pytestmark = pytest.mark.processes

_TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def proxlin(*arguments):
    return subprocess.run(
        [sys.executable, *_TORCHRUN, "-m", "proxlin", *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    x = np.random.default_rng(0).normal(size=(300, 3))
    y = x @ [1.0, -2.0, 0.5] + np.sin(3 * x[:, 0])
    rows = [",".join(f"{value:.6f}" for value in row) for row in np.column_stack([x, y])]
    path.write_text("\n".join(["a,b,c,y", *rows]))
    return path


def test_fit_trains_a_net_together_and_writes_once(table, tmp_path):
    out, run = tmp_path / "model", tmp_path / "run"
    ended = proxlin(
        "fit", table, "--targets", "y", "--hidden", 8, "--seconds", 1,
        "--out", out, "--checkpoint", run,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.count("Report:") == 1
    assert json.loads((out / "metrics.json").read_text())["errors"]
    assert (out / "report.html").exists()
    assert list(run.rglob("*.safetensors"))


def fit_by_two(work, table, folder):
    """How two processes of a fit ended and what they said; torchrun would end both at once."""
    fit = ("fit", table, "--targets", "y", "--hidden", "8", "--out", folder / "model")
    ended = together(work, *fit, ranks=2, folder=folder)
    assert not (folder / "model").exists()
    return ended


def test_ctrl_c_while_training_leaves_nothing_on_any_process(table, tmp_path):
    """Pressed on rank 1 alone."""
    ended = fit_by_two(commands.pressed, table, tmp_path)
    assert ended == [(130, "", "Interrupted: nothing was written.\n"), (130, "", "")]


def test_ctrl_c_twice_in_a_step_ends_one_process_and_the_others_say_so(table, tmp_path):
    first, second = fit_by_two(commands.pressed_twice, table, tmp_path)
    assert first[0] == 2
    assert first[2].startswith("proxlin: ")
    assert "process" in first[2]
    assert second == (130, "", "")


def test_bad_input_is_said_once(table, tmp_path):
    fit = ("fit", table, "--targets", "nobody", "--out", tmp_path / "model")
    first, second = together(commands.command, *fit, ranks=2, folder=tmp_path)
    assert first[0] == second[0] == 2
    assert first[2].count("proxlin: ") == 1
    assert second[2] == ""
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_settings_that_keep_processes_from_meeting_are_refused_once(rank, tmp_path):
    ended = together(commands.command, "datasets", ranks=2, folder=tmp_path, PROXLIN_TIMEOUT="soon")
    sentence = (
        "proxlin: the environment variable PROXLIN_TIMEOUT must be a number of seconds > 0; got"
        " 'soon'.\n"
    )
    code, _, error = ended[rank]
    assert (code, error) == (2, "" if rank else sentence)


GRID = (
    "reproduce", "table1", "--datasets", "digits", "--outliers", "0,0.3", "--p", "1",
    "--methods", "adam", "--rows", 60, "--steps", 3, "--json", "--out",
)  # fmt: skip


def test_reproduce_shares_the_cells_out(tmp_path):
    out = tmp_path / "made"
    (code, printed, error), _ = together(commands.command, *GRID, out, ranks=2, folder=tmp_path)
    assert code == 0, error[-4000:]
    summary = json.loads(printed)
    assert summary["cells"] == 6  # two shares of outliers, three learning rates
    assert summary["made_now"] == 6  # by both
    assert len(list((out / "cells").glob("*.json"))) == 6


def test_cells_that_fail_on_any_process_are_told_and_tried_once(tmp_path):
    notes = tmp_path / "tries"
    (code, printed, error), _ = together(
        commands.failing, notes, *GRID, tmp_path / "made", ranks=2, folder=tmp_path
    )
    assert code == 1, error[-4000:]
    summary = json.loads(printed)
    assert (summary["cells"], summary["made_now"]) == (4, 4)
    tries = [line.split() for line in notes.read_text().splitlines()]
    assert len(tries) == 2
    assert {rank for _, rank in tries} == {"0", "1"}  # each of the two failed on another process
    failed = dict.fromkeys((name for name, _ in tries), "NonFiniteError: the loss is infinite.")
    assert summary["failures"] == failed
