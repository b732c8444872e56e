"""Outlier scores: false alarms, breakdown, equivariance."""

import numpy as np
import pytest

from proxlin.estimators.scores import FALSE_ALARMS, OutlierScale, detection_limit

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("targets", "most"), [(1, 0.01), (2, 0.003), (20, 0.001)])
def test_false_alarms_of_gaussian_residuals(targets, most):
    norms = np.linalg.norm(RNG.normal(size=(100_000, targets)), axis=1)
    scale = OutlierScale.fit(norms)
    share = scale.flags(scale.scores(norms)).mean()
    assert 0 < share < most


@pytest.mark.parametrize(("share", "distance"), [(0.1, 4.0), (0.3, 6.0), (0.45, 12.0)])
def test_gross_rows_are_flagged_and_do_not_hide_each_other(share, distance):
    """The more there are, the farther they must lie; at half of the rows nothing can be told."""
    norms = np.abs(RNG.normal(size=20_000))
    bad = np.arange(len(norms)) < share * len(norms)
    norms[bad] = distance + RNG.random(int(bad.sum()))
    scale = OutlierScale.fit(norms)
    flags = scale.flags(scale.scores(norms))
    assert flags[bad].all()
    assert flags[~bad].mean() < 0.02


def test_scores_do_not_depend_on_the_unit():
    norms = RNG.exponential(size=500)
    first, second = OutlierScale.fit(norms), OutlierScale.fit(1e-5 * norms, size=1e-5)
    np.testing.assert_allclose(first.scores(norms), second.scores(1e-5 * norms), rtol=1e-9)


def test_exact_fits_leave_a_scale():
    norms = np.zeros(10)
    norms[0] = 1.0
    scale = OutlierScale.fit(norms, size=1.0)
    assert scale.flags(scale.scores(norms)).tolist() == [True] + [False] * 9


def test_rows_without_a_residual_are_not_flagged():
    norms = np.array([1.0, 2.0, np.nan, 1.5, 100.0])
    scale = OutlierScale.fit(norms)
    assert scale.flags(scale.scores(norms)).tolist() == [False, False, False, False, True]
    assert OutlierScale.fit(np.array([np.nan])).spread > 0


@pytest.mark.filterwarnings("error")
def test_scores_beyond_all_numbers_are_the_largest():
    scale = OutlierScale(0.0, np.finfo(np.float64).tiny)
    scores = scale.scores(np.array([0.0, 1e10]))
    np.testing.assert_array_equal(scale.flags(scores), [False, True])
    assert np.isfinite(scores).all()


def test_rows_that_fit_exactly_say_nothing_of_those_that_a_solver_left_at_its_tolerance():
    norms = np.concatenate([np.zeros(60), 1e-3 * RNG.random(37), np.ones(3)])
    scale = OutlierScale.fit(norms, size=1.0, tol=1e-4)
    np.testing.assert_array_equal(np.flatnonzero(scale.flags(scale.scores(norms))), [97, 98, 99])
    assert OutlierScale.fit(norms, size=1.0).flags(norms / 3.5e-7)[60:].mean() > 0.9  # without


def test_differences_below_the_tolerance_of_the_solver_say_nothing_of_the_others():
    norms = 1e-4 * np.concatenate([0.3 * RNG.random(70), 2 + 3 * RNG.random(30), [1e3]])
    scale = OutlierScale.fit(norms, size=1.0, tol=1e-4)
    np.testing.assert_array_equal(np.flatnonzero(scale.flags(scale.scores(norms))), [100])


def test_a_tolerance_does_not_blunt_scores_of_rows_that_differ_by_more():
    norms = 1e-3 * RNG.random(200)
    assert OutlierScale.fit(norms, tol=1e-4) == OutlierScale.fit(norms)


@pytest.mark.parametrize("draw", [RNG.random, RNG.exponential, RNG.standard_cauchy])
@pytest.mark.parametrize("n", [79, 100, 1000])
def test_new_rows_of_any_tail_pass_the_limit_of_detection(draw, n):
    """At most one in 80 rows within the limit of the scale lies beyond that of detection."""
    shares = []
    for _ in range(200):
        norms, new = np.abs(draw(size=n)), np.abs(draw(size=500))
        scale = OutlierScale.fit(norms)
        limit = detection_limit(norms, scale)
        shares.append((new[new <= scale.limit] > limit).mean())
    assert np.mean(shares) <= 1.15 * FALSE_ALARMS  # the standard error of few rows
    assert n < 1000 or np.mean(shares) > 0.7 * FALSE_ALARMS


def test_few_rows_and_exact_fits_are_flagged_by_the_scale_alone():
    few = np.abs(RNG.normal(size=78))
    assert detection_limit(few, OutlierScale.fit(few)) == OutlierScale.fit(few).limit
    exact = 1e-9 * RNG.random(200)
    assert detection_limit(exact, OutlierScale.fit(exact)) == OutlierScale.fit(exact).limit
