"""Processes of their own that begin with torch and proxlin imported: forks of one small server.

Starting an interpreter and importing torch takes two seconds of the processor; a test that kills
processes or lets several work together starts a dozen.
"""

import multiprocessing
import os
import socket
import sys
import time
import traceback
from contextlib import contextmanager

FORKS = multiprocessing.get_context("forkserver" if os.name != "nt" else "spawn")
if os.name != "nt":
    FORKS.set_forkserver_preload([
        "proxlin.app.cli.fit",
        "proxlin.estimators",
        "tests.app.tabular.killed",
        "tests.docs.example",
        "tests.optim.worker",
        "tests.problem.parallel.commands",
        "tests.problem.parallel.train",
        "tests.problem.parallel.worker",
        "tests.run.checkpoint.child",
    ])  # fmt: skip


class Rank:
    """One of several processes, with what it printed and the error it ended with."""

    def __init__(self, process, output, errors):
        self.process, self.output, self.errors = process, output, errors

    def wait(self, end):
        """Its exit code; None if it has not ended at that time."""
        self.process.join(max(0.0, end - time.monotonic()))
        return self.process.exitcode

    @property
    def printed(self):
        return self.output.read_text(), self.errors.read_text()


@contextmanager
def started(work, *arguments, ranks, folder, **environment):
    """Processes that call `work(*arguments)`, several marked as torchrun does; gone at the end."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    marks = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks),
        "TORCHELASTIC_RUN_ID": "tests",
    }  # fmt: skip
    processes = []
    for rank in range(ranks):
        own = marks | {"RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else {}
        paths = folder / f"{port}-{rank}.out", folder / f"{port}-{rank}.err"
        for path in paths:
            path.touch()
        process = FORKS.Process(
            target=_as_rank,
            args=(work, arguments, own | environment, *paths),
            name="MainProcess",  # as torchrun's are, other than children of theirs
        )
        process.start()
        processes.append(Rank(process, *paths))
    try:
        yield processes
    finally:
        for each in processes:
            each.process.kill()
            each.process.join()


def together(work, *arguments, ranks, folder, timeout=240, **environment):
    """Exit code, standard output and standard error of each process, once all have ended."""
    end = time.monotonic() + timeout
    with started(work, *arguments, ranks=ranks, folder=folder, **environment) as processes:
        return [(each.wait(end), *each.printed) for each in processes]


def _as_rank(work, arguments, environment, output, errors):
    os.environ |= environment
    with output.open("w") as sys.stdout, errors.open("w") as sys.stderr:
        try:
            work(*arguments)
        except Exception:
            traceback.print_exc()
            sys.exit(1)
