"""solve_quantiles: several quantiles of the same targets that never cross on the rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proxlin._checks import check_open_interval
from proxlin.errors import InvalidInputError
from proxlin.exact.linear.solve import LinearResult, solve_linear
from proxlin.problem.loss import Pinball


def solve_quantiles(
    x: Tensor, y: Tensor, quantiles: Sequence[float], **options: Any
) -> list[LinearResult]:
    """Linear quantiles, one `LinearResult` each in the order asked for, that do not cross.

    `options` are those of `solve_linear`. The quantile nearest to the median comes first; from
    there each one is the best that stays on its side of its neighbour on every row that has a
    weight. Two linear functions that do not cross on the rows do not cross on their convex hull:
    their difference there is an average of differences >= 0. Each certificate bounds the distance
    from the best under that condition; quantiles that would not cross anyway are those of
    `solve_linear`. `max_seconds` is for all of them together.

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [3.0]]).double()
    >>> low, high = solve_quantiles(x, torch.tensor([0.0, 2.0, 1.0, 4.0]), [0.25, 0.75])
    >>> bool(((x @ (high.coef - low.coef) + high.intercept - low.intercept) >= 0).all())
    True
    """
    levels, _ = quantile_levels(quantiles)
    if len(levels) > 1 and not options.get("fit_intercept", True):
        raise InvalidInputError(
            "several quantiles need fit_intercept=True: without an intercept all of them meet at"
            " x = 0. Fit them one by one, or add the intercept."
        )
    deadline = options.pop("max_seconds", None)
    started = time.perf_counter()
    rows = x.detach().to("cpu", torch.float64)
    order = sorted(levels)
    middle = min(range(len(order)), key=lambda i: abs(order[i] - 0.5))
    results: dict[float, LinearResult] = {}
    for i in [*range(middle, len(order)), *range(middle - 1, -1, -1)]:
        neighbour = results.get(order[i - 1] if i > middle else order[min(i + 1, len(order) - 1)])
        seconds = None if deadline is None else deadline + started - time.perf_counter()
        limits = {} if seconds is None else {"max_seconds": max(seconds, 1e-3)}
        results[order[i]] = _beside(
            rows, y, order[i], neighbour, side=1 if i > middle else -1, options=options | limits
        )
    return [results[level] for level in levels]


def _beside(
    x: Tensor,
    y: Tensor,
    level: float,
    neighbour: LinearResult | None,
    *,
    side: int,
    options: dict[str, Any],
) -> LinearResult:
    """The quantile itself, or if it crosses its neighbour the best one that does not."""
    if neighbour is not None and options.get("start") is None:
        options = options | {"start": (neighbour.coef, neighbour.intercept)}
    free = solve_linear(x, y, loss=Pinball(level), **options)
    if neighbour is None:
        return free
    border = x @ neighbour.coef + neighbour.intercept
    room = side * (x @ free.coef + free.intercept - border)
    weights = options.get("sample_weight")
    if bool(
        (room >= 0).all() if weights is None else (room[torch.as_tensor(weights) > 0] >= 0).all()
    ):
        return free
    kept_off: dict[str, Any] = {"at_least": border} if side > 0 else {"at_most": border}
    options = options | {"start": (free.coef, free.intercept)}
    return solve_linear(x, y, loss=Pinball(level), **options, **kept_off)


def quantile_levels(quantile: Any) -> tuple[list[float], bool]:
    """The levels as numbers, and whether they came as a list."""
    several = isinstance(quantile, Sequence | Tensor | np.ndarray) and not isinstance(quantile, str)
    several = several and getattr(quantile, "ndim", 1) > 0
    levels = list(quantile) if several else [quantile]
    for level in levels:
        check_open_interval("quantile", level, 0, 1)
    if len(set(levels)) != len(levels) or not levels:
        raise InvalidInputError(
            f"quantiles must be different numbers in (0, 1), at least one; got {quantile!r}."
        )
    return [float(level) for level in levels], several
