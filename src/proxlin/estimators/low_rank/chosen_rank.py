"""Rank, penalty and shrinkage of a factorisation: as asked for, or by held-out cells."""

from __future__ import annotations

import math
from dataclasses import replace

from proxlin.exact.factorize import Cells, RowNorm, check_rank
from proxlin.exact.factorize.bounded import Bounds
from proxlin.exact.factorize.held_out_cells import Choice, choose

_RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_ALPHAS = (1.0, 0.3, 0.1, 0.01, 0.0)


def chosen_rank(
    cells: Cells,
    bounds: Bounds | None,
    norm: RowNorm,
    *,
    n_components: int | str | None,
    alpha: float | str,
    by_column: bool,
    seed: int,
) -> Choice:
    """What is "auto" is left to held-out cells: of complete tables the rank alone."""
    given = 0.0 if isinstance(alpha, str) else float(alpha)
    incomplete = cells.observed is not None
    smaller = min(cells.values.shape)
    ranks = [k for k in _RANKS if k <= smaller]
    if not isinstance(n_components, str):
        ranks = [_rank(n_components, cells)]
        if not incomplete or bounds is None:
            return Choice(ranks[0], given, shrinkage=1.0, error=math.nan)
    free_alpha = isinstance(alpha, str) and incomplete and not by_column
    bounds = Bounds.of(cells) if bounds is None else bounds
    alphas = _ALPHAS if free_alpha else (given,)
    choice = choose(bounds.winsorized(cells), bounds, ranks, alphas, norm, seed=seed)
    return choice if incomplete else replace(choice, shrinkage=1.0)


def _rank(n_components: int | None, cells: Cells) -> int:
    n, m = cells.values.shape
    if n_components is None:
        return max(1, min(n, m, round(math.sqrt(m))))
    rank = int(n_components)
    check_rank(rank, cells)
    return rank
