"""Where an autoencoder of a table begins: at the plane that most rows follow.

A chain of Linear layers with tanh between them carries the scores of that plane through half of its
units, where tanh is nearly a line, so that training only has to add what is curved. Rows far out
saturate. A linear chain is the plane itself.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from proxlin.estimators.low_rank.coding import Coding
from proxlin.exact.factorize import Cells, RowNorm
from proxlin.exact.factorize.bounded import Bounds
from proxlin.exact.factorize.fit_factors import FactorSettings, fit_bounded

_NARROW = 0.1  # what a unit of tanh takes a standard deviation of a score for
_ROWS = 5000  # that tell the plane
_SWEEPS = 50
_CONCENTRATIONS = 5
_TOL = 1e-4


def start_at_plane(coding: Coding, rows: Tensor, code: int, seed: int) -> bool:
    """Put the net's start at the plane of the rows; False if it is no chain that could be put so.

    `rows` (n, features) are scaled, errors pulled in.
    """
    encoder, decoder = _layers(coding.module.encoder), _layers(coding.module.decoder)
    if encoder is None or decoder is None:
        return False
    if min(layer.out_features for layer in encoder) < code:
        return False
    center, axes, spread = _plane(rows, code, seed)
    narrow = 1.0 if len(encoder) == 1 else _NARROW
    scores = axes * (narrow / spread)[:, None]
    back = axes * (spread / narrow)[:, None]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        _chain(encoder, scores, torch.eye(code) / narrow, generator)
        encoder[0].bias.sub_(encoder[0].weight @ center)
        _chain(decoder, narrow * torch.eye(code), back.T, generator)
        decoder[-1].bias.copy_(center)
    return True


def _chain(
    layers: list[nn.Linear], first: Tensor, last: Tensor, generator: torch.Generator
) -> None:
    """Make the layers last @ first, by random directions of half of the units between them.

    The other half stays as it is, ready to bend, and is not heard yet.
    """
    code = len(first)
    ways = [
        _directions(max(code, layer.out_features // 2), code, generator) for layer in layers[:-1]
    ]
    ahead = [*ways, last]
    behind = [first, *(way.T * (code / len(way)) for way in ways)]
    for layer, left, right in zip(layers, ahead, behind, strict=True):
        outputs, inputs = len(left), right.shape[1]
        layer.weight[:outputs].zero_()
        layer.weight[:outputs, :inputs] = left @ right
        layer.bias[:outputs].zero_()


def _directions(units: int, code: int, generator: torch.Generator) -> Tensor:
    """Q (units, code) with rows of norm about 1 and Q^T Q = units / code."""
    orthogonal: Tensor = torch.linalg.qr(torch.randn(units, code, generator=generator)).Q
    return orthogonal * math.sqrt(units / code)


def _layers(half: nn.Module) -> list[nn.Linear] | None:
    """The Linear layers of a chain with tanh, or nothing, between them; None if it is another."""
    if not isinstance(half, nn.Sequential):
        return None
    layers = [layer for layer in half if isinstance(layer, nn.Linear)]
    others = [layer for layer in half if not isinstance(layer, nn.Linear)]
    usual = all(isinstance(layer, nn.Tanh | nn.Identity) for layer in others)
    fits = all(a.out_features == b.in_features for a, b in pairwise(layers))
    return layers if usual and fits and layers else None


def _plane(rows: Tensor, code: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Center (m,), axes (code, m) and standard deviations (code,) of the scores along them.

    From a bounded factorisation around the medians on, the half of the rows nearest decides.
    """
    step = max(1, len(rows) // _ROWS)
    table = rows[::step].cpu().double()
    center = table.median(0).values
    cells = Cells(table - center)
    bounds = Bounds.of(cells)
    settings = FactorSettings(tol=_TOL, max_iter=_SWEEPS, seed=seed)
    fit = fit_bounded(cells, bounds, code, RowNorm(2.0, 0.0, False), settings)
    axes = torch.linalg.qr(fit.v.T).Q.T
    half = (len(table) + 1) // 2
    for _ in range(_CONCENTRATIONS if half > 2 * code else 0):  # medians need not lie on the plane
        moved = table - center
        left = torch.linalg.vector_norm(moved - moved @ axes.T @ axes, dim=1)
        near = table[left.argsort(stable=True)[:half]]
        center = near.mean(0)
        axes = torch.linalg.svd(near - center, full_matrices=False).Vh[:code]
    scores = (table - center) @ axes.T
    spread = 1.4826 * (scores - scores.median(0).values).abs().median(0).values
    spread = spread.clamp(min=1e-3 * float(spread.max().clamp(min=1e-6)))
    return center.float(), axes.float(), spread.float()
