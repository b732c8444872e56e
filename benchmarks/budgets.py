"""`minimize` by its defaults with budgets of 5 to 300 seconds, beside the rivals that did best.

    python -m benchmarks.budgets --seconds 5,20,60,300 --out benchmarks/results/budgets.csv

Seconds are those of one thread of the processor, for `minimize` with all its evaluations. A rival
is the best family of `benchmarks.methods` on that problem with its batch size, a plain loop without
evaluations, at the best of three rates around that of the record, for each budget anew (beyond 100
seconds the one that is best after a fifth of the time). Both are measured on the same 8,192 rows.
A rerun goes on with what is missing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from benchmarks.race import Finish, clean_loss, measured, race
from benchmarks.rivals import FirstOrder, rivals_for
from benchmarks.suite import Case, cases
from proxlin.methods import Probed
from proxlin.methods.contract import Budget
from proxlin.problem import Problem
from proxlin.run.method_run import MethodRun

PROBLEMS = (
    "conv-dense-conv elu p=1.2", "dense gelu autoencoder p=1", "tanh mlp table p=1",
    "transformer series p=1", "gru series p=1", "large table 1e5 p=1",
)  # fmt: skip
_RESULTS = Path(__file__).parent / "results"
_RATES = 1 / 3, 1.0, 3.0  # times that of the record
_LONG = 100.0  # seconds, beyond which one rate gets the full time
_TRIAL = 0.2  # of the time, in which every rate then shows what it can


def run_budget(case: Case, seconds: float, record: dict[str, Any]) -> dict[str, Any]:
    """Objectives and losses of clean rows of `minimize` and of the best rival at its best rate."""
    torch.set_num_threads(1)
    problem, clean = case.build(0)
    start = problem.theta()
    name, settings = _best_family(record, problem)
    best = _best_end(problem, settings, seconds)
    problem.assign(start)
    # What `minimize` does, by another clock.
    run = MethodRun(problem, Probed(), Budget(seconds, None, time.process_time), None, ())
    theta = run.carry_out(torch.Generator().manual_seed(0), keep_start=False).theta
    ours = measured(problem, theta, 0)
    row = {"problem": case.name, "seconds": seconds, "probed": ours, "rival": name}
    row |= {"rival's": best.objective, "ratio": ours / best.objective}
    if clean is not None:
        losses = [clean_loss(problem, point, clean, 0) for point in (theta, best.last)]
        row["clean rows"] = losses[0] / losses[1]
    return row


def _best_end(problem: Problem, settings: list[FirstOrder], seconds: float) -> Finish:
    def end(rival: FirstOrder, share: float = 1.0) -> Finish:
        return race(problem, rival, share * seconds, 0, notes=False)

    if seconds > _LONG:
        settings = [min(settings, key=lambda rival: end(rival, _TRIAL).objective)]
    return min((end(rival) for rival in settings), key=lambda found: found.objective)


def _best_family(record: dict[str, Any], problem: Problem) -> tuple[str, list[FirstOrder]]:
    """The rival that ended lowest in the race, with the rates to try."""
    rivals = {name: run for name, run in record["runs"].items() if name != "probed"}
    name = min(rivals, key=lambda rival: rivals[rival]["objective"])
    batch, rate = (part.split()[1] for part in record["settings"][name].split(", "))
    like = rivals_for(problem)[name][0]
    return name, [
        FirstOrder(like.make, factor * float(rate), int(batch), like.scheduled) for factor in _RATES
    ]


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", default="5,20,60,300")
    parser.add_argument("--only", default="", help="parts of names of problems, with commas")
    parser.add_argument("--races", type=Path, default=_RESULTS / "methods-nets")
    parser.add_argument("--out", type=Path, default=_RESULTS / "budgets.csv")
    options = parser.parse_args(arguments)
    kept = pd.read_csv(options.out).to_dict("records") if options.out.exists() else []
    rows: list[Any] = list(kept)
    done = {(row["problem"], row["seconds"]) for row in rows}
    named = {case.name: case for case in cases()}
    for seconds in map(float, options.seconds.split(",")):
        for name in PROBLEMS:
            wanted = any(part in name for part in options.only.split(","))
            if wanted and (name, seconds) not in done:
                path = options.races / "runs" / f"{name.replace(' ', '_')}_seed0.json"
                rows.append(run_budget(named[name], seconds, json.loads(path.read_text())))
                pd.DataFrame(rows).to_csv(options.out, index=False)
                print(rows[-1], flush=True)
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
