"""Coordinates in which the linear problem is well scaled: [X 1] [B; b] - Y = scale (Z theta - V).

Columns are centred (only with an intercept) and divided by a robust size; targets alike. Without a
regulariser the columns are also made orthonormal in the row weights a_i = w_i / (1 + ||z_i||^2/k),
which bound the pull of rows far out, and directions that the data do not span are left out.
Norms are homogeneous, w ||r|| = (w s) ||r / s||: rows far out are divided by their own size s, or
rounding in their residuals would drown what the other rows say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

_CHUNK = 1 << 22  # numbers in one block of rows
_SAMPLE = 10_000  # rows that medians are taken of: centre and size only need to be sensible
_FAR_OUT = 1e-6  # damping of a row beyond which it is far out
_LARGE = 16.0  # typical entry of a row from which on it is divided by its size
_ROUNDING = 2.0 * torch.finfo(torch.float64).eps  # share of the largest entry that is none
_DEPENDENT = 1e-12  # singular values below this share of the largest count as zero


@dataclass(frozen=True)
class Coordinates:
    """The scaled problem and the way back."""

    design: Tensor  # (n, k) Z
    target: Tensor  # (n, t) V
    weights: Tensor  # (n,) w s, all > 0, where the w sum to 1
    row_sizes: Tensor  # (n,) s, by which the rows of Z and V were divided
    damping: Tensor  # (n,) a / w
    directions: Tensor  # (k, r) T with T T^T the pseudo-inverse of Z^T diag(a) Z
    transform: Tensor  # (m + 1 or m, k): [B/size; b] = transform theta, in scaled units
    centre: Tensor  # (m,) of the columns of X
    size: Tensor  # (m,) of the columns of X
    shift: Tensor  # (t,) of Y
    scale: Tensor  # (t,) of Y
    intercept: bool

    def unscale(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """B (m, t) and b (t,) of the original problem."""
        raw = self.transform @ theta
        m = len(self.size)
        coef = raw[:m] * self.scale / self.size[:, None]
        if not self.intercept:
            return coef, torch.zeros_like(self.shift)
        return coef, raw[m] * self.scale + self.shift - self.centre @ coef

    def rescale(self, coef: Tensor, intercept: Tensor) -> Tensor:
        """Theta for a point of the original problem, by least squares in the transform."""
        raw = coef * self.size[:, None] / self.scale
        if self.intercept:
            last = (intercept - self.shift + self.centre @ coef) / self.scale
            raw = torch.cat([raw, last[None]])
        theta: Tensor = torch.linalg.lstsq(self.transform, raw, driver="gelsd").solution
        return theta

    def constant(self) -> Tensor:
        """(k,) the theta with the intercept 1 in scaled units and no features."""
        last = torch.zeros(len(self.transform), 1, dtype=self.transform.dtype)
        last[-1] = 1.0
        theta: Tensor = torch.linalg.lstsq(self.transform, last, driver="gelsd").solution
        return theta.squeeze(1)

    def solve(self, gradient: Tensor) -> Tensor:
        """(Z^T diag(a) Z)^+ times a matrix (k, t)."""
        return self.directions @ (self.directions.T @ gradient)


def chunks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows of at most `_CHUNK` numbers of this width."""
    step = max(1, _CHUNK // max(1, width))
    for first in range(0, rows, step):
        yield slice(first, min(rows, first + step))


def choose_coordinates(
    x: Tensor,
    y: Tensor,
    weights: Tensor,
    *,
    intercept: bool,
    whiten: bool,
    joint: bool,
    homogeneous: bool,
) -> Coordinates:
    """Scale the problem.

    `joint`: one scale for all targets, because a norm couples them; `homogeneous`: the loss is a
    norm, so that rows may be scaled.
    """
    n, m = x.shape
    sample = slice(None, None, max(1, n // _SAMPLE))
    centre = x[sample].median(0).values if intercept else x.new_zeros(m)
    shift = y[sample].median(0).values if intercept else y.new_zeros(y.shape[1])
    size = _sizes(x, x[sample], centre)
    target = y - shift
    scale = _sizes(y, y[sample], shift)
    if joint:
        scale = torch.full_like(scale, float(scale.max()))
    target /= scale
    k = m + int(intercept)
    design = x.new_empty(n, k)
    for rows in chunks(n, k):
        torch.sub(x[rows], centre, out=design[rows, :m])
        design[rows, :m] /= size
    if intercept:
        design[:, m] = 1.0
    damping = 1.0 / (1.0 + design.square().sum(1) / max(1, k))
    triangle = _triangle(design, (weights * damping).sqrt())
    _, values, vectors = torch.linalg.svd(triangle, full_matrices=False)
    kept = values > _DEPENDENT * max(float(values.max()) if len(values) else 0.0, 1e-300)
    directions = vectors.T[:, kept] / values[kept]
    if whiten:
        if float(damping.min()) < _FAR_OUT:
            # Rows far out get axes of their own; mixed with the others they would drown them.
            gram = _gram(design, weights, directions)
            directions = directions @ torch.linalg.eigh(gram).eigenvectors.flip(1)
        transform = directions
        for rows in chunks(n, k):
            design[rows, : directions.shape[1]] = design[rows] @ directions
        design = design[:, : directions.shape[1]]
        design = design if design.is_contiguous() else design.contiguous()
        directions = torch.eye(directions.shape[1], dtype=x.dtype)
    else:
        transform = torch.eye(k, dtype=x.dtype)
    row_sizes = torch.ones_like(weights)
    if homogeneous:
        weights, damping, row_sizes = _shrink_rows(design, target, weights, damping)
    return Coordinates(
        design,
        target,
        weights,
        row_sizes,
        damping,
        directions,
        transform,
        centre,
        size,
        shift,
        scale,
        intercept,
    )


def _shrink_rows(
    design: Tensor, target: Tensor, weights: Tensor, damping: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Divide rows far out by a power of 2 near their size, in place; weights, dampings, sizes."""
    size = damping.rsqrt()
    if not bool((size > _LARGE).any()):
        return weights, damping, torch.ones_like(size)
    size = torch.where(size > _LARGE, size.log2().round().exp2(), 1.0)
    for rows in chunks(len(design), design.shape[1]):
        design[rows] /= size[rows, None]
    target /= size[:, None]
    # (w s) (damping s) (z/s) (z/s)^T is what w damping z z^T was.
    return weights * size, damping * size, size


def _sizes(full: Tensor, sample: Tensor, centre: Tensor) -> Tensor:
    """A typical distance from the centre in each column; of constant columns 1."""
    size = (sample - centre).abs().median(0).values
    largest = torch.maximum(full.amax(0) - centre, centre - full.amin(0))
    # More than half of the entries at the centre, up to rounding: the mean distance of all rows,
    # or where that is all outliers the typical one of those elsewhere.
    for j in (size <= _ROUNDING * largest).nonzero().squeeze(1).tolist():
        distance = (full[:, j] - centre[j]).abs()
        elsewhere = distance[distance > _ROUNDING * largest[j]]
        size[j] = distance.mean()
        if len(elsewhere):
            size[j] = torch.minimum(size[j], elsewhere.median())
    return torch.where(size > 0, size, 1.0)


def _gram(design: Tensor, weights: Tensor, directions: Tensor) -> Tensor:
    """T^T Z^T diag(w) Z T, block by block."""
    gram = design.new_zeros(directions.shape[1], directions.shape[1])
    for rows in chunks(len(design), 2 * design.shape[1]):
        block = (design[rows] @ directions) * weights[rows, None].sqrt()
        gram.addmm_(block.T, block)
    return gram


def _triangle(design: Tensor, roots: Tensor) -> Tensor:
    """R of the QR factors of diag(roots) Z, block by block."""
    k = design.shape[1]
    r = design.new_zeros(0, k)
    for rows in chunks(len(design), 4 * k):
        block = torch.cat([r, design[rows] * roots[rows, None]])
        r = torch.linalg.qr(block, mode="r").R if k else block[:0]
    return r
