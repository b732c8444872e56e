"""add_outliers: rows replaced by noise, as the paper defines it and as its figures were made."""

from __future__ import annotations

import logging
from typing import Literal

import torch
from torch import Tensor

from proxlin._checks import (
    check_choice,
    check_finite,
    check_floating,
    check_interval,
    check_real,
    check_seed,
)
from proxlin.errors import InvalidInputError

logger = logging.getLogger("proxlin")

Kind = Literal["published", "text"]
Form = Literal["images", "table"]

SHIFT = {"images": 1.5, "table": 2.5}  # distance from the data in standard deviations (Sec. 5)


def add_outliers(
    x: Tensor,
    ratio: float,
    kind: Kind = "published",
    seed: int = 0,
    *,
    form: Form | None = None,
    shift: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(x with noise in place of row i where mask_i, mask), mask_i ~ Bernoulli(ratio) independent.

    With m and s the mean and standard deviation of x (of all pixels together for images, of each
    column for a table), the noise of a row is

    - `kind="text"`, the paper's words: Gaussian with mean m + shift * s and standard deviation s;
    - `kind="published"`, what the paper's figures come from: for images (u + shift * s + m) / s,
      where u in [0, 1] is a byte over 255, got by wrapping 255 times a standard Gaussian; for
      tables a Gaussian with mean `shift` and standard deviation 1, meant for standardised columns.

    Parameters
    ----------
    x
        Rows first, float32 or float64; left untouched. Pass features or targets, whichever are to
        be corrupted.
    ratio
        Probability in [0, 1] that a row is replaced. With one seed the rows of a smaller ratio
        are among those of a larger one.
    form
        "images" or "table"; by default four dimensions mean images.
    shift
        Distance from the data; by default 1.5 for images and 2.5 for tables, as in the paper.

    Corrupt the features, or the targets, of a table:

    >>> x, y = torch.randn(100, 5), torch.randn(100, 2)
    >>> dirty_x, mask = add_outliers(x, 0.2, seed=1)
    >>> dirty_y, mask = add_outliers(y, 0.2, kind="text", seed=1)
    >>> torch.equal(dirty_y[~mask], y[~mask])
    True
    """
    _check_rows(x)
    probability = check_interval("add_outliers(ratio=...)", ratio, 0, 1)
    check_choice("add_outliers(kind=...)", kind, ("published", "text"))
    generator = torch.Generator().manual_seed(check_seed("add_outliers(seed=...)", seed))
    chosen_form = form if form is not None else ("images" if x.ndim == 4 else "table")
    check_choice("add_outliers(form=...)", chosen_form, SHIFT)
    distance = SHIFT[chosen_form] if shift is None else check_real("add_outliers(shift=...)", shift)

    # Drawn on the CPU so that a seed means the same rows and noise on every device.
    mask = torch.rand(len(x), generator=generator) < probability
    gaussian = torch.randn((int(mask.sum()), *x.shape[1:]), generator=generator, dtype=x.dtype)
    corrupted = x.clone()
    mask = mask.to(x.device)
    if len(gaussian):
        noise = _noise(x, gaussian.to(x.device), kind, chosen_form == "images", distance)
        corrupted[mask] = noise
    return corrupted, mask


def _noise(x: Tensor, gaussian: Tensor, kind: Kind, images: bool, shift: float) -> Tensor:
    if kind == "published" and not images:
        _warn_unless_standardized(x)
        return gaussian + shift
    mean, std = _moments(x, images)
    if kind == "text":
        return mean + shift * std + std * gaussian
    wrapped = (255.0 * gaussian).to(torch.int32).bitwise_and_(255)
    return (wrapped.to(x.dtype) / 255.0 + shift * std + mean) / std


def _moments(x: Tensor, images: bool) -> tuple[Tensor, Tensor]:
    dims = tuple(range(x.ndim)) if images else (0,)
    std, mean = torch.std_mean(x, dim=dims, correction=0)  # torch accumulates in float64
    if not bool((std > 0).any()):
        raise InvalidInputError(
            "add_outliers(x) must hold at least two different values; got a constant tensor."
        )
    return mean, std


def _check_rows(x: Tensor) -> None:
    check_floating("add_outliers(x)", x)
    if x.ndim == 0 or x.numel() == 0:
        raise InvalidInputError(
            f"add_outliers(x) must have rows, with numbers in them; got shape {tuple(x.shape)}."
        )
    check_finite("add_outliers(x)", x)


def _warn_unless_standardized(x: Tensor) -> None:
    std, mean = torch.std_mean(x, correction=0)
    if abs(float(mean)) > 1 or not 0.1 < float(std) < 10:
        logger.warning(
            "The published outliers of a table are meant for standardised columns; these have mean"
            " %.3g and standard deviation %.3g. Standardise first, or use kind='text'.",
            float(mean),
            float(std),
        )
