"""Processes that step together take the steps of one that has all their rows."""

import pytest

from tests.forks import together
from tests.optim import worker

pytestmark = pytest.mark.processes


def test_a_loop_on_two_processes_equals_one_on_their_rows(tmp_path):
    assert together(worker.main, 2, tmp_path) == ["equal\n", ""]
