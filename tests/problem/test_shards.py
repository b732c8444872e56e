"""LocalBatchs of batches: together the processes have every row of a batch once, in its order."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proxlin.errors import InvalidInputError
from proxlin.problem.rows import TensorRows
from proxlin.problem.shards import Everywhere, LocalBatch, Owned, own_rows


class Told:
    """A communicator whose other processes have said what they will say."""

    def __init__(self, rank, told):
        self.rank, self.size, self.told = rank, len(told), told

    def each(self, value):
        assert value == self.told[self.rank]
        return self.told


def rows_of(numbers):
    return TensorRows((torch.tensor(numbers, dtype=torch.float32),)) if numbers else None


def everywhere(n_rows, size):
    numbers = list(range(n_rows))
    return [Everywhere(rows_of(numbers), Told(rank, [n_rows] * size)) for rank in range(size)]


def owned(counts):
    ends = [sum(counts[: rank + 1]) for rank in range(len(counts))]
    return [
        Owned(rows_of(list(range(end - count, end))), Told(rank, counts))
        for rank, (count, end) in enumerate(zip(counts, ends, strict=True))
    ]


@st.composite
def spread_rows(draw):
    counts = draw(st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(sum))
    n_rows = sum(counts)
    index = draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=20))
    shards = draw(st.sampled_from([owned(counts), everywhere(n_rows, len(counts))]))
    return shards, torch.tensor(index)


def put_together(parts):
    """The batch from what each process holds of it."""
    batch = torch.full((parts[0].n_rows,), -1.0)
    for part in parts:
        if part.count:
            places = slice(None) if part.positions is None else part.positions
            assert bool((batch[places] == -1).all())  # nobody else had them
            batch[places] = part.tensors[0]
    return batch


@given(spread_rows())
def test_local_batches_are_the_batch(spread):
    shards, index = spread
    assert torch.equal(put_together([shard.take(index) for shard in shards]), index.float())


@given(spread_rows(), st.integers(1, 9))
def test_parts_of_local_batches_are_its_parts(spread, size):
    shards, index = spread
    parts = zip(*(shard.take(index).parts(size) for shard in shards), strict=True)
    for found, expected in zip(parts, torch.split(index, size), strict=True):
        assert torch.equal(put_together(found), expected.float())


@given(spread_rows(), st.integers(1, 9))
def test_a_pass_over_all_meets_every_row_once(spread, size):
    shards, index = spread
    found = [batch[0] for shard in shards for batch in shard.chunks(size)]
    assert torch.equal(torch.cat(found), torch.arange(shards[0].n_rows).float())
    some = [batch[0] for shard in shards for batch in shard.chunks(size, index)]
    assert torch.equal(torch.cat(some).sort().values, index.float().sort().values)
    assert max(sum(len(batch[0]) for batch in shard.chunks(size)) for shard in shards) == max(
        shard.most for shard in shards
    )


def test_a_slice_is_a_batch_too():
    parts = [shard.take(slice(2, 9)) for shard in owned([3, 0, 8])]
    assert torch.equal(put_together(parts), torch.arange(2, 9).float())


def test_rows_go_to_their_places():
    batch = LocalBatch((torch.zeros(2),), 4, torch.tensor([1, 3]))
    signs = torch.arange(8.0).view(4, 2)
    assert torch.equal(batch.own(signs), signs[[1, 3]])
    assert torch.equal(
        batch.own(torch.stack([signs, -signs])), torch.stack([signs, -signs])[:, [1, 3]]
    )


def test_nobody_with_rows_is_refused():
    with pytest.raises(InvalidInputError, match="at least one row"):
        own_rows(torch.empty(0, 3), Told(0, [0, 0]))
