"""Good rows with long tails: the likelihood, its weights and slopes, and what they gain."""

import numpy as np
import pytest
from scipy.integrate import quad

from proxlin.estimators.regression.likely_fit import least_squares
from proxlin.estimators.regression.long_tails import LongTails
from proxlin.estimators.regression.robust_linear import fit_robust_linear
from proxlin.estimators.regression.s_estimate import RegressionRows


@pytest.mark.parametrize("tails", [2.0, 4.0])
def test_good_rows_have_a_density_and_wrong_ones_lie_evenly(tails):
    kinds = LongTails(scale=0.7, tails=tails, wrong=0.0)
    density = quad(lambda r: np.exp(kinds.log_likelihood(np.array([r]), np.ones(1))), -50, 50)[0]
    assert density == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_weights_and_slopes_are_those_of_the_likelihood(wrong):
    """Psi(r) = w r is proportional to the slope of -log density, and its own slope is given."""
    kinds, step = LongTails(scale=0.7, tails=3.0, wrong=wrong), 1e-5
    ends, row = np.array([-20.0, 20.0]), np.linspace(-5, 5, 21)

    def at_each(r, value):
        return np.array([value(np.append(ends, at))[-1] for at in r])

    def psi(r):
        return at_each(r, lambda rows: kinds.trust(rows)[0] * rows)

    def log_density(r):
        return at_each(r, lambda rows: np.logaddexp(*kinds._logs(rows)))

    score = (log_density(row - step) - log_density(row + step)) / (2 * step)
    np.testing.assert_allclose(psi(row) * (3.0 + 1.0) / 3.0 / 0.7**2, score, atol=1e-6)
    slope = at_each(row, lambda rows: kinds.trust(rows)[1])
    np.testing.assert_allclose(slope, (psi(row + step) - psi(row - step)) / (2 * step), atol=1e-6)


def test_steps_never_lower_the_likelihood():
    rng = np.random.default_rng(0)
    residual, counts = rng.standard_t(3, size=400), np.ones(400)
    kinds, before = LongTails.begun(3.0, 3.0, 400.0), -np.inf
    for _ in range(30):
        now = kinds.log_likelihood(residual, counts)
        assert now >= before - 1e-9
        kinds, before = kinds.improved(residual, counts, lost=0.0), now
    assert kinds.scale == pytest.approx(1.0, abs=0.15)


def test_heavy_tails_gain_much_over_least_squares():
    ours, plain = 0.0, 0.0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, coef = rng.normal(size=(300, 8)), rng.normal(size=8)
        y = x @ coef + rng.standard_t(3, size=300)
        line = fit_robust_linear(x, y[:, None], None, intercept=True, leverage=True, seed=0)
        rows = RegressionRows(np.column_stack([np.ones(300), x]), y, np.ones(300))
        ours += ((line.coef[0] - coef) ** 2).sum()
        plain += ((least_squares(rows, np.ones(300)).coef[1:] - coef) ** 2).sum()
    assert np.sqrt(ours / plain) <= 0.75
