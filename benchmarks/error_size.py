"""Error on clean rows over the size of wrong targets, for the regressor and for `minimize`.

    python -m benchmarks.error_size                     20 % wrong, five seeds: about ten minutes
    python -m benchmarks.error_size --share 0.4 --seeds 2 --rows "linear"

2,000 x 8, three targets. The truth is linear with noise 0.1 for the linear rows, and a sum of 16
tanh units with noise 0.05 for those of nets (8-32-3); a share of the rows is off by size N(0, 1)
in all targets. The error is the mean |prediction - truth| over 1,000 new rows, the mean over seeds;
the last columns are the largest over the first, of these means and of the worst seed. Seconds of
`minimize` are those of one thread of the processor.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.wrong_targets import ours
from proxlin import Problem, RobustRegressor

SIZES = (1e1, 1e3, 1e5, 1e9, 1e12)
Predict = Callable[[Tensor], Tensor]
Fit = Callable[[Tensor, Tensor, int], Predict]


def draw(
    seed: int, size: float, share: float, *, curved: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training rows, clean new features and their true targets."""
    generator = torch.Generator().manual_seed(seed)
    x, new = torch.randn(2000, 8, generator=generator), torch.randn(1000, 8, generator=generator)
    inner = torch.randn(8, 16, generator=generator) / 3
    outer = torch.randn(16, 3, generator=generator) / 4

    def truth(rows: Tensor) -> Tensor:
        return (torch.tanh(rows @ inner) if curved else rows @ inner) @ outer

    noise = 0.05 if curved else 0.1
    y = truth(x).double() + noise * torch.randn(2000, 3, generator=generator)
    wrong = round(share * 2000)
    y[:wrong] += size * torch.randn(wrong, 3, generator=generator).double()
    return x, y, new, truth(new)


def regressor(x: Tensor, y: Tensor, seed: int, **settings: Any) -> Predict:
    """The estimator with these settings."""
    model = RobustRegressor(random_state=seed, **settings).fit(x.numpy(), y.numpy())
    return lambda new: torch.from_numpy(np.asarray(model.predict(new.numpy())))


def minimized(x: Tensor, y: Tensor, seed: int, *, seconds: float) -> Predict:
    """The plain norm, p = 1, of a net."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    ours(Problem(net, (x, y.float()), p=1), seconds, None)
    return lambda new: net(new).detach()


def rows(seconds: float) -> dict[str, tuple[Fit, bool]]:
    """Name -> what fits, and whether the truth is curved."""
    plain: dict[str, Any] = {"reweight": False, "regularizer": None}
    return {
        "linear": (regressor, False),
        "linear, p = 1, plain": (partial(regressor, p=1, **plain), False),
        "linear, p = 2, plain": (partial(regressor, p=2, **plain), False),
        "linear, p = 1, reweight": (partial(regressor, p=1), False),
        "linear, p = 2, reweight": (partial(regressor, p=2), False),
        "net, hidden = (32,)": (partial(regressor, hidden=(32,)), True),
        f"minimize, {seconds:g} s": (partial(minimized, seconds=seconds), True),
    }


def errors(fit: Fit, curved: bool, share: float, seeds: int) -> NDArray[np.float64]:
    """(seeds, sizes)"""
    table = np.empty((seeds, len(SIZES)))
    for seed in range(seeds):
        for column, size in enumerate(SIZES):
            x, y, new, truth = draw(seed, size, share, curved=curved)
            table[seed, column] = float((fit(x, y, seed)(new) - truth).abs().mean())
    return table


def main(arguments: list[str] | None = None) -> None:
    """Fit and print one line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rows", default="", help="rows whose name begins so")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"{'':26s}" + "".join(f"{size:>9.0e}" for size in SIZES) + "  largest  worst seed")
    for name, (fit, curved) in rows(options.seconds).items():
        if not name.startswith(options.rows):
            continue
        table = errors(fit, curved, options.share, options.seeds)
        mean = table.mean(axis=0)
        worst = float((table.max(axis=1) / table[:, 0]).max())
        figures = "".join(f"{value:9.4f}" for value in mean)
        print(f"{name:26s}{figures}{mean.max() / mean[0]:9.2f}{worst:12.2f}", flush=True)


if __name__ == "__main__":
    main()
