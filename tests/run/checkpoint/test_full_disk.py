"""A disk without space: the run goes on, says so, and is kept again when there is some."""

import os
import resource
import shutil
import subprocess
from contextlib import suppress

import pytest
import torch

from proxlin import Adam, Checkpoints, Status, minimize
from proxlin.run.checkpoint.folder import CheckpointFolder
from tests.run.checkpoint.runs import CrashError, problem, run, timeless

pytestmark = pytest.mark.usefixtures("in_turn")

STEPWISE = {"every_seconds": None, "every_steps": 4}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB, enough for some checkpoints."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("a small file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk):
    with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 1024)
    assert shutil.disk_usage(disk).free == 0


def test_a_full_disk_does_not_end_the_run(small_disk, caplog):
    folder = small_disk / "run"
    folder.mkdir()
    (folder / "proxlin.lock").write_text("room for the name of the holder")
    fill(small_disk)
    found = run("adam", checkpoint=Checkpoints(folder, **STEPWISE))
    whole = run("adam")
    assert torch.equal(found.theta, whole.theta)
    assert timeless(found) == timeless(whole)
    assert found.status is Status.ITERATIONS
    (remark,) = found.remarks
    assert f"could not be written to {folder}: No space left on device" in remark
    assert remark in caplog.text
    assert [path.name for path in folder.iterdir()] == ["proxlin.lock"]


def test_what_was_kept_before_the_disk_filled_up_is_gone_on_from(small_disk):
    folder = small_disk / "run"

    def trouble(told):
        if told.iteration == 10:
            fill(small_disk)
        if told.iteration == 30:
            raise CrashError

    kept = Checkpoints(folder, **STEPWISE)
    with pytest.raises(CrashError):
        minimize(
            problem(), Adam(batch_size=32), max_seconds=None, max_iter=40, callbacks=[trouble],
            checkpoint=kept,
        )  # fmt: skip
    assert CheckpointFolder(folder).numbers() == [1, 2]  # of the steps 4 and 8
    (small_disk / "filler").unlink()
    found = run("adam", checkpoint=kept)
    assert torch.equal(found.theta, run("adam").theta)
    assert found.remarks == ()
    assert len(CheckpointFolder(folder).numbers()) == 2


def test_a_limit_on_the_size_of_files(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        found = run("adam", checkpoint=Checkpoints(tmp_path, **STEPWISE))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "File too large" in found.remarks[0]
    assert torch.equal(found.theta, run("adam").theta)
    assert os.listdir(tmp_path) == ["proxlin.lock"]
