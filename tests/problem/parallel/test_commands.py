"""Commands under torchrun: rank 0 speaks and writes once, the others work."""

import json
import socket
import subprocess
import sys

import numpy as np
import pytest

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
        "fit", table, "--targets", "y", "--hidden", 8, "--seconds", 3,
        "--out", out, "--checkpoint", run,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.count("Report:") == 1
    assert json.loads((out / "metrics.json").read_text())["errors"]
    assert (out / "report.html").exists()
    assert list(run.rglob("*.safetensors"))


PRESSED = """
import os, signal
from contextlib import contextmanager
from proxlin.app.cli.main import main
from proxlin.problem.parallel import SharedClock

@contextmanager
def pressed(clock, interrupts=SharedClock.interrupts):
    with interrupts(clock):
        if os.environ["RANK"] == "1":
            signal.raise_signal(signal.SIGINT)
        yield

SharedClock.interrupts = pressed
main()
"""


PRESSED_TWICE = """
import os, signal
from proxlin import Probed
from proxlin.app.cli.main import main

def pressed(*arguments, step=Probed.step):
    if os.environ["RANK"] == "1":
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    return step(*arguments)

Probed.step = pressed
main()
"""


def by_hand(script, table, out):
    """What two processes of a fit told and how they ended; torchrun would end both at once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    marks = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    fit = ["fit", table, "--targets", "y", "--hidden", "8", "--out", out]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, *map(str, fit)],
            env=environment(RANK=str(rank), TORCHELASTIC_RUN_ID="by-hand", **marks),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [process.communicate(timeout=TIMEOUT) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return told, [process.returncode for process in processes]


def test_ctrl_c_while_training_leaves_nothing_on_any_process(table, tmp_path):
    """Pressed on rank 1 alone."""
    told, codes = by_hand(PRESSED, table, tmp_path / "model")
    assert codes == [130, 130]
    assert told == [("", "Interrupted: nothing was written.\n"), ("", "")]
    assert not (tmp_path / "model").exists()


def test_ctrl_c_twice_in_a_step_ends_one_process_and_the_others_say_so(table, tmp_path):
    told, codes = by_hand(PRESSED_TWICE, table, tmp_path / "model")
    assert codes == [2, 130]
    assert told[0][1].startswith("proxlin: ")
    assert "process" in told[0][1]
    assert told[1] == ("", "")
    assert not (tmp_path / "model").exists()


def test_bad_input_is_said_once(table, tmp_path):
    ended = proxlin("fit", table, "--targets", "nobody", "--out", tmp_path / "model")
    assert ended.returncode != 0
    assert ended.stderr.count("proxlin: ") == 1
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_settings_that_keep_processes_from_meeting_are_refused_once(rank):
    marks = {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x", "PROXLIN_TIMEOUT": "soon"}
    ended = subprocess.run(
        [sys.executable, "-m", "proxlin", "datasets"],
        env=environment(RANK=str(rank), **marks),
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    sentence = (
        "proxlin: the environment variable PROXLIN_TIMEOUT must be a number of seconds > 0; got"
        " 'soon'.\n"
    )
    assert (ended.returncode, ended.stderr) == (2, "" if rank else sentence)


def test_reproduce_shares_the_cells_out(tmp_path):
    out = tmp_path / "made"
    ended = proxlin(
        "reproduce", "table1", "--datasets", "digits", "--outliers", "0,0.3", "--p", "1",
        "--methods", "adam", "--rows", 60, "--steps", 3, "--out", out, "--json",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    told = json.loads(ended.stdout)
    assert told["cells"] == 6  # two shares of outliers, three learning rates
    assert told["made_now"] == 6  # by both
    assert len(list((out / "cells").glob("*.json"))) == 6


FAILING = """
import os
from pathlib import Path
from proxlin.app.cli.main import main
from proxlin.errors import NonFiniteError
from proxlin.paper import reproduction

def failing(cell, callbacks, run_cell=reproduction.run_cell):
    if "0.003" in cell.method:
        with Path("tries").open("a") as tries:
            tries.write(f"{cell.name} {os.environ['RANK']}\\n")
        raise NonFiniteError("the loss is infinite.")
    return run_cell(cell, callbacks)

reproduction.run_cell = failing
main()
"""


def test_cells_that_fail_on_any_process_are_told_and_tried_once(tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    ended = subprocess.run(
        [sys.executable, *_TORCHRUN, "failing.py",
         "reproduce", "table1", "--datasets", "digits", "--outliers", "0,0.3", "--p", "1",
         "--methods", "adam", "--rows", "60", "--steps", "3", "--out", "made", "--json"],
        env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False,
        cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr[-4000:]
    told = json.loads(ended.stdout)
    assert (told["cells"], told["made_now"]) == (4, 4)
    tries = dict(line.split() for line in (tmp_path / "tries").read_text().splitlines())
    assert len((tmp_path / "tries").read_text().splitlines()) == 2
    assert set(tries.values()) == {"0", "1"}  # each of the two failed on another process
    assert told["failures"] == dict.fromkeys(tries, "NonFiniteError: the loss is infinite.")
