"""What a step of the default method costs on wide nets, beside one of Adam at the same batch.

    python -m benchmarks.wide_steps

Seconds of one thread of the processor. The first steps check every prediction; what counts in the
long run are those after 50. Forty of them, two renewals of the curvature among them, are timed in
turn with Adam's.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from benchmarks.rivals import FirstOrder, adam
from benchmarks.suite import cases
from proxlin.methods import Probed
from proxlin.methods.contract import Budget
from proxlin.problem import Problem

PROBLEMS = (
    "wide mlp autoencoder p=2", "dense gelu autoencoder p=1", "wide relu autoencoder 2.7M p=1",
    "conv-dense-conv elu p=1.2",
)  # fmt: skip
_SETTLED = 50  # steps after which predictions are checked rarely
_TIMED = 40


def seconds_a_step(problem: Problem, method: Any, settled: int, steps: int) -> tuple[float, int]:
    """Seconds of a step, and the rows of its batch."""
    budget = Budget(None, 10_000)
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    for _ in range(2):
        method.step(problem, state, budget)
    if settled:
        state.steps = settled
    started = time.process_time()
    for _ in range(steps):
        method.step(problem, state, budget)
    rows = state.batch_size if isinstance(method, Probed) else method.batch_size
    return (time.process_time() - started) / steps, rows


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of names of problems, with commas")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    print("| problem | parameters | rows | probed, ms | Adam, ms | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for case in (case for case in cases() if case.name in PROBLEMS):
        if not any(part in case.name for part in options.only.split(",")):
            continue
        problem, _ = case.build(0)
        probed, rows = seconds_a_step(problem, Probed(), _SETTLED, _TIMED)
        other, _ = seconds_a_step(problem, FirstOrder(adam, 1e-3, rows), 0, _TIMED)
        print(
            f"| {case.name} | {problem.layout.size:,} | {rows} | {1e3 * probed:.1f}"
            f" | {1e3 * other:.1f} | {probed / other:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
