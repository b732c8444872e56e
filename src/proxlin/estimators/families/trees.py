"""Boosted trees for what curves cannot say: each tree is a weighted least-squares step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.families.held_out_error import clipped_mean
from proxlin.estimators.robust_scale import absolute_weights, residual_scale
from proxlin.estimators.tables import Matrix, Vector

Codes = NDArray[np.uint8]
Part = tuple[Matrix, Vector]  # columns and residuals of some rows

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
        folds: Sequence[tuple[Part, Part]],
        *,
        redescending: bool,
        seed: int,
        out_of_time: Callable[[], bool],
        floor: float = 0.0,
    ) -> list[BoostedTrees]:
        """Trees for residuals of another model, one set for each fold (rows to fit, rows held out).

        All sets have as many trees as lower the clipped error of all held-out rows together: those
        of one fold alone would choose its number by luck.
        """
        growing = [
            _GrowingTrees(train, held, redescending, np.random.default_rng(seed + number), floor)
            for number, (train, held) in enumerate(folds)
        ]
        best, kept, count = sum(trees.held_out_loss() for trees in growing), 0, 0
        while count < min(_MOST_TREES, kept + _PATIENCE) and not out_of_time():
            for trees in growing:
                trees.grow()
            count += 1
            loss = sum(trees.held_out_loss() for trees in growing)
            if loss < best:
                best, kept = loss, count
        return [trees.first(kept) for trees in growing]

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


class _GrowingTrees:
    """Trees of one fold while they are grown.

    Each tree minimises a quadratic that touches the robust loss from above: rows beyond one
    deviation count as in an absolute error, rows beyond six, if `redescending`, not at all. The
    deviation is that of the held-out rows, which trees do not learn by heart, or the floor.
    """

    def __init__(
        self,
        train: Part,
        held: Part,
        redescending: bool,
        generator: np.random.Generator,
        floor: float,
    ) -> None:
        self.redescending, self.generator, self.floor = redescending, generator, floor
        self.cuts = tuple(_cuts(column) for column in train[0].T)
        self.codes, self.held_codes = (_codes(self.cuts, part[0]) for part in (train, held))
        self.residual, self.held_residual = train[1].copy(), held[1].copy()
        rows = max(len(self.codes), 2)
        self.depth = int(np.clip(np.log2(rows / _ROWS_A_LEAF) + 1, 2, _DEPTH))
        self.scale = max(residual_scale(self.held_residual), floor)
        self.limit = _CLIP * self.scale
        self.trees: list[tuple[Any, Any, Vector]] = []

    def held_out_loss(self) -> float:
        """The clipped mean error."""
        return clipped_mean(self.held_residual, self.limit)

    def grow(self) -> None:
        """One more tree."""
        if len(self.trees) % _RENEWED == 0:
            self.scale = max(residual_scale(self.held_residual), self.floor)
        weights = absolute_weights(self.residual, self.scale, redescending=self.redescending)
        n, d = self.codes.shape
        rows = np.flatnonzero(self.generator.random(n) < min(_ROWS_SEEN, _MOST_ROWS / n))
        some = np.sort(self.generator.choice(d, max(1, round(_COLUMNS_SEEN * d)), replace=False))
        columns, bins, values = _grow(
            self.codes[np.ix_(rows, some)], self.residual[rows], weights[rows], self.depth
        )
        tree = (np.where(columns >= 0, some[columns], -1), bins, _STEP * values)
        self.trees.append(tree)
        self.residual -= tree[2][_leaves(self.codes, *tree[:2], self.depth)]
        self.held_residual -= tree[2][_leaves(self.held_codes, *tree[:2], self.depth)]

    def first(self, count: int) -> BoostedTrees:
        """The first trees as they will be used."""
        columns, bins, values = (
            np.array([tree[part] for tree in self.trees[:count]]) for part in range(3)
        )
        nodes = 2**self.depth - 1
        return BoostedTrees(
            self.cuts,
            columns.reshape(count, nodes).astype(np.int64),
            bins.reshape(count, nodes).astype(np.int64),
            values.reshape(count, nodes + 1).astype(np.float64),
        )


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
