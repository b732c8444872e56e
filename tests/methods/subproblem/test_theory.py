import math

import pytest

from proxlin.errors import InvalidInputError
from proxlin.methods.subproblem import sadm_constants, sadm_iterations

PROBLEM = {
    "residual": 1.5,
    "jacobian": 0.2,
    "diameter": 2.0,
    "outputs": 9,
    "parameters": 16,
    "p": 2.0,
    "prox_weight": 0.5,
    "modulus": 0.1,
}
# L = N^(1/p) d M_D + h D_C, the two summands of the regret, and the bound of the noise, by hand.
LIPSCHITZ = 3 * 16 * 0.2 + 0.5 * 2
REGRET = LIPSCHITZ**2 / (2 * 0.5)
START = 0.6 / 2 * 4
NOISE = 2 * 3 * (1.5 + 4 * 0.2 * 2)


@pytest.mark.parametrize("steps", [3, 4, 10, 1000, 10**7])
def test_k1_covers_the_regret_of_the_proof(steps):
    constants = sadm_constants(**PROBLEM)
    proved = REGRET * math.log(steps + 1) / steps + START / steps
    assert proved <= constants.k1 * math.log(steps) / steps * (1 + 1e-12)


def test_k1_is_as_small_as_a_bound_from_three_steps_on_can_be():
    proved = REGRET * math.log(4) / 3 + START / 3
    assert sadm_constants(**PROBLEM).k1 * math.log(3) / 3 == pytest.approx(proved)


def test_k2_bounds_the_noise_of_a_step():
    assert sadm_constants(**PROBLEM).k2 == pytest.approx(NOISE)


def test_the_printed_k1_would_not_bound_the_proof():
    balanced = {**PROBLEM, "jacobian": 0.0, "modulus": 0.5 * (math.log(3) / math.log(2) - 1)}
    # h D^2/2 and (beta + h) D^2/2: both summands of the maximum are now equal.
    regret, start = 0.5 * 4 / 2, (balanced["modulus"] + 0.5) * 4 / 2
    printed = max(regret * math.log(3) / math.log(2), start)
    assert printed * math.log(3) < regret * math.log(4) + start
    assert sadm_constants(**balanced).k1 > printed


@pytest.mark.parametrize("accuracy", [10.0, 0.3, 1e-3])
@pytest.mark.parametrize("probability", [0.01, 0.9, 0.999])
def test_iterations_are_the_least_that_suffice(accuracy, probability):
    constants = sadm_constants(**PROBLEM)
    steps = sadm_iterations(accuracy, probability, **PROBLEM)
    deviation = 2 * math.sqrt(math.log(1 / (1 - probability)))

    def bound(t):
        return constants.k1 * math.log(t) / t + constants.k2 * deviation / math.sqrt(t)

    assert bound(steps) <= accuracy * (1 + 1e-12)
    assert steps == 3 or bound(steps - 1) > accuracy
    assert math.exp(-(deviation**2) / 4) == pytest.approx(1 - probability)


def test_three_steps_are_enough_for_any_large_accuracy():
    assert sadm_iterations(1e9, 0.5, **PROBLEM) == 3


def test_more_certainty_and_more_accuracy_need_more_steps():
    def steps(accuracy, probability):
        return sadm_iterations(accuracy, probability, **PROBLEM)

    assert steps(0.1, 0.9) < steps(0.1, 0.99) < steps(0.01, 0.99)


def test_the_maximum_norm_does_not_depend_on_the_outputs():
    one, many = ({**PROBLEM, "p": math.inf, "outputs": n} for n in (1, 1000))
    assert sadm_constants(**one) == sadm_constants(**many)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("residual", -1.0),
        ("jacobian", math.inf),
        ("diameter", 0.0),
        ("outputs", 0),
        ("parameters", 1.5),
        ("p", 0.5),
        ("prox_weight", 0.0),
        ("modulus", 0.0),
    ],
)
def test_refuses_constants(name, value):
    with pytest.raises(InvalidInputError, match=name):
        sadm_iterations(0.1, 0.9, **{**PROBLEM, name: value})


@pytest.mark.parametrize(("accuracy", "probability"), [(0.0, 0.9), (0.1, 1.0), (0.1, 0.0)])
def test_refuses_goals(accuracy, probability):
    with pytest.raises(InvalidInputError):
        sadm_iterations(accuracy, probability, **PROBLEM)
