"""How the measured stationarity falls with the number of samples seen, beside what theory says.

    python -m benchmarks.sample_complexity --samples 12000

Three problems with n = 400 rows, small enough that the convex model at a point is solved to 1e-4 on
all rows: the stationarity is h ||theta - its minimiser|| with h = 1. Every row of a batch counts as
one sample, also those of a line search and of a check. A line is fitted to log(lowest stationarity
so far) over log(samples); its slope stands beside that of the theory.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from proxlin import MBO, SADM, SGD, Problem, Ridge, Subgradient
from proxlin.methods import Probed
from proxlin.methods.contract import Budget
from proxlin.problem.rows import TensorRows
from proxlin.run.minimize import sampled_stationarity

_ROWS = 400
_MARKS = 10  # points at which the stationarity is measured, evenly spaced in log samples
_FIRST = 400  # samples
# Stochastic model-based steps reach E[stationarity^2] = O(samples^-1/2) where F is smooth and the
# loss Lipschitz (Davis and Drusvyatskiy 2019), exact models on all rows O(steps^-1).
THEORY = {"mbo-sadm": "-1/4 to -1/2", "mbo-sgd": "-1/4", "sgd": "-1/4", "probed": "none known"}


class _Counted(TensorRows):
    """Rows that count how many of them were taken."""

    taken = 0

    def take(self, index: Tensor | slice) -> tuple[Tensor, ...]:
        batch = super().take(index)
        self.taken += len(batch[0])
        return batch


def _phase(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    found: Tensor = module(x).square() - y
    return found


def _table(seed: int) -> tuple[Tensor, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(_ROWS, 10, generator=generator), generator


def linear(seed: int) -> Problem:
    """l1 regression with a fifth of the targets wrong."""
    x, generator = _table(seed)
    y = x @ torch.randn(10, 2, generator=generator)
    y += 0.1 * torch.randn(y.shape, generator=generator)
    y[::5] += 10
    return Problem(nn.Linear(10, 2), (x, y), 1.0, regularizer=Ridge(1e-3))


def phase(seed: int) -> Problem:
    """(a . theta)^2 = b with a tenth of b wrong: weakly convex, no smooth part."""
    x, generator = _table(seed)
    y = (x @ torch.randn(10, 1, generator=generator)).square()
    y[::10] += 20
    net = nn.Linear(10, 1, bias=False)
    return Problem(net, (x, y), 1.0, residual=_phase, regularizer=Ridge(1e-3))


def tanh_net(seed: int) -> Problem:
    """A net of 8 units, p = 2, with a fifth of the targets wrong."""
    x, _ = _table(seed)
    y = torch.sin(x[:, :2])
    y[::5] += 5
    net = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 2))
    return Problem(net, (x, y), 2.0, regularizer=Ridge(1e-3))


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "linear l1": linear, "phase retrieval l1": phase, "tanh net l2": tanh_net,
}  # fmt: skip
METHODS: dict[str, Any] = {
    "mbo-sadm": MBO(solver=SADM(max_steps=50), decrease_rows=None),
    "mbo-sgd": MBO(solver=Subgradient(learning_rate=1e-2, max_steps=100), decrease_rows=None),
    "sgd": SGD(learning_rate=1e-2, batch_size=8, schedule="cosine"),
    "probed": Probed(batch_size=32),
}


def measure(problem: Problem, method: Any, samples: int, seed: int) -> list[dict[str, float]]:
    """The lowest stationarity so far at each mark."""
    counted = _Counted(problem.rows.tensors)  # type: ignore[attr-defined]
    problem.shards.rows = counted
    steps = _steps(method, samples)
    budget = Budget(None, steps)
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(seed))
    marks = list(np.geomspace(_FIRST, samples, _MARKS))
    records, best = [], math.inf
    counted.taken = 0
    while marks:
        method.step(problem, state, budget)
        budget.iteration += 1
        if counted.taken >= marks[0]:
            seen = counted.taken
            certificate = sampled_stationarity(problem, method.candidates(state)[0], _ROWS)
            counted.taken = seen
            best = min(best, math.inf if certificate is None else certificate.value)
            records.append({"samples": float(seen), "stationarity": best})
            marks = [mark for mark in marks if mark > seen]
    return records


def _steps(method: Any, samples: int) -> int:
    """About how many steps use up the samples, for schedules."""
    if isinstance(method, MBO):
        return 10**6
    return max(1, samples // int(method.batch_size))


def exponent(records: list[dict[str, float]]) -> float:
    """The slope of log(stationarity) over log(samples)."""
    pairs = [(r["samples"], r["stationarity"]) for r in records if 0 < r["stationarity"] < math.inf]
    if len({value for _, value in pairs}) < 2:
        return math.nan
    logs = np.log(np.array(pairs))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the exponents and write the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=12_000)
    parser.add_argument("--seeds", type=int, default=1)
    folder = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=folder / "sample-complexity.csv")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = []
    print("| problem | method | stationarity after | exponent | theory |")
    print("| --- | --- | ---: | ---: | ---: |")
    for name, build in PROBLEMS.items():
        for title, method in METHODS.items():
            slopes, ends = [], []
            for seed in range(options.seeds):
                torch.manual_seed(seed)
                records = measure(build(seed), method, options.samples, seed)
                rows += [{"problem": name, "method": title, "seed": seed, **r} for r in records]
                slopes.append(exponent(records))
                ends.append(records[-1]["stationarity"])
            mean_end, slope = sum(ends) / len(ends), sum(slopes) / len(slopes)
            print(
                f"| {name} | {title} | {mean_end:.3g} | {slope:.2f} | {THEORY[title]} |", flush=True
            )
            pd.DataFrame(rows).to_csv(options.out, index=False)


if __name__ == "__main__":
    main()
