"""`proxlin fit` on real machines: killed while it trains, twice at once, without space."""

import os
import resource
import signal
import time
from contextlib import suppress

import pytest

from proxlin.errors import CheckpointError
from proxlin.run.checkpoint.folder import CheckpointFolder
from tests.app.tabular.houses import houses
from tests.forks import started
from tests.problem.parallel.commands import often_kept

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.name == "nt", reason="needs signals and limits of POSIX"),
]

PATIENCE = 120  # seconds for a process on a busy machine


@pytest.fixture
def table(tmp_path):
    houses(rows=400).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def net(table, *options):
    fit = ("fit", table, "--targets", "price", "--hidden", "32,32", "--quiet")
    return [str(part) for part in (*fit, *options)]


def used(folder):
    """Steps and seconds that the newest whole checkpoint remembers; none without one."""
    kept = CheckpointFolder(folder)
    for number in reversed(kept.numbers()):
        with suppress(CheckpointError):  # removed in its turn while we look
            return kept.read(number)[0].tree["entries"]["used"][:2]
    return 0, 0.0


def steps(folder):
    return used(folder)[0]


def killed_after(reached, kept, arguments, meanwhile=lambda pid: None):
    """Start the command, wait until a checkpoint is beyond `reached` steps, and kill it."""
    with started(often_kept, *arguments, ranks=1, folder=kept.parents[1]) as (child,):
        pid, end = child.process.pid, time.monotonic() + PATIENCE
        while steps(kept) <= reached:
            assert child.process.is_alive(), child.printed
            assert time.monotonic() < end
            time.sleep(0.02)
        os.kill(pid, signal.SIGSTOP)  # it must not be over before it is killed
        meanwhile(pid)
        os.kill(pid, signal.SIGKILL)
        assert child.wait(time.monotonic() + PATIENCE) == -signal.SIGKILL


def test_killed_while_training_and_run_again_it_goes_on_and_two_at_once_are_refused(
    run, table, tmp_path
):
    kept, out = tmp_path / "kept", tmp_path / "model"
    arguments = net(table, "--seconds", "600", "--checkpoint", kept, "--out", out)

    def second(pid):
        code, _, error = run(*arguments)
        assert code == 2
        assert f"{kept} is in use by process {pid}" in error
        assert error.count("\n") == 1

    killed_after(0, kept, arguments, second)
    reached = steps(kept)
    assert reached > 0
    killed_after(reached, kept, arguments)
    assert steps(kept) > reached
    assert not out.exists()
    # The last one ends soon: its budget of time is what the others have used up already.
    before, seconds = used(kept)
    arguments[arguments.index("600")] = str(seconds + 0.5)
    code, _, error = run(*arguments)
    assert code == 0, error
    assert steps(kept) >= before
    assert run("predict", out, table)[0] == 0


@pytest.mark.parametrize("limit", [0, 8_000])
def test_without_space_the_old_model_stays_and_one_sentence_says_why(run, table, tmp_path, limit):
    out = tmp_path / "model"
    arguments = ("fit", table, "--targets", "price", "--model", "linear", "--quiet", "--out", out)
    assert run(*arguments)[0] == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        code, printed, error = run(*arguments, "--overwrite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (code, printed) == (2, "")
    assert "cannot be written: File too large" in error
    assert error.count("\n") == 1
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "t.csv"]
