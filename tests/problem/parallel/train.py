"""One training run with checkpoints, in which a process may be killed, stopped or slowed down.

train.py FOLDER [--fault kill|stop|term] [--rank R] [--after CALLS] [--pause SECONDS]

The fault strikes once, in the middle of a step: when the residual of rank R is asked for the
CALLS-th time. Rank 0 leaves the result in FOLDER/result.json; each process notes when it was
struck or when it learned that another was.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from proxlin import Checkpoints, Probed, Problem, Ridge, minimize
from proxlin.errors import CommunicationError
from proxlin.problem.parallel import communicator
from tests.problem.parallel.problems import net, own_part, table

STEPS = 40
METHOD = Probed(batch_size=32)
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}


def problem_of(group, residual=None):
    x, y = table()
    mine = own_part(group.rank, group.size)
    return Problem.sharded(net(), (x[mine], y[mine]), residual=residual, regularizer=Ridge(1e-3))


def difference(module, x, y):
    """Module(x) - y."""
    return module(x) - y


class Residual:
    """Module(x) - y, until the fault strikes."""

    def __init__(self, options, rank):
        self.options = options
        self.left = options.after if options.fault and rank == options.rank else -1

    def __call__(self, module, x, y):
        time.sleep(self.options.pause)
        self.left -= 1
        mark = Path(self.options.folder, "struck")
        if self.left == 0 and not mark.exists():
            mark.write_text(repr(time.time()))
            os.kill(os.getpid(), SIGNALS[self.options.fault])
        return difference(module, x, y)


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--fault", choices=SIGNALS)
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--after", type=int, default=150)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args(arguments)
    folder = Path(options.folder)
    group = communicator()
    steps = []
    try:
        result = minimize(
            problem_of(group, Residual(options, group.rank)),
            METHOD,
            max_seconds=None,
            max_iter=STEPS,
            callbacks=[lambda progress: steps.append(progress.iteration)],
            checkpoint=Checkpoints(folder / "run", every_steps=4),
        )
    except CommunicationError:
        (folder / f"told{group.rank}").write_text(repr(time.time()))
        raise
    if group.leads:
        told = {
            "objective": result.objective,
            "theta": result.theta.tolist(),
            "iterations": result.iterations,
            "status": result.status.name,
            "processes": group.size,
            "seen": steps,
        }
        (folder / "result.json").write_text(json.dumps(told))


if __name__ == "__main__":
    sys.exit(main())
