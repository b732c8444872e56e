"""Every method on every problem, equal seconds for all: who is lowest, and who is there first.

    python -m benchmarks.methods --seconds 10 --seeds 1 --jobs 2

Seconds are those of one thread of the processor. Each rival may try three batch sizes and three
learning rates: all settings of all rivals run for a fifth of the time, the best three of them (two
of a family at most) for the full time, and the best counts.
Objectives are measured on the same 8,192 rows for all, and the loss of the clean rows among them.
Each finished problem is a JSON file in `--out`, and a rerun goes on with those that are missing;
the table (Markdown and CSV) and the curves (SVG) stand beside them. `--renew` runs `probed` and the
rivals again, these at the settings that did best with seed 0; so do further seeds.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed

from benchmarks.convergence import METHODS
from benchmarks.race import Finish, race
from benchmarks.rivals import FirstOrder, rivals_for
from benchmarks.standings import write_standings
from benchmarks.suite import Case, cases
from proxlin.errors import DataError

_OURS = ("probed",)
_TRIAL = 0.2  # of the time, in which every setting of a rival shows what it can
_FULL = 3  # settings that then get the full time, at most two of a family


def run_case(case: Case, seed: int, seconds: float, out: Path, rivals: str = "") -> str:
    """Race all methods on one problem and write what came out; returns a line about it."""
    torch.set_num_threads(1)
    try:
        problem, clean = case.build(seed)
    except DataError as error:
        return f"{case.name}: skipped, {error}"
    failures: dict[str, str] = {}

    def run(name: str, method: Any, time: float, notes: bool = True) -> Finish | None:
        try:
            return race(problem, method, time, seed, notes=notes)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
            return None
        finally:
            gc.collect()  # optimisers hold themselves, and a wide net's are large

    entrants = [(name, METHODS[name]) for name in _OURS]
    first, families = _file(out, case, 0), rivals_for(problem)
    best_settings = json.loads(first.read_text()).get("settings") if first.exists() else None
    if best_settings:
        entrants += [
            (name, method)
            for name, setting in best_settings.items()
            for method in families.get(name, [])
            if _setting(method) == setting
        ]
    else:
        entrants += _halved(
            {
                name: settings
                for name, settings in families.items()
                if not rivals or name in rivals.split(",")
            },
            lambda name, method: run(name, method, _TRIAL * seconds, False),
        )
    best: dict[str, tuple[Finish, str]] = {}
    for name, method in entrants:
        finish = run(name, method, seconds)
        if finish is not None and (name not in best or finish.objective < best[name][0].objective):
            best[name] = finish, _setting(method)
    runs = {name: asdict(found.drawn(problem, seed, clean)) for name, (found, _) in best.items()}
    record = {
        "problem": case.name,
        "autoencoder": case.autoencoder,
        "aside": case.aside,
        "parameters": problem.layout.size,
        "rows": problem.n_rows,
        "clean_share": None if clean is None else float(clean.float().mean()),
        "seed": seed,
        "seconds": seconds,
        "runs": runs,
        "settings": {name: setting for name, (_, setting) in best.items()},
        "failures": failures,
    }
    path = _file(out, case, seed)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(record))
    partial.replace(path)
    return f"{case.name}, seed {seed}: done"


def _halved(
    families: dict[str, list[Any]], run: Callable[[str, Any], Finish | None]
) -> list[tuple[str, Any]]:
    """The settings that get the full time: the best after a short trial, two of a family."""
    tried: list[tuple[float, str, Any]] = []
    for name, settings in families.items():
        found = [(run(name, method), method) for method in settings]
        reached = [
            (end.objective, name, method)
            for end, method in found
            if end is not None and math.isfinite(end.objective)
        ]
        tried += sorted(reached, key=lambda trial: trial[0])[:2]
    tried.sort(key=lambda trial: trial[0])
    return [(name, method) for _, name, method in tried[:_FULL]]


def _setting(method: Any) -> str:
    if not isinstance(method, FirstOrder):
        return ""
    return f"batch {method.batch_size}, rate {method.learning_rate:g}"


def _file(out: Path, case: Case, seed: int) -> Path:
    return out / "runs" / f"{case.name.replace(' ', '_')}_seed{seed}.json"


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, then write and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="parts of names of problems, with commas")
    parser.add_argument("--aside", action="store_true", help="those kept aside too")
    parser.add_argument("--rivals", default="", help="names, with commas; all if empty")
    parser.add_argument("--renew", action="store_true", help="run again what has run")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "methods")
    options = parser.parse_args(arguments)
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    missing = [
        (case, seed)
        for seed in range(options.seeds)
        for case in cases()
        if any(part in case.name for part in options.only.split(","))
        and (options.aside or not case.aside)
        and _file(options.out, case, seed).exists() is options.renew
    ]
    lines = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(run_case)(case, seed, options.seconds, options.out, options.rivals)
        for case, seed in missing
    )
    for line in lines:
        print(line, flush=True)
    write_standings(options.out)


if __name__ == "__main__":
    main()
