"""Processes that are killed at work, and what the next one makes of what they left."""

import os
import random
import signal
import threading
import time
from contextlib import suppress

import pytest

from proxlin.errors import InvalidInputError
from proxlin.run.checkpoint.folder import CheckpointFolder
from tests.forks import FORKS
from tests.run.checkpoint import child
from tests.run.checkpoint.runs import run

pytestmark = pytest.mark.processes

PATIENCE = 120  # seconds for a process on a busy machine


class Child:
    """A run in a process of its own, which is gone when the test is over."""

    def __init__(self, folder, **options):
        self.lines, theirs = FORKS.Pipe(duplex=False)
        self.errors = folder.with_suffix(".errors")
        self.process = FORKS.Process(
            target=child.main, args=(theirs, self.errors, folder), kwargs=options
        )
        self.process.start()
        theirs.close()
        self.watchdog = threading.Timer(PATIENCE, self.process.kill)
        self.watchdog.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watchdog.cancel()
        self.process.kill()
        self.process.join()

    def wait_for(self, beginning):
        with suppress(EOFError):
            while True:
                line = self.lines.recv()
                if line.startswith(beginning):
                    return line.split()[-1]
        pytest.fail(f"it ended without {beginning!r}: {self.errors.read_text()}")

    def end(self, number):
        os.kill(self.process.pid, number)
        self.process.join(PATIENCE)
        return self.process.exitcode


@pytest.fixture(scope="module")
def whole():
    return child.fingerprint(run(child.CASE))


def result_of(folder, **options):
    with Child(folder, **options) as started:
        fingerprint = started.wait_for("result")
        started.process.join(PATIENCE)
        assert started.errors.read_text() == ""  # nothing was refused
        return fingerprint


def test_a_run_that_is_killed_again_and_again_ends_as_if_nothing_had_been(tmp_path, whole):
    chance = random.Random(0)
    reached = 0
    for step in (6, 16, 28):
        with Child(tmp_path, every=1, pause=0.05) as started:
            while reached < step:
                reached = int(started.wait_for("step"))
            time.sleep(chance.uniform(0, 0.1))
            assert started.end(signal.SIGKILL) == -signal.SIGKILL
    assert CheckpointFolder(tmp_path).numbers()
    assert result_of(tmp_path, every=5) == whole


@pytest.mark.parametrize(
    ("flush", "left"),
    [(5, ".part"), (6, "checkpoint-000002.safetensors"), (7, ".part")],
    ids=["tensors before the rename", "tensors alone", "JSON before the rename"],
)
def test_a_kill_while_writing_leaves_the_checkpoint_before(flush, left, tmp_path, whole):
    # Each checkpoint flushes its tensors, the folder, its JSON and the folder again.
    with Child(tmp_path, every=10, stall_at=flush) as started:
        started.wait_for("stalled")
        started.end(signal.SIGKILL)
    assert any(path.name.endswith(left) for path in tmp_path.iterdir())
    assert CheckpointFolder(tmp_path).numbers() == [1]
    assert result_of(tmp_path, every=10) == whole
    assert not any(path.name.endswith(".part") for path in tmp_path.iterdir())
    assert CheckpointFolder(tmp_path).numbers() == CheckpointFolder(tmp_path).numbers("safetensors")


def test_sigterm_writes_a_last_checkpoint_and_ends_the_process(tmp_path, whole):
    with Child(tmp_path, pause=0.05) as started:  # no checkpoints but the last one
        while int(started.wait_for("step")) < 14:
            assert CheckpointFolder(tmp_path).numbers() == []
        assert started.end(signal.SIGTERM) == -signal.SIGTERM
        with suppress(EOFError):
            while True:
                assert not started.lines.recv().startswith("result")
    assert CheckpointFolder(tmp_path).numbers() == [1]
    parts, about = CheckpointFolder(tmp_path).read(1)
    assert parts.tree["entries"]["status"] == "INTERRUPTED"
    assert parts.tree["entries"]["used"][0] >= 14
    assert about["owner"]["rows"] == 120
    assert result_of(tmp_path) == whole


def test_a_folder_in_use_is_refused(tmp_path):
    with Child(tmp_path, pause=0.05) as started:
        started.wait_for("step")
        with pytest.raises(InvalidInputError, match=r"in use by process .* another checkpoint"):
            run("adam", checkpoint=tmp_path)
