"""Tables come in as numpy, pandas or torch, and what cannot be used is refused in a sentence."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import BaseEstimator

from proxlin.errors import InvalidInputError
from proxlin.estimators.tables import as_tensor, read_codes, read_pair, read_table, read_weights


class Reader(BaseEstimator):
    """Something that can learn column names."""


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1, 0], [0, 1]]),
        np.array([[True, False], [False, True]]),
        np.array([[1, 0], [0, 1]], dtype=object),
        pd.DataFrame({"a": [1, 0], "b": [False, True]}),
        torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True),
        torch.eye(2, dtype=torch.bfloat16),
        [[1, 0], [0, 1]],
    ],
    ids=["int", "bool", "object", "pandas", "gradient", "bfloat16", "list"],
)
def test_numbers_of_every_kind_are_read_alike(table):
    read = read_table(Reader(), table, reset=True)
    assert read.dtype in (np.float32, np.float64)
    np.testing.assert_array_equal(read, np.eye(2))


def test_single_precision_is_kept():
    assert read_table(Reader(), np.ones((2, 2), np.float32), reset=True).dtype == np.float32


def test_names_are_learned_and_compared():
    reader = Reader()
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    read_table(reader, frame, reset=True)
    assert list(reader.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names should match"):
        read_table(reader, frame.rename(columns={"b": "c"}), reset=False)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (sparse.eye_array(3).tocsr(), "must be dense here; got the sparse"),
        (torch.eye(2).to_sparse(), "dense tensor"),
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            "must not name a column twice; got copies of 'a'",
        ),
        (np.array([["one", 2]], dtype=object), "could not convert"),
        (np.array([[np.inf, 1.0]]), "infinity"),
        (np.array([[np.nan, 1.0]]), "NaN"),
        (np.ones(3), "Reshape your data"),
        (np.ones((0, 2)), "0 sample"),
        (np.ones((2, 0)), "0 feature"),
        (np.ones((2, 2), complex), "Complex data"),
    ],
)
def test_unusable_tables_are_refused(table, words):
    with pytest.raises(ValueError, match=words):
        read_table(Reader(), table, reset=True)


def test_nan_passes_on_request_and_infinity_never():
    gap = np.array([[np.nan, 1.0]])
    assert np.isnan(read_table(Reader(), gap, reset=True, allow_nan=True)[0, 0])
    with pytest.raises(ValueError, match="infinity"):
        read_table(Reader(), np.array([[np.inf, 1.0]]), reset=True, allow_nan=True)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.ones(3), "inconsistent numbers of samples"),
        (np.ones((2, 0)), "at least one|0 feature"),
        (np.ones((2, 2, 2)), "dim 3"),
        (np.array(["a", "b"]), "y must hold numbers; got the text"),
        (np.array([1.0, np.nan]), "NaN"),
    ],
)
def test_unusable_targets_are_refused(y, words):
    with pytest.raises(ValueError, match=words):
        read_pair(Reader(), np.ones((2, 2)), y, reset=True)


def test_weights_are_checked():
    x = np.ones((3, 1))
    assert read_weights(None, x) is None
    with pytest.raises(InvalidInputError, match=">= 0"):
        read_weights([1, -1, 1], x)
    with pytest.raises(ValueError, match=r"zero for every row|at least one non-zero"):
        read_weights([0, 0, 0], x)
    with pytest.raises(ValueError, match=r"sample_weight .* 3 rows; got shape \(2,\)"):
        read_weights([1, 1], x)


def test_tensors_do_not_alias_read_only_memory():
    frozen = np.ones((2, 2))
    frozen.flags.writeable = False
    as_tensor(frozen, dtype=torch.float64).add_(1.0)
    np.testing.assert_array_equal(frozen, np.ones((2, 2)))


def test_codes_have_the_width_of_the_code():
    np.testing.assert_array_equal(read_codes(torch.eye(2), 2), np.eye(2))
    with pytest.raises(InvalidInputError, match="n_components = 3 columns; got 2"):
        read_codes(np.eye(2), 3)


def test_large_finite_cells_are_finite():
    large = np.full((3, 2), 1e308)  # their sum is not
    np.testing.assert_array_equal(read_table(Reader(), large, reset=True), large)
