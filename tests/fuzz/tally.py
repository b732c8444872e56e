"""What may come out of odd input: an answer or one of our errors; and a tally of what was tried."""

import json
import os
import resource
import signal
import time
from contextlib import contextmanager, suppress

import pytest
import torch

from proxlin.errors import ProxlinError

# `make fuzz` names a file: each process then adds a line to it, and no input may take longer.
LOG = os.environ.get("PROXLIN_FUZZ_LOG")
LONGEST = 30  # seconds

counts = {"inputs": 0, "refused": 0, "foreign": 0, "longest": 0.0}


class HangError(Exception):
    """An input that kept us longer than it may."""


def _ring(_number, _frame):
    raise HangError(f"no end after {LONGEST} s")


@contextmanager
def answered_or_refused():
    """Run what is inside; one of our errors ends it, every other one is a fault."""
    began = time.perf_counter()
    if LOG:
        signal.signal(signal.SIGALRM, _ring)
        signal.alarm(LONGEST)
    counts["inputs"] += 1
    try:
        yield
    except ProxlinError as refusal:
        counts["refused"] += 1
        if not 10 < len(str(refusal)) < 2000:
            pytest.fail(f"no sentence to read: {refusal}")
    except Exception:
        counts["foreign"] += 1
        raise
    finally:
        if LOG:
            signal.alarm(0)
        counts["longest"] = max(counts["longest"], time.perf_counter() - began)


def write_tally():
    """Add what this process has tried to the log."""
    if LOG and counts["inputs"]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB
        with open(LOG, "a", encoding="utf-8") as file:  # one write: lines do not mix
            file.write(json.dumps({**counts, "peak": peak}) + "\n")


def tiny_threads():
    """One thread: small tensors gain nothing from more."""
    with suppress(RuntimeError):
        torch.set_num_threads(1)
