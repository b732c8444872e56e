import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxlin import Armijo
from proxlin.errors import InvalidInputError

ANCHOR = torch.zeros(1, dtype=torch.float64)
TARGET = torch.ones(1, dtype=torch.float64)


def run(rule, function, *, decrease):
    """Search from 0 to 1 on a function of one number; also returns the points that were tried."""
    tried = []

    def objective(theta):
        tried.append(float(theta))
        return function(float(theta))

    return rule.search(objective, ANCHOR, TARGET, function(0.0), decrease), tried


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.floats(-3, 1), min_size=1, max_size=12),
    decrease=st.floats(-5, -1e-3),
    slope=st.floats(0.01, 0.99),
    shrink=st.floats(0.1, 0.9),
    first=st.floats(0.2, 1),
)
def test_accepts_the_first_step_that_the_rule_allows_and_no_other(
    values, decrease, slope, shrink, first
):
    rule = Armijo(slope=slope, shrink=shrink, first=first, max_trials=len(values))
    remaining = iter(values)
    found = rule.search(lambda _: next(remaining), ANCHOR, TARGET, 0.0, decrease)
    steps = [first * shrink**m for m in range(len(values))]
    # Alg. 2: f(trial) - f(anchor) <= slope * step * Delta.
    allowed = [v <= slope * s * decrease * (1 - 1e-12) for v, s in zip(values, steps, strict=True)]
    barred = [v > slope * s * decrease * (1 + 1e-12) for v, s in zip(values, steps, strict=True)]
    if found.accepted:
        accepted = found.trials - 1
        assert not barred[accepted]
        assert not any(allowed[:accepted])
        assert found.objective == values[accepted]
        assert float(found.theta) == pytest.approx(steps[accepted], rel=1e-12)
    else:
        assert not any(allowed)
    assert found.step == pytest.approx(steps[found.trials - 1], rel=1e-12)


def test_a_quadratic_has_its_step_in_closed_form():
    # f(s) = 10 s^2 - s falls by slope * s * |Delta| with Delta = -1 exactly when s <= 0.09, and
    # 1/16 is the first power of 1/2 below.
    found, tried = run(Armijo(slope=0.1), lambda s: 10 * s * s - s, decrease=-1.0)
    assert (found.accepted, found.step, found.trials) == (True, 1 / 16, 5)
    assert tried == [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16]
    assert found.objective == 10 / 256 - 1 / 16


def test_a_point_on_the_bound_is_accepted():
    # Alg. 2 goes on only while f is strictly above the bound.
    found, _ = run(Armijo(slope=0.25), lambda s: -0.25 * s, decrease=-1.0)
    assert (found.accepted, found.step) == (True, 1.0)


def test_less_than_the_armijo_amount_is_not_enough():
    found, _ = run(Armijo(slope=0.25, max_trials=7), lambda s: -0.2 * s, decrease=-1.0)
    assert not found.accepted


def test_a_full_step_is_the_target_itself():
    anchor = torch.tensor([1e8, 1.0])
    target = torch.tensor([1.0 / 3, 1e-8])
    found = Armijo().search(lambda _: 0.0, anchor, target, 1.0, -1.0)
    assert found.theta is target
    # Along the segment it would not be: 1e8 + (1/3 - 1e8) is rounded.
    assert not torch.equal(anchor + (target - anchor), target)


@pytest.mark.parametrize("cap", [1, 3, 10])
def test_trials_are_capped_and_a_failed_search_stays_at_the_anchor(cap):
    found, tried = run(Armijo(max_trials=cap), lambda s: s, decrease=-1.0)
    assert not found.accepted
    assert found.theta is ANCHOR
    assert found.objective == 0.0
    assert found.trials == len(tried) == cap
    assert found.step == tried[-1] == 0.5 ** (cap - 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_points_without_a_finite_objective_are_passed_over(bad):
    found, tried = run(Armijo(), lambda s: bad if s > 0.3 else -s, decrease=-1.0)
    assert (found.accepted, found.step) == (True, 0.25)
    assert found.objective == -0.25
    assert tried == [1, 0.5, 0.25]


def test_the_ends_are_left_alone():
    anchor, target = ANCHOR.clone(), TARGET.clone()
    Armijo().search(lambda _: 1.0, anchor, target, 0.0, -1.0)
    assert torch.equal(anchor, ANCHOR)
    assert torch.equal(target, TARGET)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_type_is_kept(dtype):
    anchor, target = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
    found = Armijo(first=0.9).search(lambda _: -1.0, anchor, target, 0.0, -1.0)
    assert found.theta.dtype == dtype


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"slope": 0}, "Armijo(slope=...) must lie strictly between 0 and 1; got 0."),
        ({"slope": 1}, "Armijo(slope=...) must lie strictly between 0 and 1; got 1."),
        ({"shrink": 1.0}, "Armijo(shrink=...) must lie strictly between 0 and 1; got 1.0."),
        ({"shrink": math.nan}, "Armijo(shrink=...) must be a finite number; got nan."),
        ({"first": 0}, "Armijo(first=...) must lie in [1e-12, 1]; got 0."),
        ({"first": 1.5}, "Armijo(first=...) must lie in [1e-12, 1]; got 1.5."),
        ({"max_trials": 0}, "Armijo(max_trials=...) must be a whole number >= 1; got 0."),
        ({"max_trials": 2.5}, "Armijo(max_trials=...) must be a whole number >= 1; got 2.5."),
    ],
)
def test_settings_out_of_range_are_refused(setting, words):
    with pytest.raises(InvalidInputError) as caught:
        Armijo(**setting)
    assert str(caught.value) == words
