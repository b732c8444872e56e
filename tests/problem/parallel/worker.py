"""Checks that several processes carry out together; run by test_equality.py.

Each check is a function of the communicator and asserts something on every process.
"""

import math
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from proxlin import (
    ADMM,
    MBO,
    SADM,
    SGD,
    Adam,
    Lasso,
    NonNegative,
    Probed,
    Problem,
    Ridge,
    Status,
    Subgradient,
    minimize,
)
from proxlin.errors import CommunicationError, InvalidInputError
from proxlin.exact.linear import solve_quantiles, stream_quantiles
from proxlin.methods.contract import Budget
from proxlin.models import linear_regressor
from proxlin.problem.parallel import alone, check_same_point, communicator
from tests.problem.parallel.problems import net, own_part, table

RIDGE = Ridge(1e-3)
METHODS = {
    "probed": (Probed(batch_size=32), 16),
    "newton": (Probed(), 3),  # all rows in one batch; more steps amplify the last bit
    "sgd": (SGD(batch_size=24), 12),
    "adam": (Adam(batch_size=24), 12),
    "mbo-sadm": (MBO(solver=SADM(max_steps=8, min_steps=4)), 2),
    "mbo-sgd": (MBO(solver=Subgradient(max_steps=8)), 2),
    "mbo-admm": (MBO(solver=ADMM(max_steps=40), decrease_rows=None), 2),
    "mbo-decrease-sample": (MBO(solver=SADM(max_steps=5), decrease_rows=50), 1),
}
ABOUT_ROWS = (
    "check_datasets_and_files_are_shards_too",
    "check_disagreement_is_refused",
    "check_measures_equal_one_process",
    "check_methods_equal_one_process",
    "check_one_interrupt_stops_all",
    "check_quantiles_equal_one_process",
    "check_rows_held_out_choose_alike",
    "check_units_of_targets_equal_one_process",
)
WITH_MANY = ("probed", "newton", "adam", "mbo-sadm")  # on four processes: one of each kind
OTHER_LOSSES = {2.0: ("probed", "mbo-sadm"), "mse": ("newton", "adam")}  # the sums are the same


def both(rank, size, p=1.0, **terms):
    """The problem with all rows everywhere, and with rows of each one's own."""
    x, y = table()
    mine = own_part(rank, size)
    terms = {"regularizer": RIDGE, **terms}
    # Another start on each rank: that of rank 0 counts.
    yield Problem(net(rank), (x, y), p, **terms)
    yield Problem.sharded(net(rank), (x[mine], y[mine]), p, **terms)


def by_one(p=1.0, **terms):
    with alone():
        return Problem(net(0), table(), p, **{"regularizer": RIDGE, **terms})


def assert_same_everywhere(group, theta):
    bits = theta.numpy().tobytes()
    assert all(each == bits for each in group.each(bits))


def run_by_one(group, method, steps, p=1.0, **terms):
    """The result of one process: rank 0 computes it while the others wait."""
    own = None
    if group.leads:
        own = minimize(by_one(p, **terms), method, max_seconds=None, max_iter=steps)
    return group.first(own)


def assert_equal_runs(group, p, name, method, steps, **terms):
    expected = run_by_one(group, method, steps, p, **terms)
    for problem in both(group.rank, group.size, p, **terms):
        assert problem.n_rows == 240
        found = minimize(problem, method, max_seconds=None, max_iter=steps)
        assert found.objective == pytest.approx(expected.objective, rel=1e-9), (name, p)
        torch.testing.assert_close(found.theta, expected.theta, rtol=1e-6, atol=1e-7)
        assert_same_everywhere(group, found.theta)
        assert found.status is expected.status


def check_methods_equal_one_process(group):
    for name in METHODS if group.size == 2 else WITH_MANY:
        assert_equal_runs(group, 1.0, name, *METHODS[name])
    for p, names in OTHER_LOSSES.items() if group.size == 2 else ():
        for name in names:
            assert_equal_runs(group, p, name, *METHODS[name])


def check_units_of_targets_equal_one_process(group):
    """Each rank's first rows say something else of the last layer; all of them decide together."""
    (x, y), method, steps = table(), *METHODS["probed"]
    order = nn.Sequential(net(0), nn.ReLU())(x).sum(1).argsort(descending=True)
    x, y = x[order], 1000 * y[order].abs() + 300
    mine = own_part(group.rank, group.size)
    with alone():
        whole = Problem(nn.Sequential(net(0), nn.ReLU()), (x, y), regularizer=RIDGE)
        expected = minimize(whole, method, max_iter=steps)
    own = Problem.sharded(
        nn.Sequential(net(group.rank), nn.ReLU()), (x[mine], y[mine]), regularizer=RIDGE
    )
    found = minimize(own, method, max_iter=steps)
    assert found.objective == pytest.approx(expected.objective, rel=1e-8)
    assert_same_everywhere(group, found.theta)


def check_terms_equal_one_process(group):
    for terms in ({"regularizer": Lasso(1e-2)}, {"constraint": NonNegative()}):
        assert_equal_runs(group, 1.0, "probed", Probed(batch_size=32), 12, **terms)
        assert_equal_runs(group, 1.0, "mbo-sadm", *METHODS["mbo-sadm"], **terms)


def check_quantiles_equal_one_process(group):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3000, 3, generator=generator, dtype=torch.float64)
    y = x.sum(1) + x[:, 0].abs() * torch.randn(3000, generator=generator, dtype=torch.float64)
    levels = [0.1, 0.5, 0.9]
    expected = solve_quantiles(x, y, levels)
    mine = slice(0, 100) if group.rank == 0 else slice(100, 3000) if group.rank == 1 else slice(0)
    for data, sharded in (((x, y), False), ((x[mine], y[mine]), True)):
        for one, other in zip(
            stream_quantiles(data, levels, sharded=sharded), expected, strict=True
        ):
            assert one.objective == pytest.approx(other.objective, rel=1e-7)
            assert one.certificate.rows == 3000
            assert_same_everywhere(group, one.theta)


def check_batch_sizes_change_alike(group):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60_000, 10, generator=generator, dtype=torch.float64)

    def sizes():
        problem = Problem(linear_regressor(10).double(), (x, x.sum(1, keepdim=True)), "mse")
        method = Probed()
        state = method.init(problem, torch.zeros(11).double(), torch.Generator().manual_seed(0))
        for _ in range(80):
            method.step(problem, state, Budget(None, 80))
            yield state.batch_size

    own = None
    if group.leads:
        with alone():
            own = list(sizes())
    expected, found = group.first(own), list(sizes())
    assert_same_everywhere(group, torch.tensor(found))
    assert found == expected
    assert len(set(found)) > 1


def check_armijo_decides_alike(group):
    method = MBO(solver=SADM(max_steps=8, min_steps=4))
    columns = ["objective", "step", "trials", "decrease"]
    expected = run_by_one(group, method, 2).history.frame()
    for problem in both(group.rank, group.size):
        frame = minimize(problem, method, max_seconds=None, max_iter=2).history.frame()
        tables = group.each(frame[columns].to_numpy(dtype=float).tobytes())
        assert all(each == tables[0] for each in tables)
        assert frame["trials"].equals(expected["trials"])
        np.testing.assert_allclose(frame["step"], expected["step"])


def check_measures_equal_one_process(group):
    one = by_one(1.5)
    theta = one.theta()
    index = torch.tensor([3, 200, 3, 77, 120, 9])
    part = one.restricted(index)
    for problem in both(group.rank, group.size, 1.5):
        assert problem.objective(theta) == pytest.approx(one.objective(theta), rel=1e-12)
        assert problem.objective(theta, index) == pytest.approx(one.objective(theta, index))
        torch.testing.assert_close(problem.row_losses(theta), one.row_losses(theta))
        assert problem.restricted(index).objective(theta) == pytest.approx(part.objective(theta))
        options = {"max_seconds": None, "max_iter": 1, "stationarity_rows": 20}
        found = minimize(problem, Adam(batch_size=8), **options).certificate.value
        with alone():
            expected = minimize(by_one(1.5), Adam(batch_size=8), **options).certificate.value
        assert found == pytest.approx(expected, rel=1e-5)


def check_rows_held_out_choose_alike(group):
    x, y = table(60, seed=1)
    options = {"max_seconds": None, "max_iter": 10}
    expected = minimize(by_one(), Adam(batch_size=8), held_out=(x, y), **options)
    everywhere, own = both(group.rank, group.size)
    found = minimize(everywhere, Adam(batch_size=8), held_out=(x, y), **options)
    torch.testing.assert_close(found.theta, expected.theta)
    mine = own_part(group.rank, group.size, 60) if group.size < 4 else slice(group.rank, None, 4)
    found = minimize(own, Adam(batch_size=8), held_out=(x[mine], y[mine]), **options)
    torch.testing.assert_close(found.theta, expected.theta)


class Pairs(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        return self.x[number], self.y[number]


def check_datasets_and_files_are_shards_too(group):
    x, y = table()
    mine = own_part(group.rank, group.size)
    expected = run_by_one(group, Adam(batch_size=16), 5)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{name}.npy") for name in "xy"]
        for path, tensor in zip(paths, (x, y), strict=True):
            np.save(path, tensor.numpy())
        files = tuple(np.load(path, mmap_mode="r")[mine] for path in paths)
        for data in (Pairs(x[mine], y[mine]), files):
            problem = Problem.sharded(net(), data, regularizer=RIDGE)
            found = minimize(problem, Adam(batch_size=16), max_seconds=None, max_iter=5)
            torch.testing.assert_close(found.theta, expected.theta)


def check_time_runs_out_in_the_same_step(group):
    for problem in both(group.rank, group.size):
        seconds = 0.5 if group.leads else 30.0  # the budget of rank 0 counts
        result = minimize(problem, Probed(batch_size=32), max_seconds=seconds)
        assert result.status is Status.TIME
        assert len(set(group.each((result.iterations, result.seconds)))) == 1
        assert_same_everywhere(group, result.theta)


def check_one_callback_stops_all(group):
    def stop(progress):
        return group.rank == group.size - 1 and progress.iteration >= 6

    for problem in both(group.rank, group.size):
        result = minimize(problem, "adam", max_seconds=None, max_iter=20, callbacks=[stop])
        assert result.status is Status.STOPPED
        assert set(group.each(result.iterations)) == {6}


def check_one_interrupt_stops_all(group):
    def press(progress):
        if group.rank == group.size - 1 and progress.iteration == 4:
            os.kill(os.getpid(), signal.SIGINT)

    for problem in both(group.rank, group.size):
        result = minimize(problem, "adam", max_seconds=None, max_iter=40, callbacks=[press])
        assert result.status is Status.INTERRUPTED
        (iterations,) = set(group.each(result.iterations))
        assert 4 <= iterations < 40
        assert_same_everywhere(group, result.theta)


def check_diverging_ends_alike(group):
    for problem in both(group.rank, group.size, "mse"):
        result = minimize(problem, SGD(learning_rate=1e9), max_seconds=None, max_iter=40)
        assert set(group.each(result.status)) == {Status.NON_FINITE}
        assert math.isfinite(result.objective)


def check_disagreement_is_refused(group):
    x, y = table()
    with pytest.raises(CommunicationError, match="same problem and method"):
        minimize(Problem(net(), (x, y), 1.0 + group.rank), "adam", max_seconds=1)
    with pytest.raises(CommunicationError, match="no checkpoint"):
        minimize(Problem(net(), (x, y)), checkpoint="kept" if group.leads else None)
    with pytest.raises(InvalidInputError, match=r"Problem\.sharded"):
        Problem(net(), (x[group.rank :], y[group.rank :]))
    with pytest.raises(InvalidInputError, match="at least one row"):
        Problem.sharded(net(), None)
    with pytest.raises(CommunicationError, match="drifted apart"):
        check_same_point(group, torch.full((3,), float(group.rank)))


def check_too_little_memory_is_met_alike(group):
    """Where the rows of one share are too many, all go matrix-free: nobody waits for the others."""
    method = MBO(solver=SADM(max_steps=4, min_steps=2), max_bytes=8000)
    expected = run_by_one(group, method, 1)
    for problem in both(group.rank, group.size):
        found = minimize(problem, method, max_seconds=None, max_iter=1)
        assert found.objective == pytest.approx(expected.objective, rel=1e-3)
        assert_same_everywhere(group, found.theta)


def checks(ranks):
    """The names of the checks for so many processes.

    What is decided by a sum over all of them does not change with their number; whose rows are
    whose does, and a process may have none.
    """
    names = sorted(
        n for n, check in globals().items() if getattr(check, "__module__", "") == __name__
    )
    names = [name for name in names if name.startswith("check_")]
    return names if ranks == 2 else [name for name in names if name in ABOUT_ROWS]


def main():
    group = communicator()
    for name in checks(group.size):
        globals()[name](group)
        if group.leads:
            sys.stdout.write(f"{name}\n")
