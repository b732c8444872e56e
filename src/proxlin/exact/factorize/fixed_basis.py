"""FixedBasis: rows embedded as a fit left things, where wrong cells count for a bounded amount."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from proxlin.exact.factorize.bounded import Bounds
from proxlin.exact.factorize.cells import Cells, scaled
from proxlin.exact.factorize.embed import embed
from proxlin.exact.factorize.row_norm import RowNorm
from proxlin.exact.factorize.sweep import Objective


@dataclass(frozen=True)
class EmbeddedRows:
    """Embeddings of rows, and how badly they fit."""

    u: Tensor  # (n, r)
    full_norms: Tensor  # (n,) norms of residuals, missing cells counted like the known ones
    unsolved: int  # rows whose embedding is not proven optimal


@dataclass(frozen=True)
class FixedBasis:
    """The factor V that rows are embedded with, and by what they are measured."""

    v: Tensor  # (r, m)
    norm: RowNorm
    scales: Tensor | None = None  # (m,) by which columns are weighted
    bounds: Bounds | None = None  # of residuals; None: these count as they are

    def embed(self, cells: Cells) -> EmbeddedRows:
        """Embeddings of rows; residuals of their cells count for a bounded amount, if any.

        A row with cells far out is embedded as it is and with those pulled in: it may follow the
        basis far out, or have wrong cells. What explains more of its cells is where they then go.
        """
        if self.bounds is None:
            return self._plain(cells)
        bounds = replace(self.bounds, reach=math.inf)  # a row has its embedding to itself
        winsorized = bounds.winsorized(cells)
        embedded = self._plain(winsorized)
        if winsorized is cells:
            return embedded
        far = (winsorized.values != cells.values).any(1)
        rows, inner = cells.rows(far), embedded.u[far]
        plain = self._plain(rows).u
        follows = bounds.losses(rows, plain @ self.v) < bounds.losses(rows, inner @ self.v)
        u = embedded.u.clone()
        u[far] = torch.where(follows[:, None], plain, inner)
        embedded = self._plain(bounds.winsorized(cells, u @ self.v))
        return replace(embedded, full_norms=full_norms(cells, embedded.u, self.v, self.norm))

    def _plain(self, cells: Cells) -> EmbeddedRows:
        if self.scales is None:
            embedding = embed(cells, self.v, self.norm)
        else:
            scales = self.scales
            embedding = embed(scaled(cells, scales), self.v * scales.to(self.v), self.norm)
        norms = full_norms(cells, embedding.u, self.v, self.norm)
        return EmbeddedRows(embedding.u, norms, int(embedding.unsolved.sum()))


def full_norms(cells: Cells, u: Tensor, v: Tensor, norm: RowNorm) -> Tensor:
    """||r_i||_p (m / number of known cells)^(1/p): a row is no better for having fewer cells."""
    losses = Objective(cells, norm).row_losses(u, v)
    if cells.observed is None:
        return losses
    share = cells.observed.double().mean(1)
    filled: Tensor = losses / share ** (1 / norm.p)
    return filled
