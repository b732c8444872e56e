"""What a checkpoint costs: bytes, the time training waits for it, and the time its thread takes.

python -m benchmarks.checkpoints
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.timing import best_of
from proxlin import Adam, Probed, Problem
from proxlin.methods import Method
from proxlin.methods.contract import Budget
from proxlin.models import mlp_autoencoder
from proxlin.run.checkpoint import serialize
from proxlin.run.checkpoint.folder import CheckpointFolder

_WIDTHS = {"1e3": (16, 24, 4), "1e5": (128, 256, 64), "1e6": (784, 512, 256)}
_METHODS: dict[str, Method] = {"adam": Adam(), "probed": Probed(batch_size=64)}
_ROWS = 4_096
_STEPS = 8  # before the state is kept, so that everything in it is filled


def _row(size: str, name: str, folder: Path, repeats: int) -> list[str]:
    torch.manual_seed(0)
    widths = _WIDTHS[size]
    problem = Problem(mlp_autoencoder(widths), torch.rand(_ROWS, widths[0]), p=1.0)
    method, budget = _METHODS[name], Budget(None, 1000)
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    for _ in range(_STEPS):
        method.step(problem, state, budget)
        budget.iteration += 1
    step = best_of(lambda: method.step(problem, state, budget), repeats)
    parts, shelf = serialize(state), CheckpointFolder(folder / f"{size}-{name}")
    copying = best_of(lambda: serialize(state), repeats)
    writing = best_of(lambda: shelf.write(1, parts, {}), repeats)
    reading = best_of(lambda: shelf.read(1), repeats)
    megabytes = sum(path.stat().st_size for path in shelf.folder.iterdir()) / 1e6
    times = (f"{1e3 * seconds:.1f}" for seconds in (copying, writing, reading, step))
    return [f"{problem.layout.size:,}", name, f"{megabytes:.1f}", *times, f"{copying / step:.2f}"]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=_WIDTHS, default=list(_WIDTHS))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    table = Table(title=f"One checkpoint, {_ROWS:,} rows; milliseconds, the best of some calls")
    for heading in ("parameters", "method", "MB", "copy", "write", "read", "step", "copy/step"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            for name in _METHODS:
                table.add_row(*_row(size, name, Path(folder), options.repeats))
    Console().print(table)


if __name__ == "__main__":
    main()
