"""Complete digits from their upper half, with rubbish among the answers, by each loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from proxlin.data import add_outliers, load_dataset
from proxlin.methods.contract import Status
from proxlin.models import mlp_regressor
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent
from proxlin.run.minimize import minimize
from proxlin.run.result import Callback, Result
from proxlin.terms import Ridge

LOSSES: dict[str, Exponent] = {"squared error": "mse", "l2 norm": 2.0, "l1 norm": 1.0}
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)

_SHOWN = 8  # digits of each picture

Watch = Callable[[str], tuple[Callback, ...]]  # name of a run -> its callbacks


def _nobody(_name: str) -> tuple[Callback, ...]:
    return ()


@dataclass(frozen=True, eq=False)
class DemoRow:
    """One trained net and how far its lower halves are from the true ones."""

    name: str
    result: Result
    clean_error: float  # mean |pixel error| on the training rows that are no outliers
    test_error: float  # the same on digits never seen, none of them an outlier
    completions: Tensor  # (k, 8, 8) of the first test digits
    losses: Tensor  # (n,) of the training rows, in the loss the net was trained with
    outlier_recall: float  # share of the outliers among the rows that fit worst
    worst: Tensor  # (k, 8, 8) training digits that fit worst


@dataclass(frozen=True, eq=False)
class Demo:
    """The demonstration at one share of outliers: what was trained, and the images of it."""

    rows: list[DemoRow]
    ratio: float
    seed: int
    digits: Tensor  # (k, 8, 8) test digits
    outliers: Tensor  # (k, 8, 8) training digits whose lower half is an outlier
    mask: Tensor  # (n,) which training rows are outliers


@dataclass(frozen=True)
class SharePoint:
    """The test error of one loss at one share of outliers."""

    name: str
    ratio: float
    test_error: float


@dataclass(frozen=True, eq=False)
class _Halves:
    """Upper halves and what follows below them; some training answers are outliers."""

    upper: Tensor  # (n, 32)
    lower: Tensor  # (n, 32) as they are
    dirty: Tensor  # (n, 32) as training sees them
    mask: Tensor
    test_upper: Tensor
    test_lower: Tensor


def run_demo(
    *, ratio: float = 0.2, seconds: float = 10.0, seed: int = 0, watch: Watch = _nobody
) -> Demo:
    """Train the same net with each loss; a share `ratio` of the lower halves are outliers.

    `watch(name)` gives the callbacks for the run called `name`.
    """
    data = _halves(ratio, seed)
    rows = []
    for name, p in LOSSES.items():
        problem, result = _train(data, p, seconds, seed, watch(name))
        losses = problem.row_losses(result.theta).detach()
        with torch.no_grad():
            completed, clean = (
                problem.module(x) for x in (data.test_upper, data.upper[~data.mask])
            )
        order = losses.argsort(descending=True)
        rows.append(
            DemoRow(
                name=name,
                result=result,
                clean_error=float((clean - data.lower[~data.mask]).abs().mean()),
                test_error=float((completed - data.test_lower).abs().mean()),
                completions=_whole(data.test_upper[:_SHOWN], completed[:_SHOWN]),
                losses=losses,
                outlier_recall=float(data.mask[order[: int(data.mask.sum())]].float().mean()),
                worst=_whole(data.upper[order[:_SHOWN]], data.dirty[order[:_SHOWN]]),
            )
        )
    return Demo(
        rows,
        ratio,
        seed,
        _whole(data.test_upper[:_SHOWN], data.test_lower[:_SHOWN]),
        _whole(data.upper[data.mask][:_SHOWN], data.dirty[data.mask][:_SHOWN]),
        data.mask,
    )


def known_points(demo: Demo) -> list[SharePoint]:
    """What the demonstration itself says about its share of outliers."""
    return [SharePoint(row.name, demo.ratio, row.test_error) for row in demo.rows]


def trace_shares(
    shares: Sequence[float] = SHARES,
    *,
    seconds: float = 2.5,
    seed: int = 0,
    watch: Watch = _nobody,
) -> list[SharePoint]:
    """The test error of each loss at each share of outliers, with `seconds` for each net."""
    points = []
    for ratio in shares:
        data = _halves(ratio, seed)
        for name, p in LOSSES.items():
            problem, _ = _train(data, p, seconds, seed, watch(f"{name}, {ratio:.0%}"))
            with torch.no_grad():
                completed = problem.module(data.test_upper)
            points.append(
                SharePoint(name, ratio, float((completed - data.test_lower).abs().mean()))
            )
    return points


def _train(
    data: _Halves, p: Exponent, seconds: float, seed: int, callbacks: tuple[Callback, ...]
) -> tuple[Problem, Result]:
    """The problem on all training rows, its module trained, and how that went."""
    order = torch.randperm(len(data.upper), generator=torch.Generator().manual_seed(seed))
    held = len(order) // 10  # rows that choose each net's best moment, outliers among them
    problem = Problem(_fresh_net(seed), (data.upper, data.dirty), p, regularizer=Ridge(1e-3))
    result = minimize(
        problem.restricted(order[held:]),
        max_seconds=seconds,
        seed=seed,
        callbacks=callbacks,
        held_out=problem.rows.take(order[:held]),
    )
    if result.status is Status.INTERRUPTED:  # half a comparison shows nothing
        raise KeyboardInterrupt
    return problem, result


def _fresh_net(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return mlp_regressor(32, 32, hidden=(64,))


def _halves(ratio: float, seed: int) -> _Halves:
    data = load_dataset("digits")
    corrupted, mask = add_outliers(data.x_train, ratio, seed=seed)
    upper, lower = _split(data.x_train)
    return _Halves(upper, lower, _split(corrupted)[1], mask, *_split(data.x_test))


def _split(images: Tensor) -> tuple[Tensor, Tensor]:
    return images[:, 0, :4].flatten(1), images[:, 0, 4:].flatten(1)


def _whole(upper: Tensor, lower: Tensor) -> Tensor:
    return torch.cat([upper.view(-1, 4, 8), lower.view(-1, 4, 8)], dim=1)
