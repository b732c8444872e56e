"""A plain loop over a DataLoader with `proxlin.optim.Probed` beside `minimize`, equal seconds.

    python -m benchmarks.training_loop --seconds 5 --seeds 2

Seconds are those of one thread of the processor. The loop has the batch size that `minimize` begins
with and as many steps as a first loop of the same time took; of its last and its averaged point the
better counts, as in `minimize`. Both are measured on the same 8,192 rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.race import race
from benchmarks.suite import Case, cases
from proxlin.methods import Probed
from proxlin.methods.probed.batch_size import fitting_batch_size
from proxlin.optim import Probed as ProbedOptimizer
from proxlin.problem import Problem
from proxlin.problem.rows import Batch, Shuffler

PROBLEMS = (
    "tanh mlp table p=1", "deep narrow tanh p=1", "large table 1e5 p=1", "sine net image p=1",
    "transformer series p=1",
)  # fmt: skip
_ROWS = 8_192


def batches(problem: Problem, seed: int) -> Iterator[Batch]:
    """Batches in rounds, as a shuffling DataLoader gives them."""
    generator = torch.Generator().manual_seed(seed)
    rows = Shuffler(problem.n_rows, fitting_batch_size(problem), generator)
    while True:
        yield problem.rows.take(rows.next())


def loop(
    problem: Problem, steps: int | None, seconds: float, seed: int
) -> tuple[list[Tensor], int]:
    """The points that a loop ends with, and its steps; it ends with the time, too."""
    module = problem.module
    optimizer = ProbedOptimizer(
        module.named_parameters(), float(problem.p), regularizer=problem.penalty.regularizer,
        total_steps=steps, seed=seed,
    )  # fmt: skip
    started, count = time.process_time(), 0
    for batch in batches(problem, seed):
        optimizer.step(lambda batch=batch: (module(batch[0]) - batch[1]).flatten(1))  # type: ignore[misc]
        count += 1
        if time.process_time() - started >= seconds or count == steps:
            break
    return [problem.theta(), problem.layout.join(optimizer.averaged())], count


def compare(case: Case, seconds: float, seed: int) -> tuple[float, float]:
    """The objectives of `minimize` and of the loop."""
    problem, _ = case.build(seed)
    start = problem.theta()
    rows = torch.randperm(problem.n_rows, generator=torch.Generator().manual_seed(1_000 + seed))
    reached = race(problem, Probed(), seconds, seed).objective
    _, steps = loop(problem, None, seconds, seed)
    problem.assign(start)
    points, _ = loop(problem, steps, seconds, seed)
    return reached, min(problem.objective(point, rows[:_ROWS]) for point in points)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    print("| problem | minimize | loop | loop / minimize, each seed |\n| --- | ---: | ---: | --- |")
    for case in (case for case in cases() if case.name in PROBLEMS):
        pairs = [compare(case, options.seconds, seed) for seed in range(options.seeds)]
        first, second = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
        ratios = ", ".join(f"{loop / whole:.3f}" for whole, loop in pairs)
        print(f"| {case.name} | {first:.5g} | {second:.5g} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
