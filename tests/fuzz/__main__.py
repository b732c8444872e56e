"""Odd input for so many minutes, at random: `python -m tests.fuzz --minutes 30`.

Prints what was tried; ends with 1 after the first input that brought something else than an answer
or one of our errors, that took longer than 30 seconds, or that filled the memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_MEMORY = 2048  # MB of a process, with torch, pandas and pyarrow loaded


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--processes", default="auto")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "tally"
        end, began, failed = time.time() + 60 * asked.minutes, time.time(), 0
        environment = {**os.environ, "PROXLIN_FUZZ_LOG": str(log), "OMP_NUM_THREADS": "1"}
        while time.time() < end and not failed:
            failed = subprocess.run(
                [sys.executable, "-m", "pytest", "tests/fuzz", "--hypothesis-profile", "fuzz",
                 "--quiet", "--numprocesses", asked.processes, "--dist", "worksteal"],
                env=environment, check=False,
            ).returncode  # fmt: skip
            tally = [json.loads(line) for line in log.read_text().splitlines()]
            total = {
                key: sum(row[key] for row in tally) for key in ("inputs", "refused", "foreign")
            }
            longest, peak = (max(row[key] for row in tally) for key in ("longest", "peak"))
            print(  # noqa: T201
                f"{(time.time() - began) / 60:.1f} minutes: {total['inputs']:,} inputs,"
                f" {total['refused']:,} refused in a sentence, {total['foreign']} foreign"
                f" exceptions; the longest took {longest:.1f} s; memory peak {peak:,.0f} MB"
                f" of {MOST_MEMORY:,} MB",
                flush=True,
            )
            failed = failed or peak > MOST_MEMORY
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
