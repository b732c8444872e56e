"""The demonstration: complete digits from their upper half, with rubbish among the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from proxlin.data import add_outliers, load_dataset
from proxlin.loss import Exponent
from proxlin.minimize import Callback, minimize
from proxlin.models import mlp_regressor
from proxlin.problem import Problem
from proxlin.result import Result
from proxlin.terms import Ridge

LOSSES: dict[str, Exponent] = {"squared error": "mse", "l2 norm": 2.0, "l1 norm": 1.0}


@dataclass(frozen=True)
class DemoRow:
    """One trained net and how far its lower halves are from the true ones."""

    name: str
    result: Result
    clean_error: float  # mean |pixel error| on the training rows that are no outliers
    test_error: float  # the same on digits never seen, none of them an outlier
    completions: Tensor  # (k, 8, 8) of the first test digits
    outlier_recall: float  # share of the outliers among the rows that fit worst


@dataclass(frozen=True)
class Demo:
    """The whole demonstration: rows of the table and the images of the picture."""

    rows: list[DemoRow]
    ratio: float
    digits: Tensor  # (k, 8, 8) test digits
    outliers: Tensor  # (k, 8, 8) training digits whose lower half is an outlier


def run_demo(
    *,
    ratio: float = 0.2,
    seconds: float = 15.0,
    seed: int = 0,
    watch: Callable[[str], tuple[Callback, ...]] = lambda _name: (),
) -> Demo:
    """Train the same net with each loss; a share `ratio` of the lower halves are outliers.

    `watch(name)` gives the callbacks for the run called `name`.
    """
    data = load_dataset("digits")
    corrupted, mask = add_outliers(data.x_train, ratio, seed=seed)
    upper, lower = _halves(data.x_train)
    dirty = _halves(corrupted)[1]
    test_upper, test_lower = _halves(data.x_test)
    order = torch.randperm(len(upper), generator=torch.Generator().manual_seed(seed))
    held = len(order) // 10  # rows that choose each net's best moment, outliers among them
    shown = slice(0, 10)
    rows = []
    for name, p in LOSSES.items():
        torch.manual_seed(seed)
        net = mlp_regressor(32, 32, hidden=(64,))
        problem = Problem(net, (upper, dirty), p, regularizer=Ridge(1e-3))
        result = minimize(
            problem.restricted(order[held:]),
            max_seconds=seconds,
            seed=seed,
            callbacks=watch(name),
            held_out=problem.rows.take(order[:held]),
        )
        with torch.no_grad():
            found, clean = net(test_upper), net(upper[~mask])
        rows.append(
            DemoRow(
                name=name,
                result=result,
                clean_error=float((clean - lower[~mask]).abs().mean()),
                test_error=float((found - test_lower).abs().mean()),
                completions=_whole(test_upper[shown], found[shown]),
                outlier_recall=_recall(problem.row_losses(result.theta), mask),
            )
        )
    outliers = _whole(upper[mask][shown], dirty[mask][shown])
    return Demo(rows, ratio, data.x_test[shown, 0], outliers)


def _halves(images: Tensor) -> tuple[Tensor, Tensor]:
    return images[:, 0, :4].flatten(1), images[:, 0, 4:].flatten(1)


def _whole(upper: Tensor, lower: Tensor) -> Tensor:
    return torch.cat([upper.view(-1, 4, 8), lower.view(-1, 4, 8)], dim=1)


def _recall(losses: Tensor, mask: Tensor) -> float:
    worst = losses.topk(int(mask.sum())).indices
    return float(mask[worst].float().mean())


def draw(demo: Demo, path: Path) -> None:
    """Save a picture: training rows with outliers, test digits, and how each net completes them."""
    strips = [("rubbish among the\ntraining rows", demo.outliers), ("never seen", demo.digits)]
    strips += [(f"{row.name}\n{row.test_error:.2f} off", row.completions) for row in demo.rows]
    columns = demo.digits.shape[0]
    figure = Figure(figsize=(0.9 * columns + 1.8, 0.95 * len(strips) + 0.7), layout="constrained")
    axes = figure.subplots(len(strips), columns)
    for strip, (label, images) in zip(axes, strips, strict=True):
        for axis, image in zip(strip, images, strict=False):
            axis.imshow(image.numpy(), cmap="gray_r", vmin=0, vmax=1)
            axis.axhline(3.5, color="tab:orange", linewidth=1)
        for axis in strip:
            axis.set_xticks([])
            axis.set_yticks([])
        strip[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
    title = "Lower halves completed from upper halves"
    figure.suptitle(f"{title}; {demo.ratio:.0%} of the training answers are outliers", fontsize=11)
    figure.savefig(path, dpi=130)
