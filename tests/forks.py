"""Processes of their own that begin with torch and proxlin imported: forks of one small server.

Starting an interpreter and importing torch takes two seconds of the processor; a test that kills
processes or lets several work together starts a dozen.
"""

import multiprocessing
import os
import socket
import sys
import traceback
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver" if os.name != "nt" else "spawn")
if os.name != "nt":
    FORKS.set_forkserver_preload([
        "tests.app.tabular.killed",
        "tests.optim.worker",
        "tests.problem.parallel.worker",
        "tests.run.checkpoint.child",
    ])  # fmt: skip


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def together(work, ranks, folder, timeout=240):
    """Run `work()` on so many processes as torchrun would; what each of them printed."""
    port = free_port()
    outputs = [Path(folder, f"rank-{rank}.txt") for rank in range(ranks)]
    children = [
        FORKS.Process(
            target=_as_rank,
            args=(work, rank, ranks, port, outputs[rank]),
            name="MainProcess",  # as torchrun's are, other than children of theirs
        )
        for rank in range(ranks)
    ]
    for child in children:
        child.start()
    try:
        for child in children:
            child.join(timeout)
    finally:
        for child in children:
            child.kill()
    codes = [child.exitcode for child in children]
    errors = [path.with_suffix(".errors") for path in outputs]
    assert codes == [0] * ranks, [path.read_text()[-2000:] for path in errors if path.exists()]
    return [path.read_text() for path in outputs]


def _as_rank(work, rank, ranks, port, output):
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "tests",
    }
    with output.open("w") as sys.stdout, output.with_suffix(".errors").open("w") as sys.stderr:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            raise
