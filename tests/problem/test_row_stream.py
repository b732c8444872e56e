"""Loaders and iterable data sets: rows of a data set where they are one, else a stream."""

import pytest
import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
)

from proxlin import MBO, SADM, Adam, Probed, Problem, minimize
from proxlin.errors import InvalidInputError
from proxlin.problem import row_stream as stream
from proxlin.problem.rows import DatasetRows, TensorRows


def table(n):
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    return x, x @ torch.tensor([[1.0], [-2.0], [0.5]])


class Numbers(IterableDataset):
    """Rows (i, 2 i) for i = 0, 1, ..."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return ((torch.tensor([float(i)]), torch.tensor([2.0 * i])) for i in range(self.n))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_loader_that_visits_each_row_once_stands_for_its_rows(shuffle):
    x, y = table(50)
    problem = Problem(nn.Linear(3, 1), DataLoader(TensorDataset(x, y), 7, shuffle=shuffle))
    assert isinstance(problem.rows, TensorRows)
    assert problem.n_rows == 50
    assert not problem.streamed
    assert minimize(problem, max_iter=30).objective < 1e-2


def test_the_collation_of_a_loader_is_kept():
    x, y = table(20)

    def doubled(samples):
        rows, targets = zip(*samples, strict=True)
        return 2 * torch.stack(rows), torch.stack(targets)

    problem = Problem(nn.Linear(3, 1), DataLoader(TensorDataset(x, y), 4, collate_fn=doubled))
    assert isinstance(problem.rows, DatasetRows)
    assert torch.equal(problem.example[0], 2 * x[:2])


def test_a_short_stream_is_read_into_memory():
    problem = Problem(nn.Linear(1, 1), Numbers(30))
    assert problem.n_rows == 30
    assert not problem.streamed


def test_batches_are_the_next_rows_and_objectives_those_of_the_first(monkeypatch):
    monkeypatch.setattr(stream, "_SAMPLE_ROWS", 10)
    problem = Problem(nn.Linear(1, 1), DataLoader(Numbers(25), batch_size=4))
    assert problem.streamed
    assert problem.n_rows == 10
    taken = [problem.take(torch.zeros(9, dtype=torch.long)).tensors[0] for _ in range(4)]
    expected = torch.arange(36).remainder(25).float().unsqueeze(1)  # it begins anew
    assert torch.equal(torch.cat(taken), expected)
    sample = torch.arange(10.0).unsqueeze(1)
    assert torch.equal(problem.take(slice(0, 10)).tensors[0], sample)
    net = problem.module
    loss = float((net(sample) - 2 * sample).detach().abs().mean())
    assert problem.objective(problem.theta()) == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize(
    "method", [Probed(), Adam(learning_rate=0.1), MBO(solver=SADM(max_steps=30))], ids=repr
)
def test_methods_learn_from_a_stream(monkeypatch, method):
    monkeypatch.setattr(stream, "_SAMPLE_ROWS", 64)
    x, y = table(400)
    weights = WeightedRandomSampler(torch.ones(400), 400)
    torch.manual_seed(0)
    problem = Problem(nn.Linear(3, 1), DataLoader(TensorDataset(x, y), 32, sampler=weights))
    before = problem.objective(problem.theta())
    result = minimize(problem, method, max_iter=4 if isinstance(method, MBO) else 60)
    assert result.objective < 0.8 * before
    assert "The data are a stream: the objective is that of its first 64 rows." in result.remarks


def test_what_cannot_be_streamed_is_told(monkeypatch):
    monkeypatch.setattr(stream, "_SAMPLE_ROWS", 4)

    class Once(IterableDataset):
        rows = iter([torch.ones(2)] * 6)

        def __iter__(self):
            return self.rows

    problem = Problem(nn.Linear(2, 2), DataLoader(Once(), 2))
    with pytest.raises(InvalidInputError, match="not a generator"):
        problem.take(torch.arange(7))
    with pytest.raises(InvalidInputError, match="needs rows that can be numbered; got a stream"):
        minimize(Problem(nn.Linear(1, 1), Numbers(9)), held_out=0.5, max_iter=1)
    with pytest.raises(InvalidInputError, match="a stream without any"):
        Problem(nn.Linear(1, 1), Numbers(0))


def test_a_loader_of_a_list_of_samples_has_a_row_for_each():
    x, y = table(40)
    dictionaries = [{"x": row, "y": target} for row, target in zip(x, y, strict=True)]
    pairs = list(zip(x, y, strict=True))
    for samples, residual in (
        (pairs, lambda module, inputs, targets: module(inputs) - targets),
        (dictionaries, lambda module, batch: module(batch["x"]) - batch["y"]),
    ):
        problem = Problem(nn.Linear(3, 1), DataLoader(samples, 8, shuffle=True), residual=residual)
        other = Problem(nn.Linear(3, 1), (x, y))
        assert problem.n_rows == len(x)
        theta = other.theta()
        torch.testing.assert_close(problem.objective(theta), other.objective(theta))


class Growing(IterableDataset):
    """Batches whose rows become longer after some thousand."""

    def __iter__(self):
        for i in range(40):
            yield torch.ones(256, 3), torch.ones(256, 1 if i < 20 else 2)


def test_rows_that_change_their_shape_end_a_stream_in_a_sentence():
    problem = Problem(nn.Linear(3, 1), DataLoader(Growing(), batch_size=None))
    with pytest.raises(InvalidInputError, match=r"got \[\(3,\), \(1,\)\] and \[\(3,\), \(2,\)\]"):
        minimize(problem, Probed(batch_size=300), max_iter=50)


def test_numbers_of_loaders_become_those_of_the_module():
    x, y = table(40)
    rows = [(one.double().numpy(), float(other)) for one, other in zip(x, y, strict=True)]
    found = Problem(nn.Linear(3, 1), DataLoader(rows, 8))
    assert [tensor.dtype for tensor in found.example] == [torch.float32] * 2
    tensors = TensorDataset(x.double(), y.double())
    for data in (tensors, DataLoader(tensors, 8)):
        found = Problem(nn.Linear(3, 1), data)
        assert [tensor.dtype for tensor in found.example] == [torch.float32] * 2
    streamed = Problem(nn.Linear(1, 1), Doubles(Numbers(30)))
    assert [tensor.dtype for tensor in streamed.example] == [torch.float32] * 2


class Doubles(IterableDataset):
    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        return ((x.double(), y.double()) for x, y in self.inner)


def test_held_out_rows_may_come_from_a_loader():
    x, y = table(60)
    held = DataLoader(TensorDataset(x[:20], y[:20]), 7)
    results = []
    for rows in (held, (x[:20], y[:20])):
        torch.manual_seed(0)
        problem = Problem(nn.Linear(3, 1), (x[20:], y[20:]))
        results.append(minimize(problem, max_iter=20, held_out=rows))
    assert torch.equal(results[0].theta, results[1].theta)
