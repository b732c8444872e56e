"""How many starts of the paper's net end where nothing is predicted, with and without restarts.

    python -m benchmarks.collapse --starts 50 --steps 100

Each start draws the net's parameters, its 2,000 images and the method's batches from its own seed.
It has collapsed if its loss is within 5 % of the lowest that an output which is the same for every
image can have: zeros, or the median image. A start that began anew is run again without restarts;
the others would be the same runs. `--out` keeps every start; a rerun goes on from there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from proxlin import Problem, Ridge
from proxlin.data import load_dataset
from proxlin.methods import Probed
from proxlin.methods.contract import Budget
from proxlin.models import paper_autoencoder

_NEAR = 0.95  # of the loss of predicting nothing
_ROWS = 2_000
_MEASURED = 256  # of them
_KEYS = ["data", "p", "steps", "seed"]


def loss_of_nothing(problem: Problem, x: Tensor) -> float:
    """The lowest mean loss of outputs that are the same for every row, of zeros and medians."""
    rows = x.flatten(1)
    constants = (torch.zeros(1, rows.shape[1]), rows.median(0).values.unsqueeze(0))
    return min(float(problem.loss(constant - rows).mean()) for constant in constants)


def end_of(problem: Problem, method: Probed, steps: int, seed: int) -> tuple[float, int]:
    """The loss after so many steps, and how often the run began anew."""
    torch.set_flush_denormal(True)
    budget = Budget(None, steps)
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(seed))
    for _ in range(steps):
        method.step(problem, state, budget)
        budget.iteration += 1
    some = torch.arange(_MEASURED)
    return min(problem.data_term(t, some) for t in method.candidates(state)), state.restarts


def run_start(data: str, p: float, steps: int, seed: int) -> dict[str, Any]:
    """One start: what it reached with and without restarts, beside the loss of nothing."""
    x = load_dataset(data).x_train
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:_ROWS]]
    torch.manual_seed(seed)
    problem = Problem(paper_autoencoder(), x, p, regularizer=Ridge(1e-3))
    after, restarts = end_of(problem, Probed(), steps, seed)
    before = after
    if restarts:
        before, _ = end_of(problem, Probed(restarts=0), steps, seed)
    nothing = loss_of_nothing(problem, x[:_MEASURED])
    return {
        **dict(zip(_KEYS, (data, p, steps, seed), strict=True)),
        "restarts": restarts,
        "before": before,
        "after": after,
        "nothing": nothing,
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the starts that are missing and print how many collapsed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50, help="of each data set and p")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--data", default="mnist,fashion-mnist")
    parser.add_argument("--p", default="1,1.2")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/collapse.csv")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    wanted = [
        (data, float(p), options.steps, seed)
        for seed in range(options.starts)
        for data in options.data.split(",")
        for p in options.p.split(",")
    ]
    runs = pd.read_csv(options.out) if options.out.exists() else pd.DataFrame(columns=_KEYS)
    done = set(runs[_KEYS].itertuples(index=False, name=None))
    for start in wanted:
        if start not in done:
            row = pd.DataFrame([run_start(*start)])
            runs = row if runs.empty else pd.concat([runs, row])
            runs.to_csv(options.out, index=False)
    chosen = runs[runs[_KEYS].apply(tuple, axis=1).isin(set(wanted))]
    limit = _NEAR * chosen["nothing"]
    chosen = chosen.assign(
        **{f"collapsed {when}": chosen[when] >= limit for when in ("before", "after")},
        restarted=chosen["restarts"] > 0,
    )
    counts = chosen.groupby(["data", "p"]).agg(
        starts=("seed", "count"),
        **{name: (name, "sum") for name in ("collapsed before", "restarted", "collapsed after")},
        median=("after", "median"),
        worst=("after", "max"),
        nothing=("nothing", "median"),
    )
    print(counts.round(2).to_string())


if __name__ == "__main__":
    main()
