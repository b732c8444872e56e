"""Small made-up data whose right answer is known."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin._checks import (
    check_count,
    check_interval,
    check_non_negative,
    check_positive,
    check_seed,
)
from proxlin.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class PlantedRegression:
    """y = x weight^T + bias + noise, except in the rows of mask."""

    x: Tensor  # (n, features)
    y: Tensor  # (n, targets), with gross outliers
    weight: Tensor  # (targets, features), as in torch.nn.Linear
    bias: Tensor  # (targets,)
    mask: Tensor  # (n,) True where y is an outlier


@dataclass(frozen=True, eq=False)
class PlantedFactorization:
    """x = left right^T + noise, except in the rows of mask and where observed is False."""

    x: Tensor  # (n, columns), 0 where not observed
    observed: Tensor  # (n, columns) bool, the same number of True in every row
    left: Tensor  # (n, rank), H of the paper: the embeddings of the rows
    right: Tensor  # (columns, rank), G of the paper
    mask: Tensor  # (n,) True where the row is corrupted

    @property
    def clean(self) -> Tensor:
        """The plant left right^T, without noise, corruption and gaps."""
        return self.left @ self.right.T


@dataclass(frozen=True, eq=False)
class BlobImages:
    """One bright blob in each image: pixel = exp(-||position - center||^2 / (2 width^2))."""

    images: Tensor  # (n, 1, size, size) in [0, 1]
    labels: Tensor  # (n,) quadrant of the center: 2 * (lower half) + (right half)
    centers: Tensor  # (n, 2) row and column in pixels


def planted_regression(
    n: int = 300,
    features: int = 5,
    targets: int = 3,
    *,
    outlier_ratio: float = 0.3,
    outlier_scale: float = 50.0,
    noise: float = 0.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> PlantedRegression:
    """y_i = weight x_i + bias + noise * N(0, I); outlier rows are outlier_scale * (1 + N(0, I)).

    Exactly round(outlier_ratio * n) rows are outliers, all on one side, so that they pull least
    squares away. Without noise the plant is what the l1 and l2 norms recover.

    >>> plant = planted_regression(n=10, outlier_ratio=0.2)
    >>> clean = ~plant.mask
    >>> torch.allclose(plant.y[clean], plant.x[clean] @ plant.weight.T + plant.bias)
    True
    """
    for name, count in (("n", n), ("features", features), ("targets", targets)):
        check_count(f"planted_regression({name}=...)", count)
    check_interval("planted_regression(outlier_ratio=...)", outlier_ratio, 0, 1)
    check_positive("planted_regression(outlier_scale=...)", outlier_scale)
    check_non_negative("planted_regression(noise=...)", noise)
    generator = _generator(seed)
    x = torch.randn(n, features, generator=generator, dtype=dtype)
    weight = torch.randn(targets, features, generator=generator, dtype=dtype)
    bias = torch.randn(targets, generator=generator, dtype=dtype)
    y = x @ weight.T + bias + noise * torch.randn(n, targets, generator=generator, dtype=dtype)
    mask = _choose_rows(n, outlier_ratio, generator)
    gross = outlier_scale * (1 + torch.randn(n, targets, generator=generator, dtype=dtype))
    return PlantedRegression(x, torch.where(mask[:, None], gross, y), weight, bias, mask)


def planted_factorization(
    n: int = 80,
    columns: int = 20,
    rank: int = 3,
    *,
    non_negative: bool = False,
    outlier_ratio: float = 0.1,
    outlier_scale: float = 10.0,
    missing_ratio: float = 0.1,
    noise: float = 0.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> PlantedFactorization:
    """x = left right^T + noise * N(0, I), some rows corrupted, some cells of every row missing.

    Factors are standard Gaussian, or their absolute values if `non_negative`; corrupted rows are
    outlier_scale times a vector of the same kind. Every row misses round(missing_ratio * columns)
    cells, and at least `rank` must stay.
    """
    for name, count in (("n", n), ("columns", columns), ("rank", rank)):
        check_count(f"planted_factorization({name}=...)", count)
    check_interval("planted_factorization(outlier_ratio=...)", outlier_ratio, 0, 1)
    check_positive("planted_factorization(outlier_scale=...)", outlier_scale)
    check_interval("planted_factorization(missing_ratio=...)", missing_ratio, 0, 1)
    check_non_negative("planted_factorization(noise=...)", noise)
    missing = round(missing_ratio * columns)
    if columns - missing < rank:
        raise InvalidInputError(
            f"planted_factorization(missing_ratio=...) must leave at least rank={rank} cells in a"
            f" row; got {missing_ratio}, which leaves {columns - missing} of {columns}."
        )
    generator = _generator(seed)

    def draw(*shape: int) -> Tensor:
        sample = torch.randn(*shape, generator=generator, dtype=dtype)
        return sample.abs() if non_negative else sample

    left, right = draw(n, rank), draw(columns, rank)
    x = left @ right.T + noise * torch.randn(n, columns, generator=generator, dtype=dtype)
    mask = _choose_rows(n, outlier_ratio, generator)
    x = torch.where(mask[:, None], outlier_scale * draw(n, columns), x)
    order = torch.rand(n, columns, generator=generator).argsort(dim=1)
    observed = torch.ones(n, columns, dtype=torch.bool).scatter_(1, order[:, :missing], False)
    return PlantedFactorization(x * observed, observed, left, right, mask)


def blob_images(
    n: int = 200,
    size: int = 8,
    *,
    width: float = 1.5,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> BlobImages:
    """Images of one blob at a uniformly random place: two numbers describe each image.

    >>> blob_images(n=3, size=8).images.shape
    torch.Size([3, 1, 8, 8])
    """
    check_count("blob_images(n=...)", n)
    check_count("blob_images(size=...)", size, minimum=2)
    check_positive("blob_images(width=...)", width)
    centers = (size - 1) * torch.rand(n, 2, generator=_generator(seed), dtype=dtype)
    grid = torch.arange(size, dtype=dtype)
    profile = torch.exp(-((grid - centers[..., None]) ** 2) / (2 * width**2))  # (n, 2, size)
    images = (profile[:, 0, :, None] * profile[:, 1, None, :]).unsqueeze(1)
    halves = (centers > (size - 1) / 2).long()
    return BlobImages(images, 2 * halves[:, 0] + halves[:, 1], centers)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(check_seed("seed", seed))


def _choose_rows(n: int, ratio: float, generator: torch.Generator) -> Tensor:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[torch.randperm(n, generator=generator)[: round(ratio * n)]] = True
    return mask
