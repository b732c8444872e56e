"""A forest of trees grown to the end: for targets that other columns nearly look up, in steps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

from proxlin.estimators.robust_scale import redescending_weights, residual_scale
from proxlin.estimators.tables import Matrix, Vector

_TREES = 40  # of one fold
_MOST_ROWS = 10_000  # that a tree is grown from
_NEAR = 3.0  # robust deviations from what the other trees say, where a target is cut
_CELLS = 2_000_000  # rows times trees of one prediction


@dataclass(frozen=True, eq=False)
class Forest:
    """The mean of trees, stored one after the other; the node after a node is its left child.

    A row goes left where its cell is at most the cut. Leaves have column -1.
    """

    width: NDArray[np.int64]  # (1,) columns of x

    starts: NDArray[np.int64]  # (trees,) their first nodes
    columns: NDArray[np.int32]  # (nodes,)
    cuts: NDArray[np.float32]  # (nodes,)
    right: NDArray[np.int32]  # (nodes,)
    values: NDArray[np.float32]  # (nodes,) of leaves

    @classmethod
    def fit(
        cls,
        x: Matrix,
        z: Vector,
        guess: Vector,
        *,
        redescending: bool,
        seed: int,
        floor: float = 0.0,
    ) -> Forest:
        """Trees for targets z, of which another model's guess says which are far off.

        They are grown twice, the second time by what trees that had not seen a row say of it: rows
        beyond three deviations count as if they lay there, rows beyond six, if `redescending`, not
        at all. Cuts are drawn at random (Geurts et al. 2006), each tree from a sample of the rows.
        """
        cells = x.astype(np.float32)
        for last in (False, True):
            away = z - guess
            scale = max(residual_scale(away), floor)
            weights = (
                redescending_weights(away[:, None], scale) if redescending else np.ones(len(z))
            )
            used = weights > 0
            near = guess + np.clip(away, -_NEAR * scale, _NEAR * scale)
            trees = ExtraTreesRegressor(
                _TREES if last else _TREES // 2,
                bootstrap=True,
                oob_score=not last,
                max_samples=min(int(used.sum()), _MOST_ROWS),
                random_state=(seed + last) % 2**32,
            )
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
                trees.fit(cells[used], near[used], weights[used])
            if not last:
                in_all = np.ones(int(used.sum()), dtype=bool)  # rows that every tree has seen
                for sample in trees.estimators_samples_:
                    in_all &= np.bincount(sample, minlength=len(in_all)) > 0
                unseen = np.where(in_all, guess[used], trees.oob_prediction_)
                guess = np.where(used, 0.0, trees.predict(cells))
                guess[used] = unseen
        return cls._of([tree.tree_ for tree in trees.estimators_])

    @classmethod
    def _of(cls, trees: list[Any]) -> Forest:
        """From scikit-learn's, whose nodes are in this order."""
        starts = np.cumsum([0, *(tree.node_count for tree in trees)])
        right = [start + tree.children_right for start, tree in zip(starts, trees, strict=False)]
        return cls(
            np.array([trees[0].n_features]),
            starts[:-1],
            np.concatenate([np.maximum(tree.feature, -1) for tree in trees]).astype(np.int32),
            np.concatenate([tree.threshold for tree in trees]).astype(np.float32),
            np.concatenate(right).astype(np.int32),
            np.concatenate([tree.value[:, 0, 0] for tree in trees]).astype(np.float32),
        )

    def predict(self, x: Matrix) -> Vector:
        """(rows,)."""
        if x.shape[1] != self.width[0]:
            raise ValueError(f"x must have {self.width[0]} columns; got {x.shape[1]}.")
        answers = np.empty(len(x))
        at_once = max(1, _CELLS // len(self.starts))
        for first in range(0, len(x), at_once):
            cells = x[first : first + at_once].astype(np.float32)
            leaves = self._leaves(cells)
            answers[first : first + at_once] = self.values[leaves].mean(axis=1, dtype=np.float64)
        return answers

    def _leaves(self, cells: NDArray[np.float32]) -> NDArray[np.int64]:
        """The leaf of each row in each tree: (rows, trees)."""
        n, trees = len(cells), len(self.starts)
        nodes = np.tile(self.starts, n)
        rows = np.repeat(np.arange(n), trees)
        open_ = np.flatnonzero(self.columns[nodes] >= 0)
        while len(open_):
            here = nodes[open_]
            left = cells[rows[open_], self.columns[here]] <= self.cuts[here]
            nodes[open_] = np.where(left, here + 1, self.right[here])
            open_ = open_[self.columns[nodes[open_]] >= 0]
        return nodes.reshape(n, trees)

    def state(self) -> dict[str, Any]:
        """Arrays."""
        return dict(vars(self))

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> Forest:
        """What `state` took apart."""
        forest = cls(**{name: arrays[name] for name in cls.__dataclass_fields__})
        nodes = np.arange(len(forest.columns))
        inner = forest.columns >= 0
        if (
            not len(forest.starts)
            or {len(nodes)} != {len(forest.cuts), len(forest.right), len(forest.values)}
            or forest.starts.min() < 0
            or forest.starts.max() >= len(nodes)
            or inner[-1]
            or (forest.right[inner] <= nodes[inner]).any()  # or rows would go in circles
            or forest.right.max() >= len(nodes)
            or forest.columns.max() >= forest.width[0]
        ):
            raise ValueError("the nodes of a forest do not lead to leaves")
        return forest
