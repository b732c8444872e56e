from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from proxlin.data import blob_images, planted_factorization, planted_regression
from proxlin.errors import InvalidInputError


def least_absolute(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """argmin_w sum |y - x w| as a linear programme: minimise sum t with -t <= y - x w <= t."""
    n, d = x.shape
    cost = np.concatenate([np.zeros(d), np.ones(n)])
    upper = np.block([[x, -np.eye(n)], [-x, -np.eye(n)]])
    bounds = [(None, None)] * d + [(0, None)] * n
    solution = linprog(cost, A_ub=upper, b_ub=np.concatenate([y, -y]), bounds=bounds)
    return np.asarray(solution.x[:d])


@pytest.mark.parametrize("seed", [0, 1])
def test_l1_recovers_the_planted_regression_and_least_squares_does_not(seed: int) -> None:
    plant = planted_regression(seed=seed)
    assert int(plant.mask.sum()) == 90
    design = np.hstack([plant.x.numpy(), np.ones((300, 1))])
    truth = torch.hstack([plant.weight, plant.bias[:, None]]).numpy()
    for target in range(3):
        found = least_absolute(design, plant.y[:, target].numpy())
        np.testing.assert_allclose(found, truth[target], atol=1e-7)
    squares = np.linalg.lstsq(design, plant.y.numpy(), rcond=None)[0].T
    assert np.abs(squares - truth).max() > 5


def test_regression_noise_has_the_stated_size() -> None:
    plant = planted_regression(n=20_000, noise=0.5, outlier_ratio=0.1)
    residual = (plant.y - plant.x @ plant.weight.T - plant.bias)[~plant.mask]
    assert float(residual.std()) == pytest.approx(0.5, rel=0.02)
    assert float(plant.y[plant.mask].mean()) == pytest.approx(50, rel=0.03)


@pytest.mark.parametrize("non_negative", [False, True])
def test_factorisation_holds_outside_mask_and_gaps(non_negative: bool) -> None:
    plant = planted_factorization(non_negative=non_negative, outlier_ratio=0.25, missing_ratio=0.2)
    assert torch.linalg.matrix_rank(plant.clean) == 3
    assert int(plant.mask.sum()) == 20
    assert plant.observed.sum(1).tolist() == [16] * 80
    assert not plant.x[~plant.observed].any()
    kept = plant.observed & ~plant.mask[:, None]
    assert torch.equal(plant.x[kept], plant.clean[kept])
    broken = plant.observed & plant.mask[:, None]
    assert not torch.isclose(plant.x[broken], plant.clean[broken]).any()
    smallest = min(float(t.min()) for t in (plant.x, plant.left, plant.right))
    assert (smallest >= 0) is non_negative


def test_factorisation_is_recovered_from_clean_rows_by_svd() -> None:
    plant = planted_factorization(missing_ratio=0)
    _, _, rows = torch.linalg.svd(plant.x[~plant.mask], full_matrices=False)
    basis = rows[:3]
    torch.testing.assert_close(plant.right.T @ basis.T @ basis, plant.right.T)


def test_blobs_peak_at_their_centers_and_labels_are_quadrants() -> None:
    blobs = blob_images(n=300, size=9, seed=2)
    assert 0 <= float(blobs.images.min()) <= float(blobs.images.max()) <= 1
    peak = blobs.images.flatten(1).argmax(1)
    position = torch.stack([peak // 9, peak % 9], dim=1)
    assert torch.equal(position, blobs.centers.round().long())
    lower, right = (blobs.centers > 4).T
    assert torch.equal(blobs.labels, 2 * lower.long() + right.long())
    assert sorted(set(blobs.labels.tolist())) == [0, 1, 2, 3]
    # log pixel is quadratic in the distance: -log = d^2 / (2 * 1.5^2)
    distance = ((torch.tensor([0.0, 0.0]) - blobs.centers) ** 2).sum(1)
    near = distance < 30
    corner = -torch.log(blobs.images[:, 0, 0, 0]) * 4.5
    torch.testing.assert_close(corner[near], distance[near], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [planted_regression, planted_factorization, blob_images])
def test_seed_decides_everything(make: Callable[..., object]) -> None:
    state = torch.random.get_rng_state()
    first, again, other = (vars(make(seed=seed)) for seed in (4, 4, 5))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not any(torch.equal(first[k], other[k]) for k in first)
    half = vars(make(dtype=torch.float32))
    assert {t.dtype for t in half.values()} <= {torch.float32, torch.bool, torch.int64}


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (planted_regression, {"n": 0}),
        (planted_regression, {"outlier_ratio": 1.2}),
        (planted_regression, {"outlier_scale": 0}),
        (planted_regression, {"noise": -1}),
        (planted_regression, {"seed": -1}),
        (planted_factorization, {"rank": 0}),
        (planted_factorization, {"missing_ratio": 0.95}),
        (planted_factorization, {"columns": 2}),
        (blob_images, {"size": 1}),
        (blob_images, {"width": 0}),
    ],
)
def test_bad_settings_are_refused(make: Callable[..., object], arguments: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(arguments)) + "|missing_ratio"):
        make(**arguments)
