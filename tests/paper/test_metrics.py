import numpy as np
import pytest
import torch
from torch import nn

from proxlin.data import add_outliers, load_dataset
from proxlin.errors import InvalidInputError
from proxlin.paper.cell import _warm_up, run_cell
from proxlin.paper.grid import Cell
from proxlin.paper.metrics import measure, seconds_to_reach
from proxlin.paper.store import unpack
from proxlin.paper.workload import fresh_net, workload


def cell(**changes):
    given = {"dataset": "digits", "outliers": 0.2, "p": 1.0, "method": "adam-0.01"}
    return Cell(**{**given, "seconds": None, "steps": 5, "rows": 80, **changes})


def naive(net, x, p):
    with torch.no_grad():
        r = (net(x) - x).flatten(1).double().numpy()
    if p == "mse":
        return (r**2).sum(1)
    return np.linalg.norm(r, ord=p, axis=1)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_the_figures_are_those_of_the_paper(p):
    """Computed once more from the words of Sec. 5, with the data put together by hand."""
    record = run_cell(cell(p=p))
    data = load_dataset("digits")
    rows = torch.linspace(0, len(data.x_train) - 1, 80).long()
    dirty, mask = add_outliers(data.x_train[rows], 0.2, seed=0)
    test = data.x_test[torch.linspace(0, len(data.x_test) - 1, 80).long()]
    theta = unpack(record["theta"])
    net = fresh_net(cell(p=p))
    nn.utils.vector_to_parameters(theta, net.parameters())
    found = record["metrics"][str(p)]
    g = 0.001 / 2 * float(theta.double().square().sum())
    assert found["f_obj"] == pytest.approx(naive(net, dirty, p).mean() + g, rel=1e-5)
    assert found["f_noutl"] == pytest.approx(
        naive(net, data.x_train[rows[~mask]], p).mean(), rel=1e-5
    )
    assert found["f_test"] == pytest.approx(naive(net, test, p).mean(), rel=1e-5)
    assert record["rows"] == {"train": 80, "outliers": int(mask.sum()), "test": 80}
    assert 0 < mask.sum() < 80
    assert found["f_obj"] == pytest.approx(record["history"][-1]["best"], rel=1e-6)


def test_squared_error_is_judged_by_every_norm():
    record = run_cell(cell(p="mse", method="mse", steps=2))
    assert list(record["metrics"]) == ["mse", "1.0", "1.5", "2.0"]
    net = fresh_net(cell())
    nn.utils.vector_to_parameters(unpack(record["theta"]), net.parameters())
    test = workload(cell()).test[0]
    for p in ("mse", 1.0, 1.5, 2.0):
        expected = naive(net, test, p).mean()
        assert record["metrics"][str(p)]["f_test"] == pytest.approx(expected, rel=1e-5)


def test_without_outliers_objective_is_clean_loss_plus_regulariser():
    work = workload(cell(outliers=0.0))
    net = fresh_net(cell())
    problem = work.problem(net, 1.5)
    theta = problem.theta()
    found = measure(work, problem, theta, 1.5)
    g = 0.0005 * float(theta.double().square().sum())
    assert found["f_obj"] - found["f_noutl"] == pytest.approx(g, rel=1e-4)


def test_the_seed_decides_outliers_net_and_nothing_else_does():
    one, again, other = (run_cell(cell(seed=seed)) for seed in (1, 1, 2))
    for part in ("metrics", "theta", "rows"):
        assert one[part] == again[part]
    assert one["theta"] != other["theta"]
    before = torch.random.get_rng_state()
    torch.manual_seed(5)
    assert run_cell(cell(seed=1))["theta"] == one["theta"]
    torch.random.set_rng_state(before)


def test_cells_leave_the_global_generator_alone():
    _warm_up.cache_clear()
    before = torch.random.get_rng_state()
    run_cell(cell())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_no_clean_row_is_refused():
    with pytest.raises(InvalidInputError, match="at least one training row must stay clean"):
        run_cell(cell(outliers=0.99, rows=2))


def test_time_to_reach():
    history = [{"seconds": s, "objective": o} for s, o in ((0.1, 9.0), (1.0, 4.0), (2.0, 3.0))]
    assert seconds_to_reach(history, 9.5) == 0.1
    assert seconds_to_reach(history, 4.0) == 1.0
    assert seconds_to_reach(history, 3.5) == 2.0
    assert seconds_to_reach(history, 2.9) is None
    assert seconds_to_reach([], 1.0) is None
