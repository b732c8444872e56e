"""Processes that step together take the steps of one that has all their rows."""

import pytest

from tests.forks import together
from tests.optim import worker

pytestmark = pytest.mark.processes


def test_a_loop_on_two_processes_equals_one_on_their_rows(tmp_path):
    ended = together(worker.main, ranks=2, folder=tmp_path)
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert [printed for _, printed, _ in ended] == ["equal\n", ""]
