"""Rows are left out for a reason only if no choice among good rows gains as much."""

from itertools import combinations

import numpy as np
import pytest

from proxlin import RobustRegressor
from proxlin.estimators.regression.chosen_rows import LEVEL, LeavingOut, chosen_by_chance


def objective(x, y, weights, penalty, shifted=None):
    """min_b sum w (y - b_0 - x b)^2 + penalty ||b||^2, by the normal equations.

    Rows that are `shifted` have one more intercept.
    """
    free = [np.ones(len(x))] + ([] if shifted is None else [shifted])
    design = np.column_stack([*free, x])
    charge = np.diag([0.0] * len(free) + [penalty] * x.shape[1])
    coef = np.linalg.solve(
        design.T @ (design * weights[:, None]) + charge, design.T @ (weights * y)
    )
    return float(weights @ (y - design @ coef) ** 2 + coef @ charge @ coef)


def table(seed, n=12, features=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, features)), rng.normal(size=n), rng.integers(1, 3, n).astype(float)


@pytest.mark.parametrize("penalty", [1e-9, 0.5])
@pytest.mark.parametrize("count", [1, 3])
def test_gains_are_those_of_other_fits(penalty, count):
    """Without the rows, and with a shift of theirs; compared with all choices of so many."""
    missed = []
    for seed in range(10):
        x, y, weights = table(seed)
        leaving_out = LeavingOut.by(x, weights, penalty=penalty, intercept=True)
        left = np.inf
        for rows in combinations(range(len(x)), count):
            inside = np.isin(np.arange(len(x)), rows)
            without = objective(x, y, np.where(inside, 0.0, weights), penalty)
            shifted = objective(x, y, weights, penalty, inside.astype(float))
            left = np.minimum(left, [without, shifted])
        best = np.log(objective(x, y, weights, penalty) / left)
        gains = leaving_out.gains(np.sqrt(weights) * y, count)
        assert (gains <= best + 1e-6).all()
        missed.append(best - gains)
    median = np.median(missed, axis=0)
    assert (median <= (1e-6 if count == 1 else 0.2 * best)).all()


def test_a_proposed_choice_is_never_bettered_by_a_worse_one():
    x, y, _ = table(3, n=40)
    y[:15] += 50.0  # one by one, the first to go are not those
    leaving_out = LeavingOut.by(x, np.ones(40), penalty=1e-9, intercept=True)
    without = objective(x, y, (np.arange(40) >= 15).astype(float), 1e-9)
    gained = np.log(objective(x, y, np.ones(40), 1e-9) / without)
    assert leaving_out.gains(y, 15, np.arange(15))[0] >= gained - 1e-6


@pytest.mark.parametrize("count", [1, 4])
def test_the_level_is_kept_where_the_worst_rows_are_proposed(count):
    """Of clean targets 5 % at most are held for wrong, whichever rows of them are chosen."""
    believed = []
    for seed in range(100):
        x, y, _ = table(100 + seed, n=20, features=6)
        leaving_out = LeavingOut.by(x, np.ones(20), penalty=1e-9, intercept=True)
        worst = np.argsort(-np.abs(leaving_out.residual_maker @ y))[:count]
        believed.append(
            not chosen_by_chance(leaving_out, y, worst, fit=np.zeros(20), deviation=np.ones(20))
        )
    assert np.mean(believed) <= LEVEL + 3 * np.sqrt(LEVEL / 100)
    assert np.any(believed)  # a test that never says so would keep any level


def test_rows_that_are_wrong_are_left_out_for_a_reason():
    """Ten deviations off on one side: any 15 of 40 rows gain as much where each is off alone."""
    x, y, _ = table(5, n=40, features=12)
    leaving_out = LeavingOut.by(x, np.ones(40), penalty=1e-9, intercept=True)
    wrong = y.copy()
    wrong[:15] += 10.0
    rest = {"fit": np.zeros(40), "deviation": np.ones(40)}
    assert not chosen_by_chance(leaving_out, wrong, np.arange(15), **rest)
    assert chosen_by_chance(leaving_out, y, np.arange(15), **rest)


@pytest.mark.parametrize(("n", "features"), [(20, 10), (40, 20)])
def test_clean_tables_with_two_rows_for_each_coefficient(n, features):
    """0.6 % are documented to be flagged: within a factor of 1.5, and three standard errors."""
    tables = 3000 // n
    flags = np.empty(tables)
    for seed in range(tables):
        rng = np.random.default_rng([7, seed, n])
        x = rng.normal(size=(n, features))
        y = x @ rng.normal(size=features) + rng.normal(size=n)
        flags[seed] = RobustRegressor().fit(x, y).outliers_.mean()
    assert flags.mean() <= 0.009 + 3 * np.sqrt(0.006 / (n * tables))
