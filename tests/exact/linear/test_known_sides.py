"""Quantiles of many rows through a small problem: the same optimum, from memory, files, parts."""

import numpy as np
import pytest
import torch

from proxlin import Lasso, NonNegative, Pinball, Status
from proxlin.exact.linear import solve_linear, solve_quantiles, stream_quantiles
from proxlin.exact.linear.known_sides import Line, _choose_sides, solve_by_sides
from proxlin.problem.parallel import Communicator
from proxlin.problem.rows import TensorRows
from proxlin.problem.shards import Everywhere


def table(n=4000, features=3, seed=0, tail=False):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=generator, dtype=torch.float64)
    x = x.exp() if tail else x
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    y = x.sum(1) + (0.5 + x[:, 0].abs()) * noise
    y[: n // 10] += 1e3
    return x, y


def by_sides(x, y, tau, weights=None, **options):
    weights = torch.ones_like(y) if weights is None else weights
    return solve_by_sides(
        Everywhere(TensorRows((x, y, weights)), Communicator()), tau, solve_linear, **options
    )


@pytest.mark.parametrize("tau", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("tail", [False, True])
def test_the_optimum_is_that_of_all_rows(tau, tail):
    x, y = table(tail=tail)
    whole, parts = solve_linear(x, y, loss=Pinball(tau)), by_sides(x, y, tau)
    assert parts.status is Status.CONVERGED
    assert parts.certificate.value <= 1e-8
    assert parts.certificate.rows == 4000
    assert parts.objective == pytest.approx(whole.objective, rel=1e-7)
    residual = (x @ parts.coef + parts.intercept)[:, 0] - y
    assert parts.objective == pytest.approx(float(Pinball(tau)(residual[:, None]).mean()))


@pytest.mark.parametrize("terms", [{"regularizer": Lasso(0.05)}, {"constraint": NonNegative()},
                                   {"fit_intercept": False}])  # fmt: skip
def test_terms_and_weights_are_those_of_the_solver(terms):
    x, y = table()
    y = y - 3 * x[:, 1]
    weights = torch.rand(4000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights[::7] = 0.0
    whole = solve_linear(x, y, loss=Pinball(0.3), sample_weight=weights, **terms)
    parts = by_sides(x, y, 0.3, weights, **terms)
    assert parts.objective == pytest.approx(whole.objective, rel=1e-7)
    assert parts.status is Status.CONVERGED


def test_the_small_problem_is_nowhere_above_the_whole_one():
    x, y = table(500)
    sides = _choose_sides(Line(torch.ones(3, 1).double(), torch.zeros(1).double()),
                          (x, y, torch.ones(500).double()), 0.7, 0.2)  # fmt: skip
    side = sides.of(x, y)
    assert 0.15 <= float((side == 0).double().mean()) <= 0.25
    loss = Pinball(0.7)
    for seed in range(20):
        coef = 3 * torch.randn(3, generator=torch.Generator().manual_seed(seed)).double()
        residual = (x @ coef - y)[:, None]
        small = loss(residual[side == 0]).sum()
        for sign in (-1, 1):
            part = residual[side == sign]
            small = small + len(part) * loss(part.mean(0, keepdim=True)).sum()
        assert float(small) <= float(loss(residual).sum()) * (1 + 1e-12)


def test_a_sample_that_misleads_is_found_out():
    # Rows sorted so that weights give the sample nearly no say of half of them.
    x, y = table(5000)
    weights = torch.ones(5000).double()
    weights[:50] = 200.0
    whole = solve_linear(x, y, loss=Pinball(0.5), sample_weight=weights)
    assert by_sides(x, y, 0.5, weights).objective == pytest.approx(whole.objective, rel=1e-7)


def test_large_tables_take_the_detour_by_themselves(monkeypatch):
    monkeypatch.setattr("proxlin.exact.linear.known_sides._MANY", 1000)
    x, y = table(8000)
    with_detour = solve_linear(x, y, loss=Pinball(0.8))
    monkeypatch.undo()
    plain = solve_linear(x, y, loss=Pinball(0.8))
    assert with_detour.objective == pytest.approx(plain.objective, rel=1e-7)
    assert with_detour.certificate.rows == 8000


def test_files_hold_what_memory_does_not(tmp_path):
    x, y = table()
    both = torch.stack([y, -2 * y], 1)
    np.save(tmp_path / "x.npy", x.float().numpy())
    np.save(tmp_path / "y.npy", both.numpy())
    files = tuple(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy")
    levels = [0.9, 0.2, 0.5]
    found = stream_quantiles(files, levels)
    expected = solve_quantiles(x.float().double(), both, levels)
    for one, other in zip(found, expected, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-6)
        assert one.coef.shape == (3, 2)
        assert one.status is Status.CONVERGED


def test_levels_do_not_cross_on_any_row():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(300, 8, generator=generator, dtype=torch.float64)
    y = torch.randn(300, generator=generator, dtype=torch.float64)
    levels = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    found = stream_quantiles((x, y), levels)
    fitted = torch.stack([(x @ fit.coef + fit.intercept)[:, 0] for fit in found], 1)
    assert bool((fitted.diff(dim=1) >= 0).all())
    for one, other in zip(found, solve_quantiles(x, y, levels), strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-6)


@pytest.mark.parametrize(("data", "words"), [
    ((torch.ones(5, 2), torch.ones(5), -torch.ones(5)), "weights must be >= 0"),
    ((torch.ones(5), torch.ones(5)), "rows must be"),
    ((torch.ones(5, 2), torch.ones(5), torch.zeros(5)), "all 0"),
])  # fmt: skip
def test_what_are_no_rows_is_refused(data, words):
    with pytest.raises(ValueError, match=words):
        stream_quantiles(data, 0.5)
    with pytest.raises(ValueError, match="fit_intercept"):
        stream_quantiles(data, [0.1, 0.5], fit_intercept=False)
