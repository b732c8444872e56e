"""Every method on every problem, equal seconds for all: who is lowest, and who is there first.

    python -m benchmarks.methods --seconds 10 --seeds 1 --jobs 2

Seconds are those of one thread of the processor. Each rival may try three learning rates, each with
the full time, and the best of them counts. Objectives are measured on the same 8,192 rows for all.
Each finished problem is a JSON file in `--out`, and a rerun goes on with those that are missing;
the table (Markdown and CSV) and the curves (SVG) stand beside them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed

from benchmarks.convergence import METHODS
from benchmarks.race import Finish, race
from benchmarks.rivals import rivals_for
from benchmarks.standings import write_standings
from benchmarks.suite import Case, cases
from proxlin.errors import DataError

_OURS = ("probed", "mbo-sadm")


def run_case(case: Case, seed: int, seconds: float, out: Path) -> str:
    """Race all methods on one problem and write what came out; returns a line about it."""
    torch.set_num_threads(1)
    try:
        problem = case.build(seed)
    except DataError as error:
        return f"{case.name}: skipped, {error}"
    entrants: dict[str, list[Any]] = {name: [METHODS[name]] for name in _OURS}
    entrants |= rivals_for(problem)
    runs: dict[str, dict[str, Any]] = {}
    failures: dict[str, str] = {}
    for name, settings in entrants.items():
        found: list[Finish] = []
        for method in settings:
            try:
                found.append(race(problem, method, seconds, seed))
            except Exception as error:
                failures[name] = f"{type(error).__name__}: {error}"
        if found:
            best = min(found, key=lambda finish: finish.objective)
            runs[name] = asdict(best.drawn(problem, seed))
    record = {
        "problem": case.name,
        "autoencoder": case.autoencoder,
        "parameters": problem.layout.size,
        "rows": problem.n_rows,
        "seed": seed,
        "seconds": seconds,
        "runs": runs,
        "failures": failures,
    }
    partial = _file(out, case, seed).with_suffix(".part")
    partial.write_text(json.dumps(record))
    partial.replace(_file(out, case, seed))
    return f"{case.name}, seed {seed}: done"


def _file(out: Path, case: Case, seed: int) -> Path:
    return out / "runs" / f"{case.name.replace(' ', '_')}_seed{seed}.json"


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, then write and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="a part of the names of the problems")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "methods")
    options = parser.parse_args(arguments)
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    missing = [
        (case, seed)
        for seed in range(options.seeds)
        for case in cases()
        if options.only in case.name and not _file(options.out, case, seed).exists()
    ]
    lines = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(run_case)(case, seed, options.seconds, options.out) for case, seed in missing
    )
    for line in lines:
        print(line, flush=True)
    write_standings(options.out)


if __name__ == "__main__":
    main()
