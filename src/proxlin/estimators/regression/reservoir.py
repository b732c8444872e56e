"""Reservoir: an equal chance for every row ever seen to be among the few that are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxlin.estimators.tables import Array

CAPACITY = 20_000


@dataclass(frozen=True, eq=False)
class Reservoir:
    """The rows with the smallest of keys drawn uniformly; all rows while there are few."""

    x: Array  # (k, features)
    y: Array  # (k, targets)
    weights: NDArray[np.float64]  # (k,)
    keys: NDArray[np.float64]  # (k,)
    seen: int  # rows so far

    @classmethod
    def empty(cls, features: int, targets: int) -> Reservoir:
        """Before the first row."""
        nothing = np.empty(0)
        return cls(np.empty((0, features)), np.empty((0, targets)), nothing, nothing, 0)

    def with_rows(
        self, x: Array, y: Array, weights: NDArray[np.float64] | None, seed: int
    ) -> Reservoir:
        """A reservoir that has seen these rows too."""
        keys = np.random.default_rng((seed, self.seen)).random(len(x))
        added = (x, y, np.ones(len(x)) if weights is None else weights, keys)
        old = (self.x, self.y, self.weights, self.keys)
        rows = [np.concatenate(pair) for pair in zip(old, added, strict=True)]
        if len(rows[3]) > CAPACITY:
            chosen = np.sort(np.argpartition(rows[3], CAPACITY)[:CAPACITY])
            rows = [part[chosen] for part in rows]
        return Reservoir(rows[0], rows[1], rows[2], rows[3], self.seen + len(x))
