"""Processes that die, hang or are asked to stop: the others say so, and training goes on."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from proxlin import Problem, Ridge, minimize
from tests.problem.parallel.launch import TIMEOUT, environment, torchrun
from tests.problem.parallel.problems import net, table
from tests.problem.parallel.train import METHOD, STEPS

pytestmark = pytest.mark.processes

TRAIN = Path(__file__).with_name("train.py")
SENTENCE = "another process of the run is gone or silent"
PATIENCE = 5.0  # PROXLIN_TIMEOUT of a silent process
MARGIN = 25.0  # seconds that a busy machine may take on top


@pytest.fixture(scope="module")
def uninterrupted():
    problem = Problem(net(), table(), regularizer=Ridge(1e-3))
    return minimize(problem, METHOD, max_seconds=None, max_iter=STEPS)


def assert_same(folder, uninterrupted):
    told = json.loads((folder / "result.json").read_text())
    assert told["iterations"] == STEPS
    assert told["objective"] == pytest.approx(uninterrupted.objective, rel=1e-8)
    theta = torch.tensor(told["theta"], dtype=torch.float64)
    torch.testing.assert_close(theta, uninterrupted.theta, rtol=1e-5, atol=1e-6)
    return told


def seconds_until_told(folder, rank=0):
    return float((folder / f"told{rank}").read_text()) - float((folder / "struck").read_text())


def ranks_by_hand(folder, *arguments, ranks, **more):
    """The processes as torchrun would start them, without anyone who watches over them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    marks = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks),
        "TORCHELASTIC_RUN_ID": "by-hand",
    }  # fmt: skip
    return [
        subprocess.Popen(
            [sys.executable, TRAIN, folder, *arguments],
            env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **marks, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]


def end(processes):
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_killed_process_is_noticed_and_training_goes_on(tmp_path, uninterrupted):
    ended = torchrun(
        TRAIN, tmp_path, "--fault", "kill", ranks=2,
        options=("--max-restarts", "1", "--monitor-interval", "4"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert SENTENCE in ended.stderr
    assert seconds_until_told(tmp_path) < MARGIN  # at once: the connection is closed
    told = assert_same(tmp_path, uninterrupted)
    assert min(told["seen"]) > 4  # the second attempt did not begin anew


def test_a_silent_process_is_given_up_after_the_timeout(tmp_path):
    processes = ranks_by_hand(tmp_path, "--fault", "stop", ranks=2, PROXLIN_TIMEOUT=str(PATIENCE))
    try:
        _, stderr = processes[0].communicate(timeout=TIMEOUT)
        assert processes[0].returncode not in (0, None)
        assert SENTENCE in stderr
        assert seconds_until_told(tmp_path) < PATIENCE + MARGIN
        assert processes[1].poll() is None  # it is still there, and still silent
    finally:
        end(processes)


def test_another_number_of_processes_goes_on(tmp_path, uninterrupted):
    """SIGTERM to one of two: both keep the run and end; four go on from there."""
    processes = ranks_by_hand(tmp_path, "--fault", "term", ranks=2)
    try:
        for process in processes:
            process.communicate(timeout=TIMEOUT)
        assert processes[1].returncode == -signal.SIGTERM
        told = json.loads((tmp_path / "result.json").read_text())
        assert told["status"] == "INTERRUPTED"
        assert 0 < told["iterations"] < STEPS
    finally:
        end(processes)
    ended = torchrun(TRAIN, tmp_path, ranks=4)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert assert_same(tmp_path, uninterrupted)["processes"] == 4


def test_checkpoints_of_several_processes_serve_one(tmp_path, uninterrupted):
    processes = ranks_by_hand(tmp_path, "--fault", "term", ranks=2)
    try:
        for process in processes:
            process.communicate(timeout=TIMEOUT)
    finally:
        end(processes)
    alone = subprocess.run(
        [sys.executable, TRAIN, tmp_path],
        env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert alone.returncode == 0, alone.stderr[-4000:]
    assert assert_same(tmp_path, uninterrupted)["processes"] == 1


def test_bad_timeouts_are_refused():
    code = "from proxlin.problem.parallel import communicator; communicator()"
    marks = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x", "PROXLIN_TIMEOUT": "soon"}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(**marks), capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert "PROXLIN_TIMEOUT must be a number of seconds > 0; got 'soon'" in ended.stderr
    assert os.environ.get("PROXLIN_TIMEOUT") is None
