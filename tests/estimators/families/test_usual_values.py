import numpy as np
import pytest

from proxlin.estimators.families.usual_values import coded_rows, uncoded_rows


@pytest.fixture
def targets():
    return np.random.default_rng(0).normal(size=200)


@pytest.mark.parametrize("code", [-99.0, 999.0, 1e12])
def test_a_frequent_value_far_from_all_others_is_a_code(targets, code):
    targets[:60] = code
    targets[60:65] = 1e6  # a few other wrong ones hide no code
    np.testing.assert_array_equal(coded_rows(targets), targets == code)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_zeros_and_values_among_the_others_are_quantities(targets, value):
    quantity = targets + (1000 if value == 0 else 0)
    quantity[:60] = value
    assert not coded_rows(quantity).any()


def test_classes_a_majority_and_rare_values_are_no_codes(targets):
    assert not coded_rows((targets > 0.5) + 1.0).any()
    for count in (10, 120):
        values = targets.copy()
        values[:count] = 999
        assert not coded_rows(values).any()


def test_codes_that_leave_no_rows_are_not_told_apart(targets):
    table = np.column_stack([targets] * 3)
    table[:60, 0] = 999
    np.testing.assert_array_equal(uncoded_rows(table), np.arange(200) >= 60)
    table[60:120, 1] = 999
    table[120:190, 2] = 999
    assert uncoded_rows(table).all()
