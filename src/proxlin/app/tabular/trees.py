"""Boosted trees for what curves cannot say: each tree is a weighted least-squares step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxlin.app.tabular.additive import residual_scale, row_trust
from proxlin.app.tabular.columns import Matrix, Vector

Codes = NDArray[np.uint8]

BINS = 64
_DEPTH, _ROWS_A_LEAF = 5, 60  # levels at most; rows a leaf on average at least
_STEP = 0.07  # share of a tree that is added
_MOST_TREES, _PATIENCE = 600, 30  # trees without a better held-out loss before it ends
_RIDGE = 2.0  # rows' worth of zero in each leaf
_LEAST = 4.0  # weight of rows in a leaf
_ROWS_SEEN, _COLUMNS_SEEN = 0.75, 0.7  # share that a tree is grown from
_MOST_ROWS = 20_000  # that a tree is grown from
_RENEWED = 5  # trees between two looks at the held-out scale
_CLIP = 5.0  # robust deviations beyond which a held-out error counts no more


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Sum of trees of one depth on binned columns."""

    cuts: tuple[Vector, ...]  # upper ends of the bins of each column but the last
    columns: NDArray[np.int64]  # (trees, nodes) -1 where a node does not split
    bins: NDArray[np.int64]  # (trees, nodes) the last bin that goes left
    values: Matrix  # (trees, leaves)

    @classmethod
    def fit(
        cls,
        train: tuple[Matrix, Vector],
        held: tuple[Matrix, Vector],
        *,
        redescending: bool,
        seed: int,
        out_of_time: Callable[[], bool],
        floor: float = 0.0,
    ) -> BoostedTrees:
        """Trees for residuals of another model, as many as lower the held-out rows' clipped error.

        Each tree minimises a quadratic that touches the robust loss from above: rows beyond one
        deviation count as in an absolute error, rows beyond six, if `redescending`, not at all.
        The deviation is that of the held-out rows, which trees do not learn by heart, or the floor.
        """
        generator = np.random.default_rng(seed)
        cuts = tuple(_cuts(column) for column in train[0].T)
        codes, held_codes = (_codes(cuts, part[0]) for part in (train, held))
        residual, held_residual = train[1].copy(), held[1].copy()
        depth = int(np.clip(np.log2(max(len(codes), 2) / _ROWS_A_LEAF) + 1, 2, _DEPTH))
        scale = max(residual_scale(held_residual), floor)
        limit = _CLIP * scale
        best, kept = clipped_mean(held_residual, limit), 0
        trees: list[tuple[Any, Any, Vector]] = []
        while len(trees) < _MOST_TREES and len(trees) < kept + _PATIENCE and not out_of_time():
            if len(trees) % _RENEWED == 0:
                scale = max(residual_scale(held_residual), floor)
            weights = np.minimum(1.0, scale / np.maximum(np.abs(residual), 1e-300))
            if redescending:
                weights *= row_trust(residual[:, None], scale)
            share = min(_ROWS_SEEN, _MOST_ROWS / len(codes))
            rows = np.flatnonzero(generator.random(len(codes)) < share)
            wide = max(1, round(_COLUMNS_SEEN * codes.shape[1]))
            some = np.sort(generator.choice(codes.shape[1], wide, replace=False))
            columns, bins, values = _grow(
                codes[np.ix_(rows, some)], residual[rows], weights[rows], depth
            )
            tree = (np.where(columns >= 0, some[columns], -1), bins, _STEP * values)
            trees.append(tree)
            residual -= tree[2][_leaves(codes, *tree[:2], depth)]
            held_residual -= tree[2][_leaves(held_codes, *tree[:2], depth)]
            loss = clipped_mean(held_residual, limit)
            if loss < best:
                best, kept = loss, len(trees)
        columns, bins, values = (
            np.array([tree[part] for tree in trees[:kept]]) for part in range(3)
        )
        nodes = 2**depth - 1
        return cls(
            cuts,
            columns.reshape(kept, nodes).astype(np.int64),
            bins.reshape(kept, nodes).astype(np.int64),
            values.reshape(kept, nodes + 1).astype(np.float64),
        )

    def predict(self, x: Matrix) -> Vector:
        """(rows,)."""
        codes = _codes(self.cuts, x)
        answers = np.zeros(len(x))
        depth = int(np.log2(self.values.shape[1]))
        for columns, bins, values in zip(self.columns, self.bins, self.values, strict=True):
            answers += values[_leaves(codes, columns, bins, depth)]
        return answers

    def state(self) -> dict[str, Any]:
        """Arrays."""
        return {
            "cuts": np.concatenate([np.empty(0), *self.cuts]),
            "lengths": np.array([len(cuts) for cuts in self.cuts], dtype=np.int64),
            "columns": self.columns,
            "bins": self.bins,
            "values": self.values,
        }

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> BoostedTrees:
        """What `state` took apart."""
        ends = np.cumsum(arrays["lengths"])
        cuts = tuple(np.split(arrays["cuts"], ends[:-1]))
        columns, bins, values = arrays["columns"], arrays["bins"], arrays["values"]
        nodes = values.shape[1] - 1
        if columns.shape != bins.shape or columns.shape != (len(values), nodes):
            raise ValueError("the trees are of different shapes")
        if (
            (nodes + 1) & nodes
            or columns.max(initial=-1) >= len(cuts)
            or columns.min(initial=0) < -1
        ):
            raise ValueError("the trees split columns that are not there")
        return cls(cuts, columns, bins, values)


def clipped_mean(residuals: Matrix | Vector, limit: float) -> float:
    """Mean size of the residuals, each counted up to the limit."""
    return float(np.minimum(np.abs(residuals), limit).mean())


def _cuts(column: Vector) -> Vector:
    values = np.unique(column)
    if len(values) <= BINS:
        return np.asarray((values[1:] + values[:-1]) / 2)
    shares = np.linspace(0, 1, BINS + 1)[1:-1]
    return np.unique(np.quantile(column, shares, method="inverted_cdf"))


def _codes(cuts: tuple[Vector, ...], x: Matrix) -> Codes:
    codes = np.empty(x.shape, dtype=np.uint8)
    for number, ends in enumerate(cuts):
        codes[:, number] = np.searchsorted(ends, x[:, number], side="left")
    return codes


def _grow(
    codes: Codes, residual: Vector, weights: Vector, depth: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
    """Split columns and bins of a complete tree, level by level, and the values of its leaves."""
    n, d = codes.shape
    columns, bins = (np.full(2**depth - 1, fill, dtype=np.int64) for fill in (-1, 0))
    node = np.zeros(n, dtype=np.int64)
    places = codes.astype(np.int64) + BINS * np.arange(d)
    pulls = weights * residual
    pull_cells, weight_cells = np.repeat(pulls, d), np.repeat(weights, d)
    for level in range(depth):
        count, shape = 2**level, (2**level, d, BINS)
        where = (node[:, None] * (d * BINS) + places).ravel()
        pull = np.bincount(where, pull_cells, count * d * BINS).reshape(shape).cumsum(-1)
        mass = np.bincount(where, weight_cells, count * d * BINS).reshape(shape).cumsum(-1)
        all_pull, all_mass = pull[..., -1:], mass[..., -1:]
        left, left_mass = pull[..., :-1], mass[..., :-1]
        right, right_mass = all_pull - left, all_mass - left_mass
        gain = left**2 / (left_mass + _RIDGE) + right**2 / (right_mass + _RIDGE)
        gain -= all_pull**2 / (all_mass + _RIDGE)
        gain[(left_mass < _LEAST) | (right_mass < _LEAST)] = 0.0
        flat = gain.reshape(count, -1)
        best = flat.argmax(axis=1)
        splits = flat[np.arange(count), best] > 0
        here = slice(count - 1, 2 * count - 1)
        columns[here] = np.where(splits, best // (BINS - 1), -1)
        bins[here] = best % (BINS - 1)
        node = _next(codes, node, columns[here], bins[here])
    leaves = 2**depth
    mass = np.bincount(node, weights, leaves)
    return columns, bins, np.bincount(node, pulls, leaves) / (mass + _RIDGE)


def _leaves(codes: Codes, columns: Any, bins: Any, depth: int) -> NDArray[np.int64]:
    node = np.zeros(len(codes), dtype=np.int64)
    for level in range(depth):
        here = slice(2**level - 1, 2 ** (level + 1) - 1)
        node = _next(codes, node, columns[here], bins[here])
    return node


def _next(codes: Codes, node: NDArray[np.int64], columns: Any, bins: Any) -> NDArray[np.int64]:
    """The child that each row goes to; a node that does not split sends all to the left."""
    column = columns[node]
    cells = codes[np.arange(len(codes)), np.maximum(column, 0)]
    children: NDArray[np.int64] = 2 * node + ((column >= 0) & (cells > bins[node]))
    return children
