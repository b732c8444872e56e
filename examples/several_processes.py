"""Train one net with two processes, and with one: the same call, the same course up to rounding.

    python examples/several_processes.py [folder for the picture]

Starts itself under torchrun. Every process works on its share of each batch, and whatever decides
something is summed first. PROXLIN_QUICK=1 makes it short.
"""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import nn

from proxlin import Problem, minimize

STEPS = 20 if os.environ.get("PROXLIN_QUICK") else 200


def train(to: Path) -> None:
    """What each process runs; the first one writes the course of the run."""
    torch.manual_seed(0)
    x = torch.randn(20_000, 20)
    y = torch.tanh(x @ torch.randn(20, 5))
    y[:4000] += 20 * torch.randn(4000, 5)
    net = nn.Sequential(nn.Linear(20, 64), nn.SiLU(), nn.Linear(64, 5))
    result = minimize(Problem(net, (x, y), p=1), max_iter=STEPS)
    if os.environ.get("RANK", "0") == "0":
        result.history.frame().to_csv(to, index=False)


def main(folder: Path) -> None:
    """Run with one and with two processes, print where both end, save the curves."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for processes in (1, 2):
        table = folder / f"course-{processes}.csv"
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        subprocess.run(
            [sys.executable, *launch, __file__, "--train", str(table)],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        course = pd.read_csv(table)
        print(f"{processes} process(es): objective {course['objective'].min():.5f}")
        style = "-" if processes == 1 else "--"
        axes.plot(course["iteration"], course["objective"], style, label=f"{processes} process(es)")
    axes.set(xlabel="step", ylabel="objective")
    axes.legend()
    figure.savefig(folder / "processes.png", dpi=110)


if __name__ == "__main__":
    if "--train" in sys.argv:
        train(Path(sys.argv[-1]))
    else:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
