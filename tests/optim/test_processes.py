"""Processes that step together take the steps of one that has all their rows."""

from pathlib import Path

import pytest

from tests.problem.parallel.launch import torchrun

pytestmark = pytest.mark.processes


def test_a_loop_on_two_processes_equals_one_on_their_rows():
    ended = torchrun(Path(__file__).with_name("worker.py"), ranks=2)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.split() == ["equal"]
