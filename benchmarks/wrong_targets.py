"""The README's net on a table of which a fifth of the targets is wrong: ours against Adam.

    python -m benchmarks.wrong_targets                  five seeds, 10 s each: six minutes
    python -m benchmarks.wrong_targets --seeds 1 --seconds 3

2,000 x 20, three targets, a linear truth without noise; 400 targets off by 50 N(0, 1); a net of 64
SiLU units, p = 1, a ridge of 1e-4, the same start for all. The error is the mean |prediction -
truth| over 1,000 new rows. Adam takes torch's default averages and every rate and batch below, on
the same objective; its best is chosen by the error itself, which nobody could know. Seconds are
those of one thread of the processor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from proxlin import Problem, Ridge
from proxlin.methods import Probed
from proxlin.methods.contract import Budget
from proxlin.run.held_out import set_aside
from proxlin.run.method_run import MethodRun

RATES, BATCHES = (1e-3, 3e-3, 1e-2), (64, 256)
Error = Callable[[nn.Module], float]


def draw(seed: int) -> tuple[Problem, Error]:
    """The problem with a fresh net, and the error of a net on clean new rows."""
    torch.manual_seed(seed)
    x, new, coef = torch.randn(2000, 20), torch.randn(1000, 20), torch.randn(20, 3)
    y = x @ coef
    y[:400] += 50 * torch.randn(400, 3)
    net = nn.Sequential(nn.Linear(20, 64), nn.SiLU(), nn.Linear(64, 3))

    def error(module: nn.Module) -> float:
        with torch.no_grad():
            return float((module(new) - new @ coef).abs().mean())

    return Problem(net, (x, y), p=1, regularizer=Ridge(1e-4)), error


def ours(problem: Problem, seconds: float, held_out: float | None) -> None:
    """`minimize` on the clock of the processor."""
    judge = None
    if held_out is not None:
        problem, judge = set_aside(problem, held_out, 0, reweight=True)
    budget = Budget(seconds, None, clock=time.process_time)
    run = MethodRun(problem, Probed(), budget, None, (), held_out=judge)
    run.carry_out(torch.Generator().manual_seed(0), keep_start=False)


def adam(problem: Problem, seconds: float, rate: float, batch: int) -> None:
    """A plain loop over shuffled batches."""
    optimizer = torch.optim.Adam(problem.module.parameters(), rate)
    weights: list[Tensor] = list(problem.module.parameters())
    x, y = problem.rows.take(slice(0, problem.n_rows))
    generator = torch.Generator().manual_seed(0)
    started = time.process_time()
    while time.process_time() - started < seconds:
        for rows in torch.split(torch.randperm(len(x), generator=generator), batch):
            optimizer.zero_grad()
            loss = (problem.module(x[rows]) - y[rows]).abs().sum(1).mean()
            ridge = torch.stack([weight.square().sum() for weight in weights]).sum()
            (loss + 5e-5 * ridge).backward()
            optimizer.step()


def main(arguments: list[str] | None = None) -> None:
    """Train and print one line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    settings: dict[str, Callable[[Problem, float], None]] = {
        "minimize(held_out=0.1)": lambda problem, seconds: ours(problem, seconds, 0.1),
        "minimize, the plain norm": lambda problem, seconds: ours(problem, seconds, None),
    }
    for rate in RATES:
        for batch in BATCHES:
            settings[f"Adam, rate {rate:g}, batch {batch}"] = (
                lambda problem, seconds, rate=rate, batch=batch: adam(problem, seconds, rate, batch)  # type: ignore[misc]
            )
    print(f"error on clean new rows after {options.seconds:g} s, seeds 0 to {options.seeds - 1}")
    for name, train in settings.items():
        errors = []
        for seed in range(options.seeds):
            problem, error = draw(seed)
            train(problem, options.seconds)
            errors.append(error(problem.module))
        figures = " ".join(f"{value:.4f}" for value in errors)
        print(f"{name:28s} median {np.median(errors):.4f}   {figures}", flush=True)


if __name__ == "__main__":
    main()
