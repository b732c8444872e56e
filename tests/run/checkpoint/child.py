"""One run in a process of its own, which test_killed.py kills.

It sends the step at each evaluation, and at the end a fingerprint of its result.
"""

import hashlib
import os
import sys
import threading
import time

from proxlin import Checkpoints, minimize
from tests.run.checkpoint.runs import CASES, STEPS, problem, timeless

CASE = "probed layered"


def fingerprint(result):
    text = repr((timeless(result), result.status.name, result.iterations)).encode()
    return hashlib.sha256(result.theta.numpy().tobytes() + text).hexdigest()


def stall(at, say):
    """Make the flush number `at` to the disk one that never ends."""
    real, calls = os.fsync, iter(range(1, 10**6))

    def flush(handle):
        assert threading.current_thread() is not threading.main_thread()
        if next(calls) == at:
            say("stalled")
            time.sleep(600)
        real(handle)

    os.fsync = flush


def main(lines, errors, folder, *, every=None, stall_at=None, pause=0.0):
    if stall_at is not None:
        stall(stall_at, lines.send)

    def tell(progress):
        lines.send(f"step {progress.iteration}")
        time.sleep(pause)

    method, terms = CASES[CASE]
    with errors.open("w") as sys.stderr:
        result = minimize(
            problem(**terms), method, max_seconds=None, max_iter=STEPS, callbacks=[tell],
            checkpoint=Checkpoints(folder, every_seconds=None, every_steps=every),
        )  # fmt: skip
        lines.send(f"result {fingerprint(result)}")
