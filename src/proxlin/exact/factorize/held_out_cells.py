"""Rank, penalty and shrinkage of a factorisation by cells that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from proxlin.exact.factorize.bounded import Bounds
from proxlin.exact.factorize.cells import Cells
from proxlin.exact.factorize.row_norm import RowNorm
from proxlin.exact.factorize.run import factorize
from proxlin.exact.factorize.start import sample_rows

_SHARE = 0.1  # of the known cells that are held out
_ROWS = 1000  # rows that judge, at most
_SWEEPS = 20
_TOL = 1e-3
_SHRINKAGES = (0.0, 0.25, 0.5, 0.75, 1.0)
_CLEAR = 0.99  # a larger model must be better by this factor


@dataclass(frozen=True)
class Choice:
    """What held-out cells prefer."""

    rank: int
    alpha: float
    shrinkage: float  # imputed is medians + shrinkage * (U V - medians)
    error: float  # mean absolute one of the held-out cells, in units of the columns


def choose(
    cells: Cells,
    bounds: Bounds,
    ranks: Sequence[int],
    alphas: Sequence[float],
    norm: RowNorm,
    *,
    seed: int,
) -> Choice:
    """The candidate whose factorisation predicts held-out cells best.

    Errors are of bounded residuals, so that wrong cells among the held-out ones have no say. Ranks
    and penalties are tried from the simplest on, and the errors of a candidate that is no clear
    gain leave the choice where it was.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = sample_rows(len(cells.values), _ROWS, generator)
    cells = cells if chosen is None else cells.rows(chosen)
    values = cells.values
    observed = (
        torch.ones_like(values, dtype=torch.bool) if cells.observed is None else cells.observed
    )
    held = _hold_out(observed, generator)
    spread, middle = bounds.spread.to(values), bounds.middle.to(values)
    kept = Cells(torch.where(held, 0.0, values), observed & ~held, cells.max_bytes)
    target = ((values - middle) / spread)[held]
    best = Choice(ranks[0], alphas[0], 1.0, torch.inf)
    for rank in ranks:
        for alpha in alphas:
            factors = factorize(
                kept, rank, replace(norm, alpha=alpha), tol=_TOL, max_iter=_SWEEPS, seed=seed
            )
            guess = ((factors.u @ factors.v - middle) / spread)[held]
            errors = [_error(target - share * guess) for share in _SHRINKAGES]
            least = min(errors)
            if least < _CLEAR * best.error:
                share = _SHRINKAGES[errors.index(least)]
                best = Choice(rank, alpha, share, least)
    return best


def _error(residual: Tensor) -> float:
    return float(residual.abs().clamp(max=12.0).double().mean()) if len(residual) else 0.0


def _hold_out(observed: Tensor, generator: torch.Generator) -> Tensor:
    """A share of the known cells, none that is the last of its row or column but two."""
    draw = torch.rand(observed.shape, generator=generator).to(observed.device)
    held = observed & (draw < _SHARE)
    left = observed & ~held
    held[left.sum(1) < 2] = False
    held[:, left.sum(0) < 2] = False
    return held
