"""Under torchrun every method gives what one process gives, and all processes agree."""

from pathlib import Path

import pytest

from tests.problem.parallel.launch import torchrun

pytestmark = pytest.mark.processes

WORKER = Path(__file__).with_name("worker.py")
CHECKS = [line.split()[1].split("(")[0] for line in WORKER.read_text().splitlines()
          if line.startswith("def check_")]  # fmt: skip


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_together_equal_one(ranks):
    ended = torchrun(WORKER, ranks=ranks, timeout=540)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert sorted(ended.stdout.split()) == sorted(CHECKS)
