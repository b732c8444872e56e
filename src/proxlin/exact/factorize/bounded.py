"""Residuals that count for a bounded amount, so that no wrong cell or row is worth a component.

A norm bounds the pull of a residual on the fit, not its worth: a component spent on a few cells of
10^6 lowers the objective by more than the truth does. So a table is first pulled in towards the
medians of its columns and factorised, then towards that factorisation, and factorised again from
there. The second pull gives back what belongs to the low rank, however far out, and changes neither
the sign of a residual nor its direction: where the fit is right the plain norm agrees with it.
What lies beyond the bounds of that second fit is wrong beyond doubt, and left out of a third.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.exact.factorize.cells import Cells
from proxlin.problem.scales import NORMAL_IQR

_CELL = 6.0  # robust standard deviations of its column that a residual counts for at most
_ROW = 3.0  # median norms that the residual of a row counts for at most
_OTHERS = 3.0  # median spreads of the other columns that one of rare values may have
_QUANTILE_CELLS = 10_000_000  # torch sorts at most 16 million numbers in a call


@dataclass(frozen=True)
class Bounds:
    """How much of a residual counts: cell by cell, then row by row in units of the columns."""

    middle: Tensor  # (m,) medians of the columns
    spread: Tensor  # (m,) > 0
    reach: float  # of the norm of a row in these units, per square root of known cells; may be inf

    @classmethod
    def of(cls, cells: Cells) -> Bounds:
        """Median and inter-quartile range of each column, the median norm of the rows."""
        n, m = cells.values.shape
        rows = cells.rows(slice(None, None, max(1, n * m // _QUANTILE_CELLS)))
        table = rows.values.double()
        if rows.observed is not None:
            table = torch.where(rows.observed, table, torch.nan)
        middle = table.nanmedian(0).values.nan_to_num()
        away = table - middle
        quartiles = torch.nanquantile(away, torch.tensor([0.25, 0.75]).to(away), dim=0)
        spread = ((quartiles[1] - quartiles[0]) / NORMAL_IQR).nan_to_num()
        # Where the middle half is one value the others are the column: their median distance.
        others = torch.where(away == 0, torch.nan, away).abs().nanmedian(0).values.nan_to_num()
        ordinary = spread > 1e-12 * middle.abs()
        if bool(
            ordinary.any()
        ):  # others may all be wrong: what counts as large elsewhere bounds them
            others = others.clamp(max=_OTHERS * float(spread[ordinary].median()))
        spread = torch.where(ordinary, spread, others)
        spread = torch.where(spread > 0, spread, 1.0)
        inside = (away / spread).clamp(-_CELL, _CELL)
        norms = inside.square().nanmean(1).sqrt().nan_to_num()
        return cls(middle, spread, _ROW * float(norms.median()))

    def winsorized(self, cells: Cells, around: Tensor | None = None) -> Cells:
        """The cells with their residuals from `around` (n, m), or from the medians, pulled in.

        The same object if there is nothing to pull.
        """
        center = (self.middle if around is None else around).to(cells.values)
        away, inside, share = self._measure(cells, center)
        changed = (inside != away) | (share < 1)
        if cells.observed is not None:
            changed &= cells.observed
        if not bool(changed.any()):
            return cells
        winsorized = center + self.spread.to(center) * inside * share
        return Cells(
            torch.where(changed, winsorized, cells.values), cells.observed, cells.max_bytes
        )

    def drop(self, cells: Cells, around: Tensor) -> Cells:
        """Rows without those that lie beyond the bounds of a factorisation, nor cells that do.

        A third of the rows and half the cells of each column stay, whatever they are.
        """
        away, inside, share = self._measure(cells, around.to(cells.values))
        rows = (share[:, 0] >= 1) | (share[:, 0] >= share[:, 0].quantile(2 / 3))
        observed = (
            torch.ones_like(away, dtype=torch.bool) if cells.observed is None else cells.observed
        )
        kept = observed & (inside == away)
        few = 2 * kept[rows].sum(0) < observed[rows].sum(0)
        kept = torch.where(few, observed, kept)
        rows &= kept.any(1)
        values = torch.where(kept, cells.values, 0.0)[rows]
        mask = None if bool(kept[rows].all()) else kept[rows]
        return Cells(values, mask, cells.max_bytes)

    def losses(self, cells: Cells, around: Tensor) -> Tensor:
        """(n,) mean over the observed cells of the bounded distance from `around`."""
        _, inside, _ = self._measure(cells, around.to(cells.values))
        seen = torch.ones_like(inside) if cells.observed is None else cells.observed.to(inside)
        return (inside.abs() * seen).sum(1) / seen.sum(1).clamp(min=1)

    def _measure(self, cells: Cells, center: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Residuals in units of their columns, the same bounded, and how much of a row counts."""
        away = (cells.values - center) / self.spread.to(center)
        inside = away.clamp(-_CELL, _CELL)
        if cells.observed is None:
            norms = inside.square().mean(1, keepdim=True).sqrt()
        else:
            count = cells.observed.sum(1, keepdim=True).clamp(min=1)
            norms = ((inside.square() * cells.observed).sum(1, keepdim=True) / count).sqrt()
        if self.reach <= 0 or math.isinf(self.reach):
            return away, inside, torch.ones_like(norms)
        return away, inside, self.reach / norms.clamp(min=self.reach)
