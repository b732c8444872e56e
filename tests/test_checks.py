import math
from fractions import Fraction

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proxlin import _checks as checks
from proxlin.errors import DataError, InvalidInputError


def test_sentences_are_short_whatever_they_quote():
    for kind in (InvalidInputError, DataError):
        assert str(kind("must be a name.")) == "must be a name."
        assert len(str(kind("x" * 10**6))) < 1600


NOT_NUMBERS = [None, "1", True, math.nan, [1.0], 1 + 0j, torch.ones(()), 10**400, Fraction(1, 2)]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**9), 10**9))
def test_numbers_come_back_as_floats_if_and_only_if_in_range(value):
    conditions = {
        checks.check_real: True,
        checks.check_positive: value > 0,
        checks.check_non_negative: value >= 0,
        lambda n, v: checks.check_interval(n, v, -1, 2): -1 <= value <= 2,
        lambda n, v: checks.check_open_interval(n, v, -1, 2): -1 < value < 2,
    }
    for check, allowed in conditions.items():
        if allowed:
            assert check("x", value) == value
            assert isinstance(check("x", value), float)
        else:
            with pytest.raises(InvalidInputError, match="x must"):
                check("x", value)


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=checks.shown)
@pytest.mark.parametrize(
    "check",
    [
        checks.check_real,
        checks.check_positive,
        checks.check_non_negative,
        lambda n, v: checks.check_interval(n, v, 0, 2),
        lambda n, v: checks.check_open_interval(n, v, 0, 2),
    ],
)
def test_what_is_not_a_number_is_refused(check, value):
    with pytest.raises(InvalidInputError) as caught:
        check("rate", value)
    assert str(caught.value) == f"rate must be a finite number; got {checks.shown(value)}."


@pytest.mark.parametrize("value", [numpy.float32(0.5), numpy.int64(3)])
def test_other_libraries_numbers_are_numbers(value):
    assert checks.check_real("x", value) == float(value)
    assert checks.check_exponent("p", value + 1) == float(value) + 1


@pytest.mark.parametrize(("value", "minimum"), [(1, 1), (0, 0), (numpy.int32(7), 3), (10**12, 1)])
def test_counts_come_back_as_ints(value, minimum):
    count = checks.check_count("n", value, minimum)
    assert count == value
    assert type(count) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, "3", None, math.inf])
def test_what_is_not_a_count_is_refused(value):
    with pytest.raises(InvalidInputError) as caught:
        checks.check_count("n", value)
    assert str(caught.value) == f"n must be a whole number >= 1; got {value!r}."


@pytest.mark.parametrize("p", [1, 1.0, 1.0001, 2, 50, math.inf, numpy.float64(3)])
def test_exponents(p):
    assert checks.check_exponent("p", p) == p
    assert type(checks.check_exponent("p", p)) is float


@pytest.mark.parametrize("p", [0.999, 0, -1, math.nan, -math.inf, True, "inf", None, 2j])
def test_what_is_not_an_exponent_is_refused(p):
    with pytest.raises(InvalidInputError) as caught:
        checks.check_exponent("p", p)
    assert str(caught.value) == f"p must be a number >= 1 or inf; got {p!r}."


def test_a_choice_close_to_another_names_it():
    assert checks.check_choice("kind", "text", ("text", "published")) == "text"
    with pytest.raises(InvalidInputError) as caught:
        checks.check_choice("kind", "publish", ("text", "published"))
    assert str(caught.value) == (
        "kind must be one of 'published', 'text'; got 'publish'. Did you mean 'published'?"
    )
    with pytest.raises(InvalidInputError) as caught:
        checks.check_choice("kind", 3, ("text", "published"))
    assert str(caught.value) == "kind must be one of 'published', 'text'; got 3."


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1.0], "x must be a torch tensor; got list."),
        (torch.ones(2, dtype=torch.int64), "x must be float32 or float64; got torch.int64"),
        (torch.ones(2, dtype=torch.float16), "x must be float32 or float64; got torch.float16"),
    ],
)
def test_tensors_that_are_not_floating_are_refused(value, words):
    with pytest.raises(InvalidInputError) as caught:
        checks.check_floating("x", value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, 3),
        torch.empty(0, 4),
        torch.arange(3),
        torch.tensor([True]),
        torch.tensor(torch.finfo(torch.float32).max),
    ],
)
def test_finite_tensors_come_back_themselves(tensor):
    assert checks.check_finite("x", tensor) is tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(bad=st.lists(st.sampled_from([math.nan, math.inf, -math.inf]), min_size=1, max_size=6))
def test_what_is_not_finite_is_counted(bad, dtype):
    tensor = torch.tensor([1.0, *bad, -2.0], dtype=dtype)
    with pytest.raises(InvalidInputError) as caught:
        checks.check_finite("x", tensor)
    expected = f"got {len(bad)} NaN or infinite of {len(bad) + 2} numbers"
    assert expected in str(caught.value)
