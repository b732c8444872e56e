"""Processes that are killed at work, and what the next one makes of what they left."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from proxlin.errors import InvalidInputError
from proxlin.run.checkpoint.folder import CheckpointFolder
from tests.run.checkpoint.child import fingerprint
from tests.run.checkpoint.runs import run

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
PATIENCE = 120  # seconds for a process on a busy machine


class Child:
    """A run in a process of its own, which is gone when the test is over."""

    def __init__(self, folder, *options, case="probed layered"):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.run.checkpoint.child", str(folder), case, *options],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.watchdog = threading.Timer(PATIENCE, self.process.kill)
        self.watchdog.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watchdog.cancel()
        self.process.kill()
        self.process.communicate()

    def wait_for(self, line):
        for found in self.process.stdout:
            if found.startswith(line):
                return found.split()[-1]
        pytest.fail(f"it ended without {line!r}: {self.process.stderr.read()}")

    def end(self, number):
        os.kill(self.process.pid, number)
        return self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def whole():
    return fingerprint(run("probed layered"))


def result_of(folder, *options):
    with Child(folder, *options) as child:
        found = child.wait_for("result")
        child.process.wait(PATIENCE)
        assert child.process.stderr.read() == ""  # nothing was refused
        return found


def test_a_run_that_is_killed_again_and_again_ends_as_if_nothing_had_been(tmp_path, whole):
    chance = random.Random(0)
    reached = 0
    for step in (6, 16, 28):
        with Child(tmp_path, "--every", "1", "--pause", "0.2") as child:
            while reached < step:
                reached = int(child.wait_for("step"))
            time.sleep(chance.uniform(0, 0.3))
            assert child.end(signal.SIGKILL) == -signal.SIGKILL
    assert CheckpointFolder(tmp_path).numbers()
    assert result_of(tmp_path, "--every", "5") == whole


@pytest.mark.parametrize(
    ("flush", "left"),
    [(5, ".part"), (6, "checkpoint-000002.safetensors"), (7, ".part")],
    ids=["tensors before the rename", "tensors alone", "JSON before the rename"],
)
def test_a_kill_while_writing_leaves_the_checkpoint_before(flush, left, tmp_path, whole):
    # Each checkpoint flushes its tensors, the folder, its JSON and the folder again.
    with Child(tmp_path, "--every", "10", "--stall", str(flush)) as child:
        child.wait_for("stalled")
        child.end(signal.SIGKILL)
    assert any(path.name.endswith(left) for path in tmp_path.iterdir())
    assert CheckpointFolder(tmp_path).numbers() == [1]
    assert result_of(tmp_path, "--every", "10") == whole
    assert not any(path.name.endswith(".part") for path in tmp_path.iterdir())
    assert CheckpointFolder(tmp_path).numbers() == CheckpointFolder(tmp_path).numbers("safetensors")


def test_sigterm_writes_a_last_checkpoint_and_ends_the_process(tmp_path, whole):
    with Child(tmp_path, "--pause", "0.2") as child:  # no checkpoints but the last one
        while int(child.wait_for("step")) < 14:
            assert CheckpointFolder(tmp_path).numbers() == []
        assert child.end(signal.SIGTERM) == -signal.SIGTERM
        assert "result" not in child.process.stdout.read()
    assert CheckpointFolder(tmp_path).numbers() == [1]
    parts, about = CheckpointFolder(tmp_path).read(1)
    assert parts.tree["entries"]["status"] == "INTERRUPTED"
    assert parts.tree["entries"]["used"][0] >= 14
    assert about["owner"]["rows"] == 120
    assert result_of(tmp_path) == whole


def test_a_folder_in_use_is_refused(tmp_path):
    with Child(tmp_path, "--pause", "0.2") as child:
        child.wait_for("step")
        with pytest.raises(InvalidInputError, match=r"in use by process .* another checkpoint"):
            run("adam", checkpoint=tmp_path)
