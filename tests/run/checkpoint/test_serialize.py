"""A memory taken apart and put together is the same to the last bit, or is refused."""

import json
import math
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from proxlin.errors import CheckpointError
from proxlin.problem.rows import Shuffler
from proxlin.run.checkpoint import Serialized, restore, serialize

CPU = torch.device("cpu")


@dataclass
class Inner:
    radius: float = 0.5
    label: str = "a"


@dataclass
class Memory:
    theta: Tensor = field(default_factory=lambda: torch.zeros(3))
    count: int = 0
    loss: float = math.nan
    whole: bool = False
    factor: Tensor = field(default_factory=lambda: torch.empty(0))
    average: Tensor | None = None
    inner: Inner = field(default_factory=Inner)
    pending: list = field(default_factory=list)
    records: list = field(default_factory=list)
    place: tuple = (0, 0.0)


def back(memory, fresh):
    parts = serialize(memory)
    tree = json.loads(json.dumps(parts.tree, allow_nan=False))
    return restore(fresh, Serialized(tree, parts.tensors), CPU)


def test_every_kind_of_field_comes_back():
    told = Memory(
        theta=torch.tensor([1.0, -0.0, math.nan]),
        count=7,
        loss=-math.inf,
        whole=True,
        factor=torch.randn(2, 2, dtype=torch.float64),
        average=torch.ones(2),
        inner=Inner(0.1 + 0.2, "b"),
        pending=[torch.ones(2), torch.zeros(2)],
        records=[{"iteration": 1, "loss": math.nan}, {"iteration": 2, "loss": 0.1}],
        place=(3, 0.25),
    )
    fresh = Memory()
    inner = fresh.inner
    found = back(told, fresh)
    assert found is fresh
    assert found.inner is inner  # what others hold on to stays the same object
    assert found.inner == told.inner
    assert torch.equal(found.theta.view(torch.int32), told.theta.view(torch.int32))
    assert (found.count, found.loss, found.whole) == (7, -math.inf, True)
    assert torch.equal(found.factor, told.factor)
    assert found.factor.dtype == torch.float64
    assert torch.equal(found.average, told.average)
    assert [torch.equal(a, b) for a, b in zip(found.pending, told.pending, strict=True)]
    assert math.isnan(found.records[0]["loss"])
    assert found.records[1] == told.records[1]
    assert found.place == (3, 0.25)


@given(number=st.floats())
def test_numbers_come_back_to_the_last_bit(number):
    found = back({"x": number}, {"x": 0.0})["x"]
    assert found == number or (math.isnan(found) and math.isnan(number))
    assert math.copysign(1, found) == math.copysign(1, number) or math.isnan(number)


@pytest.mark.parametrize("dims", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_tensors_keep_their_order_in_memory(dims):
    told = torch.arange(24.0).view(2, 3, 4).permute(dims)
    found = back({"x": told}, {"x": None})["x"]
    assert torch.equal(found, told)
    assert found.stride() == told.stride()


NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False))


@given(records=st.lists(st.dictionaries(st.sampled_from(["a", "b", "given"]), NUMBERS)))
def test_records_come_back_with_their_gaps(records):
    (found,) = back({"x": records}, {"x": []}).values()
    assert found == records


def test_a_long_history_is_kept_in_columns():
    records = [{"iteration": i, "objective": 1 / (i + 1)} for i in range(1000)]
    parts = serialize({"records": records})
    assert len(json.dumps(parts.tree)) < 200
    found = back({"records": records}, {"records": []})["records"]
    assert found == records
    assert isinstance(found[0]["iteration"], int)


def test_what_was_taken_does_not_change_with_the_memory():
    memory = Memory()
    parts = serialize(memory)
    memory.theta += 1
    assert torch.equal(restore(Memory(), parts, CPU).theta, torch.zeros(3))


@dataclass(frozen=True)
class Frozen:
    theta: Tensor
    steps: int = 0


def test_frozen_states_are_made_anew():
    fresh = Frozen(torch.zeros(2))
    found = back({"state": Frozen(torch.ones(2), 5)}, {"state": fresh})["state"]
    assert torch.equal(found.theta, torch.ones(2))
    assert (found.steps, fresh.steps) == (5, 0)


def test_generators_and_orders_of_rows_go_on_where_they_were():
    shuffler = Shuffler(10, 3, torch.Generator().manual_seed(1))
    for _ in range(4):  # into the second round
        shuffler.next()
    other = back(shuffler, Shuffler(10, 3, torch.Generator().manual_seed(2)))
    for _ in range(7):
        assert torch.equal(shuffler.next(), other.next())


@pytest.mark.parametrize(
    ("told", "fresh", "words"),
    [
        (Memory(theta=torch.zeros(4)), Memory(), "theta must be float32 of shape (3,)"),
        (Memory(theta=torch.zeros(3).double()), Memory(), "the checkpoint has float64"),
        (Memory(inner=Memory()), Memory(), "inner must be Inner; the checkpoint has Memory"),
        (Memory(count="a"), Memory(), "count must be int"),
        (Memory(whole=1), Memory(), "whole must be bool"),
        (Memory(place=(1,)), Memory(), "place must be 2 parts; the checkpoint has 1"),
        ({"a": 1}, {"b": 1}, "must be b; the checkpoint has a"),
        ({"a": 1.0}, {"a": torch.zeros(2)}, "a must be Tensor"),
        ({"a": torch.zeros(2)}, {"a": 1.0}, "a must be float"),
        ({"a": torch.zeros(2)}, {"a": Inner()}, "a must be Inner; the checkpoint has tensor"),
        ({"a": torch.Generator()}, {"a": None}, "the checkpoint has generator"),
        ({"a": [1]}, {"a": 1.0}, "a must be float"),
        ({"a": None}, {"a": 1}, "a must be int; the checkpoint has nothing"),
    ],
)
def test_what_does_not_fit_is_refused(told, fresh, words):
    with pytest.raises(CheckpointError) as caught:
        back(told, fresh)
    assert words in str(caught.value)


def test_what_cannot_be_kept_is_named():
    with pytest.raises(CheckpointError, match=r"state.1 is a set. Make it a dataclass"):
        serialize({"state": [1, {1, 2}]})
