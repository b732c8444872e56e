import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from proxlin.errors import InvalidInputError
from proxlin.problem.rows import DatasetRows, Shuffler, TensorRows, as_rows, evenly_spread


@settings(deadline=None)
@given(
    batches=st.integers(1, 6), size=st.integers(1, 8), left=st.integers(0, 7), seed=st.integers(0)
)
def test_a_round_has_no_row_twice_and_leaves_out_less_than_a_batch(batches, size, left, seed):
    left = left % size
    n = batches * size + left
    shuffler = Shuffler(n, size, torch.Generator().manual_seed(seed % 2**31))
    for _ in range(3):
        visited = torch.cat([shuffler.next() for _ in range(batches)])
        assert len(visited) == n - left
        assert len(set(visited.tolist())) == n - left
        assert 0 <= int(visited.min()) <= int(visited.max()) < n


def test_a_round_whose_batches_divide_the_rows_visits_each_row_once():
    shuffler = Shuffler(12, 4, torch.Generator().manual_seed(0))
    rounds = [torch.cat([shuffler.next() for _ in range(3)]) for _ in range(4)]
    assert all(sorted(one.tolist()) == list(range(12)) for one in rounds)
    assert len({tuple(one.tolist()) for one in rounds}) == 4


def test_a_row_left_out_of_a_round_comes_in_others():
    shuffler = Shuffler(5, 2, torch.Generator().manual_seed(0))
    visits = torch.bincount(torch.cat([shuffler.next() for _ in range(2000)]), minlength=5)
    # 1000 rounds; each row is left out of a fifth of them, 12.6 more or less.
    assert bool(((visits - 800).abs() < 5 * 12.6).all())


def test_batches_are_never_larger_than_the_data():
    shuffler = Shuffler(3, 64, torch.Generator().manual_seed(0))
    assert sorted(shuffler.next().tolist()) == [0, 1, 2]


def test_the_order_comes_from_the_generator():
    def order(seed):
        shuffler = Shuffler(50, 10, torch.Generator().manual_seed(seed))
        return torch.cat([shuffler.next() for _ in range(10)])

    assert torch.equal(order(1), order(1))
    assert not torch.equal(order(1), order(2))


X = torch.arange(12.0).view(6, 2)
Y = torch.arange(6.0)
NUMBERS = torch.tensor([4, 0, 4])


class Rowwise(Dataset):
    """A Dataset that makes row i with a function."""

    def __init__(self, make, n=6):
        self.make = make
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.make(i)


@pytest.mark.parametrize("index", [slice(0, 6), slice(2, 4), NUMBERS], ids=str)
@pytest.mark.parametrize(
    "dataset",
    [TensorDataset(X, Y), Rowwise(lambda i: (X[i], Y[i])), Rowwise(lambda i: [X[i], Y[i]])],
    ids=["TensorDataset", "tuples", "lists"],
)
def test_rows_of_a_dataset_are_those_of_its_tensors(dataset, index):
    found = as_rows(dataset)
    assert isinstance(found, TensorRows if isinstance(dataset, TensorDataset) else DatasetRows)
    assert len(found) == 6
    for one, other in zip(found.take(index), as_rows((X, Y)).take(index), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("make", [lambda i: X[i], lambda i: X[i].numpy()], ids=["tensor", "array"])
def test_a_dataset_of_single_rows_gives_one_tensor(make):
    (found,) = as_rows(Rowwise(make)).take(NUMBERS)
    assert torch.equal(found, X[NUMBERS])


def test_a_dataset_is_read_only_where_rows_are_taken():
    read = []
    rows = as_rows(Rowwise(lambda i: read.append(i) or X[i]))
    assert read == []
    rows.take(slice(1, 3))
    assert read == [1, 2]


def test_a_slice_of_tensors_is_a_view_and_numbers_make_a_copy():
    rows = as_rows(X)
    assert isinstance(rows, TensorRows)
    (view,), (copy,) = rows.take(slice(1, 3)), rows.take(NUMBERS)
    assert view.data_ptr() == X[1].data_ptr()
    assert torch.equal(copy, X[NUMBERS])


class Stream(IterableDataset):
    def __iter__(self):
        return iter([1.0])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: as_rows(X.numpy()), "got ndarray"),
        (lambda: as_rows((X, numpy.ones(6))), "a tuple of tensors"),
        (lambda: as_rows(()), "got tuple"),
        (lambda: as_rows(Stream()), "a map-style torch Dataset; got Stream"),
        (lambda: as_rows(DataLoader(TensorDataset(X))), "got DataLoader. Pass loader.dataset"),
        (lambda: as_rows((X, Y[:5])), "same number of rows; got shapes (6, 2), (5,)."),
        (lambda: as_rows(torch.ones(())), "at least one row"),
        (lambda: as_rows((X[:0], Y[:0])), "at least one row"),
        (lambda: as_rows((X, Y / 0)), "data[1] must be finite; got 6 NaN or infinite of 6"),
        (lambda: as_rows(Rowwise(lambda i: X[i], n=0)), "got an empty Dataset"),
        (lambda: as_rows(Rowwise(lambda i: X[0, : i + 1])).take(slice(0, 2)), "same shape"),
        (lambda: as_rows(Rowwise(lambda i: None)).take(slice(0, 2)), "NoneType"),
        (lambda: as_rows(Rowwise(lambda i: (X[i], "a"))).take(slice(0, 2)), "tuple of tensors"),
        (lambda: as_rows(Rowwise(lambda i: X[i] * math.nan)).take(NUMBERS), "data[0] must be"),
    ],
)
def test_bad_rows_are_one_sentence(build, words):
    with pytest.raises(InvalidInputError) as caught:
        build()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_evenly_spread_stay_among_the_rows():
    for n_rows in (1, 5, 2048, 2**24 + 1, 78_125_000, 10**9):
        numbers = evenly_spread(n_rows, 2048)
        assert len(numbers) == min(n_rows, 2048)
        assert int(numbers[0]) == 0
        assert int(numbers[-1]) == n_rows - 1
        assert bool((numbers.diff() > 0).all())


def test_batches_of_very_many_rows_need_no_order():
    batches = Shuffler(10**9, 64, torch.Generator().manual_seed(0))
    index = torch.cat([batches.next() for _ in range(100)])
    assert not len(batches.order)
    assert 0 <= int(index.min()) < 10**8
    assert 9 * 10**8 < int(index.max()) < 10**9
