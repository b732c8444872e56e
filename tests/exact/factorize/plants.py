"""Low-rank tables with missing cells and gross errors, whose factors are known."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Plant:
    x: Tensor  # (n, m) with NaN in missing cells
    clean: Tensor  # (n, m) left @ right
    left: Tensor
    right: Tensor


def planted_cells(
    n=150, m=40, rank=4, *, non_negative=False, noise=0.0, missing=0.2, gross=0.1, seed=0
):
    """A share `gross` of the cells is replaced by numbers up to 20 standard deviations large."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        sample = torch.randn(*shape, generator=g, dtype=torch.float64)
        if not non_negative:
            return sample
        return sample.abs() * (torch.rand(*shape, generator=g) < 0.6)

    left, right = draw(n, rank), draw(rank, m)
    clean = left @ right
    x = clean + noise * torch.randn(n, m, generator=g, dtype=torch.float64)
    size = 20 * clean.std() * torch.rand(n, m, generator=g, dtype=torch.float64)
    sign = 1 if non_negative else torch.randn(n, m, generator=g).sign()
    x = torch.where(torch.rand(n, m, generator=g) < gross, sign * size, x)
    x = x.clamp(min=0) if non_negative else x
    x[torch.rand(n, m, generator=g) < missing] = torch.nan
    return Plant(x, clean, left, right)


def subspace_error(found: Tensor, right: Tensor) -> float:
    """Sine of the largest angle between two row spaces."""
    a, b = torch.linalg.qr(found.T).Q, torch.linalg.qr(right.T).Q
    return float(torch.linalg.matrix_norm(b - a @ (a.T @ b), ord=2))


def parts_error(found: Tensor, right: Tensor) -> float:
    """1 - the worst cosine of a planted part with the found part nearest to it."""
    a = right / right.norm(dim=1, keepdim=True)
    b = found / found.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return 1 - float((a @ b.T).max(1).values.min())
