"""Low rank that stays put: errors of any size, in rows, columns and cells, with missing cells."""

import numpy as np
import pytest
import torch

from proxlin import RobustFactorization, RobustNMF
from proxlin.exact.factorize import Cells
from proxlin.exact.factorize.bounded import Bounds


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def plane(rank: int, columns: int, noise: float = 0.03, n: int = 150) -> np.ndarray:
    rng = np.random.default_rng(0)
    low = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, columns))
    return low + noise * rng.normal(size=low.shape)


def error_with_wrong_rows(size: float) -> float:
    x = plane(2, 12)
    clean, bad = x.copy(), np.arange(len(x)) < 45
    x[bad] += size * np.random.default_rng(1).normal(size=(45, 12))
    model = RobustFactorization(2, random_state=0).fit(x)
    return relative(model.inverse_transform(model.transform(x))[~bad], clean[~bad])


def test_wrong_rows_of_any_size_do_not_turn_the_components() -> None:
    errors = [error_with_wrong_rows(size) for size in (10.0, 1e4, 1e12)]
    assert max(errors) <= 1.2 * errors[0] < 0.05


@pytest.mark.parametrize("kind", [RobustFactorization, RobustNMF])
def test_wrong_cells_of_any_size_are_worth_no_component(kind: type) -> None:
    rng = np.random.default_rng(2)
    clean = rng.exponential(size=(150, 2)) @ rng.exponential(size=(2, 20))
    wrong = rng.random(clean.shape) < 0.1
    for size in (1e3, 1e12):
        x = np.where(wrong, size * rng.random(clean.shape), clean)
        model = kind(2, random_state=0).fit(x)
        found = model.inverse_transform(model.transform(x))
        assert np.median(np.abs(found - clean)) < 1e-4


def test_wrong_columns_of_any_size_are_left_out() -> None:
    x = plane(2, 20)
    clean, bad = x.copy(), np.arange(20) < 4
    errors = []
    for size in (10.0, 1e12):
        x[:, bad] = size * np.random.default_rng(3).normal(size=(len(x), 4))
        model = RobustFactorization(2, robust="columns", p=2, random_state=0).fit(x)
        found = model.inverse_transform(model.transform(x))
        errors.append(relative(found[:, ~bad], clean[:, ~bad]))
        assert model.outlier_columns_[bad].all()
    assert errors[1] <= 1.2 * errors[0] < 0.05


def test_imputation_is_no_worse_than_medians_where_there_is_nothing_to_learn() -> None:
    rng = np.random.default_rng(4)
    clean = 5 + rng.normal(size=(120, 8))  # columns that know nothing of each other
    missing = rng.random(clean.shape) < 0.3
    x = np.where(missing, np.nan, clean)
    found = RobustFactorization(3, random_state=0).fit(x).impute(x)
    medians = np.broadcast_to(np.nanmedian(x, axis=0), x.shape)
    ours, theirs = (np.abs(guess - clean)[missing].mean() for guess in (found, medians))
    assert ours <= 1.02 * theirs


def test_held_out_cells_choose_the_planted_rank() -> None:
    x = plane(3, 15, noise=0.1)
    x[np.random.default_rng(5).random(x.shape) < 0.05] = 1e6
    assert RobustFactorization("auto", random_state=0).fit(x).n_components_ == 3


def test_residuals_inside_the_bounds_are_left_alone_and_others_keep_their_direction() -> None:
    x = torch.from_numpy(plane(2, 6))
    x[0], x[1, 2] = 1e9 * x[0], 1e9
    cells, bounds = Cells(x), Bounds.of(Cells(x))
    winsorized = bounds.winsorized(cells).values
    away, before = (winsorized - bounds.middle) / bounds.spread, (x - bounds.middle) / bounds.spread
    assert away.abs().max() <= 6
    assert bool((away * before >= 0).all())
    inside = (before.abs() <= 6).all(1) & (before.square().mean(1).sqrt() <= bounds.reach)
    assert torch.equal(winsorized[inside], x[inside])
    assert inside.sum() > 100
    clean = Cells(x[inside])
    assert bounds.winsorized(clean) is clean


def test_the_plain_norm_is_one_setting_away() -> None:
    x = plane(2, 8)
    x[:30] *= 1e6  # in line with the others
    plain = RobustFactorization(2, bounded=False, random_state=0).fit(x)
    assert plain._bounds is None
    assert relative(plain.inverse_transform(plain.transform(x))[:30], x[:30]) < 0.05


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["lognormal", "zero-inflated", "t(2)"])
def test_clean_rows_that_follow_the_components_far_out_are_left_there(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if kind == "lognormal":
        low = np.exp(rng.normal(size=(200, 3))) @ np.exp(0.7 * rng.normal(size=(3, 20)))
        x = low * np.exp(0.05 * rng.normal(size=low.shape))
    elif kind == "zero-inflated":
        parts = [rng.exponential(size=s) * (rng.random(s) < 0.4) for s in ((200, 3), (3, 20))]
        low = parts[0] @ parts[1]
        x = low + 0.01 * np.abs(rng.normal(size=low.shape)) * (low > 0)
    else:
        low = rng.standard_t(2, size=(200, 3)) @ rng.normal(size=(3, 20))
        x = low + 0.05 * rng.normal(size=low.shape)
    errors = []
    for bounded in (True, False):
        model = RobustFactorization(3, bounded=bounded, random_state=0).fit(x)
        errors.append(relative(model.inverse_transform(model.transform(x)), low))
    assert errors[0] <= 1.1 * errors[1]


@pytest.mark.parametrize("kind", [RobustFactorization, RobustNMF])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_majority_of_rows_of_zeros_says_nothing_of_the_others(kind: type, noise: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.exponential(size=(300, 3)) @ rng.exponential(size=(3, 12))
    x += noise * np.abs(rng.normal(size=x.shape))
    x[rng.random(300) < 0.6] = 0.0
    x[:30] = 20 * rng.exponential(size=(30, 12))
    model = kind(3, random_state=0).fit(x)
    assert model.outliers_[:30].all()
    assert model.outliers_[30:].mean() < 0.06


@pytest.mark.parametrize("kind", [RobustFactorization, RobustNMF])
def test_rows_of_zero_inflated_factors_are_not_flagged(kind: type) -> None:
    rng = np.random.default_rng(7)
    factors = rng.exponential(size=(200, 3)) * (rng.random((200, 3)) < 0.4)
    x = factors @ rng.exponential(size=(3, 20))
    x[:4] += 3 * rng.exponential(size=(4, 20))
    model = kind(3, random_state=0).fit(x)
    assert model.outliers_[:4].all()
    assert model.outliers_[4:].mean() < 0.03
