"""One run of a case in a process of its own: `child.py FOLDER CASE ...`.

It prints the step at each evaluation, and at the end a fingerprint of its result.
"""

import argparse
import hashlib
import os
import sys
import threading
import time

from proxlin import Checkpoints, minimize
from tests.run.checkpoint.runs import CASES, STEPS, problem, timeless


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def fingerprint(result):
    text = repr((timeless(result), result.status.name, result.iterations)).encode()
    return hashlib.sha256(result.theta.numpy().tobytes() + text).hexdigest()


def stall(at):
    """Make the flush number `at` to the disk one that never ends."""
    real, calls = os.fsync, iter(range(1, 10**6))

    def flush(handle):
        assert threading.current_thread() is not threading.main_thread()
        if next(calls) == at:
            say("stalled")
            time.sleep(600)
        real(handle)

    os.fsync = flush


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("case")
    parser.add_argument("--every", type=int)
    parser.add_argument("--stall", type=int)
    parser.add_argument("--pause", type=float, default=0.0)
    asked = parser.parse_args()
    if asked.stall:
        stall(asked.stall)

    def tell(told):
        say(f"step {told.iteration}")
        time.sleep(asked.pause)

    method, terms = CASES[asked.case]
    result = minimize(
        problem(**terms), method, max_seconds=None, max_iter=STEPS, callbacks=[tell],
        checkpoint=Checkpoints(asked.folder, every_seconds=None, every_steps=asked.every),
    )  # fmt: skip
    say(f"result {fingerprint(result)}")


if __name__ == "__main__":
    main()
