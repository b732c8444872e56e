"""Batches of any form: flat inside, and as the caller gave them where the module is called."""

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from proxlin import Problem, minimize
from proxlin.errors import InvalidInputError
from proxlin.problem.batch_form import flattened, rebuilt, with_tensors

X = torch.arange(12.0).reshape(6, 2)
Y = torch.arange(6.0).unsqueeze(1)


@pytest.mark.parametrize(
    "batch",
    [(X,), (X, Y), {"x": X, "y": Y}, ({"a": X, "b": (Y, X)}, Y), ((X, Y), X)],
    ids=["one", "two", "dict", "nested", "inputs"],
)
def test_a_batch_is_rebuilt_as_it_was(batch):
    tensors, form = flattened(batch)
    again = rebuilt(form, tensors)
    assert type(again) is type(batch)
    assert str(again) == str(batch)


def test_arrays_become_tensors_of_the_modules_type():
    found = with_tensors({"x": X.numpy().astype("float64"), "k": (numpy.arange(3), X)}, X.dtype)
    assert torch.equal(found["x"], X)
    assert found["k"][0].dtype == torch.long
    assert found["k"][1] is X
    with pytest.raises(InvalidInputError, match="must hold numbers; got object"):
        with_tensors(numpy.array([None]), X.dtype)


def test_arrays_that_must_not_be_written_to_are_copied():
    array = X.numpy().copy()
    array.flags.writeable = False
    tensor = with_tensors(array, X.dtype)
    assert torch.equal(tensor, X)
    tensor.zero_()
    assert array.any()


def test_bytes_of_an_array_may_have_any_order_and_none_may_be_masked():
    swapped = X.numpy().astype(">f4")
    assert torch.equal(with_tensors(swapped, X.dtype), X)
    masked = numpy.ma.masked_greater(X.numpy(), 8)
    with pytest.raises(InvalidInputError, match="3 are masked"):
        with_tensors((masked, X), X.dtype)
    whole = numpy.ma.masked_array(X.numpy())
    assert torch.equal(with_tensors(whole, X.dtype), X)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 1), nn.Linear(1, 1)

    def forward(self, a, b):
        return self.first(a) + self.second(b)


class Rows(Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return {"a": X[i], "b": Y[i], "target": X[i, :1]}


def by_name(module, batch):
    return module(batch["a"], batch["b"]) - batch["target"]


@pytest.mark.parametrize(
    ("data", "residual"),
    [
        (((X, Y), X[:, :1]), None),
        (({"b": Y, "a": X}, X[:, :1]), None),
        (({"b": Y.numpy(), "a": X.double().numpy()}, X[:, :1].numpy()), None),
        ({"a": X, "b": Y, "target": X[:, :1]}, by_name),
        (Rows(), by_name),
    ],
    ids=["tuple", "dict", "arrays", "by name", "data set of dicts"],
)
def test_all_forms_are_the_same_problem(data, residual):
    torch.manual_seed(0)
    module = TwoInputs()
    expected = float((module(X, Y) - X[:, :1]).detach().abs().mean())
    problem = Problem(module, data, 1, residual=residual)
    assert problem.objective(problem.theta()) == pytest.approx(expected, rel=1e-6)
    assert problem.restricted(torch.tensor([1, 3])).n_rows == 2
    assert minimize(problem, max_iter=20).objective < 0.5 * expected


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"a": X, "b": Y}, "got dict. Give (inputs, y), or residual(module, batch)"),
        ((X, {"y": Y}), "needs residual=...; got dict"),
        ((X, "a"), "a dictionary of them; got str in it"),
        ({}, "got dict"),
        ((X, Y, Y), "data of 3 parts needs residual"),
    ],
)
def test_what_the_default_residual_cannot_take_is_told(data, words):
    with pytest.raises(InvalidInputError) as caught:
        Problem(nn.Linear(2, 2), data)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
