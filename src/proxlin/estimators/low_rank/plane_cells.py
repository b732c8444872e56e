"""Cells by a plane that most rows follow: where wrong and missing ones should be, and which rows
lie near it.

A wrong cell moves its whole row, so that where one cell in ten is wrong hardly any row of many
columns is good. Most cells of most rows are right, though, and say what the others should have
been; what is left then are rows that are wrong as a whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from proxlin.estimators.leverage import LeverageWeights
from proxlin.estimators.low_rank.cell_repair import repair_cells
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.tables import Mask, Matrix, Vector, as_array
from proxlin.exact.factorize import Cells, RowNorm
from proxlin.exact.factorize.bounded import Bounds
from proxlin.exact.factorize.fit_factors import FactorSettings, fit_bounded
from proxlin.exact.factorize.fixed_basis import FixedBasis
from proxlin.exact.factorize.held_out_cells import choose

_FIRST_COMPONENTS = 10  # of the factorisation that tells good rows from bad ones, at most
_FEW = 10  # rows below which no cell is told from others
_FAR = 6.0  # robust standard deviations of its column that a wrong cell is off the plane
_RANKS = (1, 2, 3, 4, 6, 8, 10)  # that held-out cells choose from
_LOST = 0.5  # share of wrong cells of a row beyond which the others say nothing of it
_MINORITY = 0.5  # of the rows: where more have a wrong cell, no half of them is good
_KNOWN = 0.3  # share of known cells that a row needs to decide something
_BY_ROWS, _BY_CELLS = RowNorm(2.0, 0.0, False), RowNorm(1.0, 0.0, False)


def cells_of(table: Matrix) -> Cells:
    """The table as the factorisation reads it."""
    return Cells.of(torch.from_numpy(np.ascontiguousarray(table)))


def without_wrong_cells(table: Matrix, count: int, seed: int) -> tuple[Matrix, Vector]:
    """(table with wrong cells at what their rows let expect, their share in each row over a half).

    Rows of more wrong cells than that stay as they are, and all of them where those with a wrong
    cell are a minority: they may be wrong as a whole, and the others are enough.
    """
    n, m = table.shape
    if m < 3 or n < _FEW or np.isnan(table).all(axis=0).any():
        return table, np.zeros(n)
    filled, wrong = repair_cells(table, max(1, min(count, m // 2, n // 4)), seed)
    lost: Vector = wrong.mean(axis=1) / _LOST
    if wrong.any(axis=1).mean() <= _MINORITY:
        return table, lost
    return np.where(lost[:, None] > 1.0, table, filled), lost


def chosen_axes(table: Matrix, bounds: Bounds, seed: int) -> int:
    """How many axes predict held-out cells of an incomplete table best.

    As many axes as a row has known cells fit these exactly, and say anything of the others. A
    complete table, or one too small to hold cells out, gets half as many as it has columns.
    """
    n, m = table.shape
    cells = cells_of(table)
    most: int = max(1, min(m // 2, n - 1, _FIRST_COMPONENTS))
    if cells.observed is None or m < 3 or n < _FEW:
        return most
    moved, centred = _about_middle(cells, bounds)
    ranks = [rank for rank in _RANKS if rank <= most]
    return choose(centred.winsorized(moved), centred, ranks, (0.0,), _BY_ROWS, seed=seed).rank


def rows_near_plane(table: Matrix, bounds: Bounds, count: int, seed: int) -> tuple[Matrix, Mask]:
    """(rows with missing and far cells from a robust plane of so many axes, which are near it)."""
    n, m = table.shape
    cells = cells_of(table)
    if m == 1 or n < 3:
        return as_array(bounds.winsorized(cells).values), np.ones(n, dtype=bool)
    rank = max(1, min(count, m // 2, n - 1, _FIRST_COMPONENTS))
    middle, (moved, centred) = bounds.middle, _about_middle(cells, bounds)
    settings = FactorSettings(tol=1e-3, max_iter=50, seed=seed)
    fit = fit_bounded(moved, centred, rank, _BY_ROWS, settings)
    plane = FixedBasis(fit.v, _BY_ROWS, bounds=centred).embed(moved).u @ fit.v
    residual = ((moved.values - plane) / bounds.spread.to(plane)).abs()
    far = residual > _FAR
    if cells.observed is not None:
        far |= ~cells.observed
    rows = as_array(torch.where(far, plane, moved.values) + middle.to(plane))
    near = _near(rows, as_array(plane), bounds) & (as_array(far.double().mean(1)) <= _LOST)
    if cells.observed is not None:  # cells that nobody measured make no row good
        near &= as_array(cells.observed.double().mean(1)) > _KNOWN
    # A cluster of wrong rows may own an axis of the plane: the closest half decides.
    plain = (rows - as_array(middle)) / as_array(bounds.spread)
    near &= LeverageWeights.fit(plain, None, seed).weights(plain) > 0
    return rows, near if near.sum() > rank else np.ones(n, dtype=bool)


def _about_middle(cells: Cells, bounds: Bounds) -> tuple[Cells, Bounds]:
    """The cells minus the middle of their columns, missing ones 0, and their bounds."""
    moved = cells.values - bounds.middle
    if cells.observed is not None:
        moved = moved * cells.observed
    centred = replace(bounds, middle=torch.zeros_like(bounds.middle))
    return Cells(moved, cells.observed, cells.max_bytes), centred


def _near(rows: Matrix, plane: Matrix, bounds: Bounds) -> NDArray[np.bool_]:
    """Rows neither far off the plane, which is given about the middle, nor far out in it."""
    distance = np.linalg.norm(rows - (plane + as_array(bounds.middle)), axis=1)
    off = OutlierScale.fit(distance, size=float(np.median(np.linalg.norm(rows, axis=1))))
    length = np.linalg.norm(plane / as_array(bounds.spread), axis=1)
    out = OutlierScale.fit(length, size=float(np.median(length)), cutoff=6.0)
    return ~(off.flags(off.scores(distance)) | out.flags(out.scores(length)))


def completed(
    rows: Matrix, bounds: Bounds, center: Vector, axes: Matrix, most: int | None = None
) -> Matrix:
    """Rows whose missing and far cells follow from the others, by the plane of axes at center.

    `most` of the axes are taken, the leading ones; by None half as many as there are columns.
    """
    cells = cells_of(rows - center)
    basis = torch.from_numpy(np.ascontiguousarray(axes))
    around = Bounds(bounds.middle - torch.from_numpy(center), bounds.spread, np.inf)
    winsorized = around.winsorized(cells)
    if winsorized is cells and cells.observed is None:
        return rows
    some = slice(None) if cells.observed is not None else (winsorized.values != cells.values).any(1)
    # By absolute residuals: a row has few wrong cells, whose squares would decide.
    rank = min(len(basis), rows.shape[1] // 2 if most is None else most)
    chosen = cells.rows(some)
    plane = torch.zeros_like(chosen.values)
    if rank:
        leading = basis[:rank].contiguous()
        fixed = FixedBasis(leading, _BY_CELLS, bounds=around)
        plane = fixed.embed(chosen).u @ leading
    residual = (chosen.values - plane).abs() / around.spread.to(plane)
    far = residual > _FAR
    if cells.observed is not None:
        far |= ~cells.observed
    filled = cells.values.clone()
    filled[some] = torch.where(far, plane, chosen.values)
    return as_array(filled) + center
