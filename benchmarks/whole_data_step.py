"""Seconds of the processor for a step of the default method on all rows, on three problems.

    python benchmarks/whole_data_step.py

Only public names are used, so that one script serves two checkouts (PYTHONPATH=.../src).
"""

from __future__ import annotations

import time
from itertools import pairwise

import torch
from torch import nn

from proxlin import Problem, minimize

PROBLEMS: dict[str, tuple[int, tuple[int, ...], float]] = {  # rows, widths of the layers, p
    "8-32-3 net, 2,000 rows, p = 1": (2000, (8, 32, 3), 1.0),
    "20-64-3 net, 2,000 rows, p = 1.5": (2000, (20, 64, 3), 1.5),
    "linear 50-2, 5,000 rows, p = 2": (5000, (50, 2), 2.0),
}
_FEW, _MANY = 5, 25  # steps of two runs, whose difference leaves out what is done once


def seconds(rows: int, widths: tuple[int, ...], p: float, steps: int) -> float:
    """Seconds of the processor for a run of so many steps."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, widths[0], generator=generator)
    y = torch.sin(x[:, : widths[-1]]) + 0.1 * torch.randn(rows, widths[-1], generator=generator)
    y[: rows // 5] += 10.0
    torch.manual_seed(0)
    layers = [m for a, b in pairwise(widths) for m in (nn.Linear(a, b), nn.Tanh())]
    problem = Problem(nn.Sequential(*layers[:-1]), (x, y), p=p)
    started = time.process_time()
    minimize(problem, max_iter=steps)
    return time.process_time() - started


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, (rows, widths, p) in PROBLEMS.items():
        seconds(rows, widths, p, 1)  # loads what a first run loads
        steps = sorted(
            seconds(rows, widths, p, _MANY) - seconds(rows, widths, p, _FEW) for _ in range(3)
        )
        print(f"{name}: {1e3 * steps[1] / (_MANY - _FEW):.1f} ms a step", flush=True)
