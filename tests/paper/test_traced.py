from itertools import pairwise

import pytest
import torch

from proxlin import Problem, minimize
from proxlin.methods import SGD, Probed
from proxlin.models import linear_regressor
from proxlin.paper.figures import course
from proxlin.paper.traced import Traced


def problem(rows=600):
    generator = torch.Generator().manual_seed(0)
    x, noise = (torch.randn(rows, k, generator=generator) for k in (4, 2))
    y = x[:, :2] + 0.1 * noise
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Problem(linear_regressor(4, 2), (x, y), 1.0)


@pytest.mark.parametrize("method", [SGD(learning_rate=1e-2), Probed()], ids=["sgd", "probed"])
def test_a_traced_run_takes_the_same_steps(method):
    plain, traced = (
        minimize(problem(), chosen, max_seconds=None, max_iter=30)
        for chosen in (method, Traced(method))
    )
    assert torch.equal(plain.theta, traced.theta)
    assert [r["objective"] for r in plain.history.records] == [
        r["objective"] for r in traced.history.records
    ]


def test_looks_come_ever_more_rarely_and_measure_the_sample():
    method = Traced(SGD(learning_rate=1e-2))
    task = problem(rows=300)  # fewer than the sample: the look is the full objective
    result = minimize(task, method, max_seconds=None, max_iter=100)
    steps = [point["iteration"] for point in method.trace]
    assert steps[:5] == [0, 1, 2, 3, 4]
    assert all(later >= 1.25 * earlier for earlier, later in pairwise(steps))
    assert len(steps) < 25
    assert [p["seconds"] for p in method.trace] == sorted(p["seconds"] for p in method.trace)
    full = {r["iteration"]: r["objective"] for r in result.history.records}
    shared = [point for point in method.trace if point["iteration"] in full]
    assert len(shared) >= 2
    for point in shared:
        assert point["objective"] == pytest.approx(full[point["iteration"]])


def test_the_course_falls_and_ends_at_the_full_objective():
    trace = [(0, 0.0, 9.0), (1, 0.5, 3.0), (2, 1.0, 4.0)]
    record = {
        "trace": [{"iteration": i, "seconds": s, "objective": o} for i, s, o in trace],
        "history": [{"iteration": 3, "seconds": 2.0, "objective": 3.5, "best": 3.5}],
    }
    assert course(record) == ([0.1, 0.5, 1.0, 2.0], [9.0, 3.0, 3.0, 3.5])
    del record["trace"]
    assert course(record) == ([2.0, 2.0], [3.5, 3.5])
