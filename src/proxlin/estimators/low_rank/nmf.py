"""RobustNMF: a table as parts that add up, with bad rows, columns or cells, and missing ones."""

from __future__ import annotations

from proxlin.estimators.low_rank.factorization import RobustFactorization


class RobustNMF(RobustFactorization):
    """min (1/n) sum_i ||u_i V - x_i||_p + alpha/2 (||U||^2/n + ||V||^2/m) over U >= 0, V >= 0.

    `RobustFactorization` with both factors non-negative, exactly, and zeros exactly zero: parts
    that add up. All parameters and attributes are the same; components have unit length.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> parts = np.array([[1.0, 1.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0, 0.0, 1.0]])
    >>> x = rng.exponential(size=(60, 2)) @ parts
    >>> x[rng.random(x.shape) < 0.1] = 5.0
    >>> model = RobustNMF(2, random_state=0).fit(x)
    >>> sorted(map(tuple, model.components_.round(2).tolist()))
    [(0.0, 0.0, 0.58, 0.58, 0.0, 0.58), (0.58, 0.58, 0.0, 0.0, 0.58, 0.0)]
    """

    _non_negative = True
