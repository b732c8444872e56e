"""Processes that die, hang or are asked to stop: the others say so, and training goes on."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

from proxlin import Problem, Ridge, minimize
from proxlin.problem.parallel import communicator
from tests.forks import started
from tests.problem.parallel import train
from tests.problem.parallel.launch import TIMEOUT, torchrun
from tests.problem.parallel.problems import net, table
from tests.problem.parallel.train import METHOD, STEPS, difference

pytestmark = pytest.mark.processes

TRAIN = Path(__file__).with_name("train.py")
SENTENCE = "another process of the run is gone or silent"
PATIENCE = 3.0  # PROXLIN_TIMEOUT of a silent process
MARGIN = 25.0  # seconds that a busy machine may take on top


@pytest.fixture(scope="module")
def uninterrupted():
    # A residual of one's own, as that of the training processes is: their targets have no units.
    problem = Problem(net(), table(), residual=difference, regularizer=Ridge(1e-3))
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


def training(folder, *arguments, **settings):
    """Processes as torchrun would start them, without anyone who watches over them."""
    return started(train.main, [str(folder), *arguments], folder=folder, **settings)


def ended(processes):
    end = time.monotonic() + TIMEOUT
    return [process.wait(end) for process in processes]


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
    waits = {"PROXLIN_TIMEOUT": str(PATIENCE)}
    with training(tmp_path, "--fault", "stop", ranks=2, **waits) as (first, second):
        assert first.wait(time.monotonic() + TIMEOUT) not in (0, None)
        assert SENTENCE in first.printed[1]
        assert seconds_until_told(tmp_path) < PATIENCE + MARGIN
        assert second.process.is_alive()  # and still silent


def test_another_number_of_processes_goes_on(tmp_path, uninterrupted):
    """SIGTERM to one of two: both keep the run and end; four, or one, go on from there."""
    with training(tmp_path, "--fault", "term", ranks=2) as processes:
        assert ended(processes)[1] == -signal.SIGTERM
    interrupted = json.loads((tmp_path / "result.json").read_text())
    assert interrupted["status"] == "INTERRUPTED"
    assert 0 < interrupted["iterations"] < STEPS
    for ranks in (4, 1):
        folder = tmp_path / str(ranks)
        shutil.copytree(tmp_path / "run", folder / "run")
        (folder / "struck").touch()
        with training(folder, ranks=ranks) as processes:
            assert ended(processes) == [0] * ranks, processes[0].printed
        assert assert_same(folder, uninterrupted)["processes"] == ranks


def test_bad_timeouts_are_refused(tmp_path):
    end = time.monotonic() + TIMEOUT
    with started(communicator, ranks=2, folder=tmp_path, PROXLIN_TIMEOUT="soon") as processes:
        assert [process.wait(end) for process in processes] == [1, 1]
    for process in processes:
        sentence = "PROXLIN_TIMEOUT must be a number of seconds > 0; got 'soon'"
        assert sentence in process.printed[1]
    assert os.environ.get("PROXLIN_TIMEOUT") is None
