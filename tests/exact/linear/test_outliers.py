"""Targets of any size do not move the fit of the others, nor what converged means."""

import pytest
import torch

from proxlin import Lasso, Pinball, Ridge, Status
from proxlin.exact.linear import solve_linear


def table(size, targets, seed=0):
    """500 rows, a fifth of the targets wrong by about `size`; the clean values of the others."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(500, 5, generator=generator, dtype=torch.float64)
    clean = x @ torch.randn(5, targets, generator=generator, dtype=torch.float64)
    y = clean + 0.1 * torch.randn(500, targets, generator=generator, dtype=torch.float64)
    y[:100] += size * torch.randn(100, targets, generator=generator, dtype=torch.float64)
    return x, y, clean


def error(x, clean, result):
    return float((x @ result.coef + result.intercept - clean)[100:].norm(dim=1).mean())


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("options", [{"p": 1}, {"p": 2}, {"p": 1, "regularizer": Ridge(1e-4)}])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_the_error_on_clean_rows_is_flat_and_the_proof_holds(size, targets, options):
    x, y, clean = table(10.0, targets)
    small = error(x, clean, solve_linear(x, y, **options))
    x, y, clean = table(size, targets)
    result = solve_linear(x, y, **options)
    assert result.status is Status.CONVERGED
    assert 0 <= result.certificate.value <= 1e-8
    assert error(x, clean, result) <= 1.2 * small


@pytest.mark.parametrize("options", [{"p": 1}, {"p": 2}, {"loss": Pinball(0.4)}])
def test_converged_is_relative_to_what_the_clean_rows_can_gain(options):
    """The sum of losses is 1e11; yet the gap says how far the clean rows are from their best."""
    x, y, _ = table(1e12, 2)
    exact = solve_linear(x, y, **options, tol=1e-9)
    for tol in (1e-1, 1e-3, 1e-5):
        rough = solve_linear(x, y, **options, tol=tol)
        assert rough.status is Status.CONVERGED
        assert rough.certificate.value <= tol
        residuals = [x @ fit.coef + fit.intercept - y for fit in (rough, exact)]
        loss = options.get("loss") or (
            lambda r: r.abs().sum(1) if options["p"] == 1 else r.norm(dim=1)
        )
        change = (loss(residuals[0]) - loss(residuals[1]))[100:].mean()
        # Outliers feel the same move by less than its length, the clean rows' own.
        assert abs(float(change)) <= 50 * tol


def test_targets_that_are_mostly_constant_have_a_scale_of_their_own():
    x, y, _ = table(1e12, 1)
    y[100:420] = 3.0
    result = solve_linear(x, y, p=1)
    assert result.status is Status.CONVERGED
    assert float((x @ result.coef + result.intercept - y)[100:420].abs().max()) <= 1e-6


def test_a_gap_of_part_of_the_objective_is_no_bound_on_it_below_zero():
    x, y, _ = table(1e9, 2)
    for steps in (1, 3, 6):
        cut = solve_linear(x, y, p=1, regularizer=Lasso(0.01), max_iter=steps)
        assert cut.certificate.value >= 0
