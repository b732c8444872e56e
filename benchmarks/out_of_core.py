"""Training from a file of synthetic rows that is larger than the memory it may take.

python -m benchmarks.out_of_core --gigabytes 20 --seconds 120
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peak import peak_megabytes
from proxlin import Problem, Ridge, minimize
from proxlin.models import mlp_regressor
from proxlin.problem.rows import evenly_spread

_FEATURES, _TARGETS = 56, 8  # columns of the file, one after the other
_OUTLIERS = 0.1
_BLOCK = 2**18  # rows written at once


def write_rows(path: Path, gigabytes: float) -> int:
    """Fill the file with targets that follow a curve of the features, a tenth of them wrong."""
    width = _FEATURES + _TARGETS
    rows = max(1, int(gigabytes * 1e9) // (4 * width))
    generator = np.random.default_rng(0)
    weights = generator.standard_normal((_FEATURES, _TARGETS), np.float32) / _FEATURES**0.5
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, header)
        for first in range(0, rows, _BLOCK):
            count = min(_BLOCK, rows - first)
            block = generator.standard_normal((count, width), np.float32)
            wrong = generator.random((count, 1), np.float32) < _OUTLIERS
            curve = np.tanh(block[:, :_FEATURES] @ weights)
            noise = block[:, _FEATURES:]
            block[:, _FEATURES:] = curve + np.where(wrong, 10 * noise, 0.05 * noise)
            file.write(block.tobytes())
    return rows


def difference(module: nn.Module, row: Tensor) -> Tensor:
    """Module(features) - targets."""
    found: Tensor = module(row[:, :_FEATURES]) - row[:, _FEATURES:]
    return found


def train(path: str, seconds: float) -> None:
    """In a process of its own: print what came out and how much memory it took."""
    torch.manual_seed(0)
    net = mlp_regressor(_FEATURES, _TARGETS, hidden=(64,))
    problem = Problem(
        net, np.load(path, mmap_mode="r"), p=1.0, residual=difference, regularizer=Ridge(1e-4)
    )
    start = problem.objective(problem.theta(), evenly_spread(problem.n_rows, 4096))
    result = minimize(problem, max_seconds=seconds)
    told = {
        "gigabytes": Path(path).stat().st_size / 1e9,
        "rows": problem.n_rows,
        "steps": result.iterations,
        "seconds": result.seconds,
        "objective": result.objective,
        "start": start,
        "peak": peak_megabytes(),
    }
    print(json.dumps(told))


def main(arguments: list[str] | None = None) -> None:
    """Write the file, train, take the file away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--folder", type=Path, default=Path("."))
    options = parser.parse_args(arguments)
    free = shutil.disk_usage(options.folder).free / 1e9
    if options.gigabytes > 0.8 * free:
        sys.exit(f"{free:.0f} GB are free; ask for fewer --gigabytes than {0.8 * free:.0f}.")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="rows-") as folder:
        path = Path(folder, "rows.npy")
        write_rows(path, options.gigabytes)
        # A fresh process: its peak is that of training alone.
        context = multiprocessing.get_context("spawn")
        trainer = context.Process(target=train, args=(str(path), options.seconds))
        trainer.start()
        trainer.join()
    sys.exit(trainer.exitcode)


if __name__ == "__main__":
    main()
