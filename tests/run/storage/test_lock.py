import os
import signal
import subprocess
import sys

import pytest

from proxlin.errors import InvalidInputError
from proxlin.run.storage import locked

HOLD = """
import sys, time
from pathlib import Path
from proxlin.run.storage import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.processes
def test_a_second_process_is_refused_until_the_first_dies(tmp_path, holder):
    with (
        pytest.raises(InvalidInputError, match=f"in use by process {holder.pid} on .*Wait"),
        locked(tmp_path),
    ):
        pytest.fail("it was let in")
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with locked(tmp_path):
        assert f"process {os.getpid()} " in (tmp_path / "proxlin.lock").read_text()


def test_a_stale_file_keeps_nobody_out(tmp_path):
    (tmp_path / "proxlin.lock").write_text("process 999999 on elsewhere")
    with locked(tmp_path):
        pass
    with locked(tmp_path):  # and the lock is given back
        pass
    assert (tmp_path / "proxlin.lock").read_text() == ""


def test_an_error_inside_gives_the_lock_back(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        _ = 1 / 0
    with locked(tmp_path):
        pass
