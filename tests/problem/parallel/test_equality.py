"""On several processes every method gives what one process gives, and all processes agree."""

import pytest

from tests.forks import together
from tests.problem.parallel import worker

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_together_equal_one(ranks, tmp_path):
    ended = together(worker.main, ranks=ranks, folder=tmp_path, timeout=540)
    assert [code for code, _, _ in ended] == [0] * ranks, ended
    assert ended[0][1].split() == worker.checks(ranks)
    assert len(worker.checks(2)) > len(worker.checks(4)) > 5
