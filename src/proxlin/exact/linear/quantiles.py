"""solve_quantiles, stream_quantiles: quantiles of the same targets that never cross on the rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proxlin._checks import check_open_interval
from proxlin.errors import InvalidInputError
from proxlin.exact.linear.known_sides import Line, solve_by_sides, target_count
from proxlin.exact.linear.linear_result import LinearResult
from proxlin.exact.linear.solve import solve_linear
from proxlin.methods.contract import Status
from proxlin.problem.loss import Pinball
from proxlin.problem.parallel import communicator
from proxlin.problem.rows import as_rows
from proxlin.problem.shards import Everywhere, own_rows


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
    _check_intercept(levels, options)
    deadline = options.pop("max_seconds", None)
    started = time.perf_counter()
    rows = x.detach().to("cpu", torch.float64)
    results: dict[float, LinearResult] = {}
    for level, neighbour, side in _outwards(levels):
        seconds = None if deadline is None else deadline + started - time.perf_counter()
        limits = {} if seconds is None else {"max_seconds": max(seconds, 1e-3)}
        beside = None if neighbour is None else results[neighbour]
        results[level] = _beside(rows, y, level, beside, side=side, options=options | limits)
    return [results[level] for level in levels]


def stream_quantiles(
    data: Any,
    quantiles: float | Sequence[float],
    *,
    sharded: bool = False,
    max_seconds: float | None = None,
    **options: Any,
) -> list[LinearResult]:
    """Linear quantiles of rows that memory need not hold, proven optimal; they do not cross.

    `data` are rows (x, y) or (x, y, weights): tensors, arrays of `np.load(path, mmap_mode="r")`,
    which are read in a few passes, or a map-style Dataset. Under torchrun every process reads its
    part of them, or with `sharded` has rows of its own. What is held are some ((m + 1) n)^(2/3)
    rows. `options` are regularizer, constraint, fit_intercept and tol of `solve_linear`; terms act
    on each target by itself. `max_seconds` is for each level of each target.

    >>> x = torch.arange(8.0)[:, None].double()
    >>> (middle,) = stream_quantiles((x, 2 * x[:, 0] + 1), 0.5)
    >>> round(float(middle.coef), 6), round(float(middle.intercept), 6)
    (2.0, 1.0)
    """
    levels, _ = quantile_levels(quantiles)
    _check_intercept(levels, options)
    group = communicator()
    shards = own_rows(data, group) if sharded else Everywhere(as_rows(data), group)
    order = _outwards(levels)
    results: dict[float, list[LinearResult]] = {level: [] for level in levels}
    for target in range(target_count(shards)):
        for level, neighbour, side in order:
            start = bound = None
            if neighbour is not None:
                beside = results[neighbour][target]
                start = beside.coef, beside.intercept
                bound = Line(*start), side
            result = solve_by_sides(
                shards, level, solve_linear, target=target, bound=bound, start=start,
                max_seconds=max_seconds, **options,
            )  # fmt: skip
            results[level].append(result)
    return [_joined(results[level]) for level in levels]


def _joined(results: list[LinearResult]) -> LinearResult:
    """One result for several targets that were fitted one by one."""
    if len(results) == 1:
        return results[0]
    certificates = [result.certificate for result in results if result.certificate is not None]
    worst = max(results, key=lambda result: result.status is not Status.CONVERGED)
    theta = torch.cat(
        [torch.cat([r.coef for r in results], 1).reshape(-1), *(r.intercept for r in results)]
    )
    return replace(
        worst,
        objective=sum(result.objective for result in results),
        certificate=max(certificates, key=lambda certificate: certificate.value),
        seconds=sum(result.seconds for result in results),
        iterations=sum(result.iterations for result in results),
        theta=theta,
        targets=len(results),
    )


def _outwards(levels: Sequence[float]) -> list[tuple[float, float | None, int]]:
    """Each level with the neighbour that comes before it, and its side of that: middle first."""
    order = sorted(levels)
    middle = min(range(len(order)), key=lambda i: abs(order[i] - 0.5))
    above = [(order[i], order[i - 1], 1) for i in range(middle + 1, len(order))]
    below = [(order[i], order[i + 1], -1) for i in range(middle - 1, -1, -1)]
    return [(order[middle], None, 0), *above, *below]


def _check_intercept(levels: Sequence[float], options: dict[str, Any]) -> None:
    if len(levels) > 1 and not options.get("fit_intercept", True):
        raise InvalidInputError(
            "several quantiles need fit_intercept=True: without an intercept all of them meet at"
            " x = 0. Fit them one by one, or add the intercept."
        )


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
    crosses = side * (x @ free.coef + free.intercept - border) < 0
    weights = options.get("sample_weight")
    if weights is not None:
        crosses = crosses[torch.as_tensor(weights) > 0]
    if not bool(crosses.any()):
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
