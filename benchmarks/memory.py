"""Peak memory of training nets of a million parameters with the default method, data apart.

python -m benchmarks.memory
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.peak import peak_megabytes
from benchmarks.timing import verdict
from proxlin import Problem, Ridge, minimize
from proxlin.models import mlp_autoencoder

_BAR = 2_000.0  # MB on top of the data
_ROWS = 4_096


def _mlp() -> tuple[nn.Module, Tensor]:
    return mlp_autoencoder((784, 512, 256)), torch.rand(_ROWS, 784)


def _conv() -> tuple[nn.Module, Tensor]:
    net = nn.Sequential(
        *(nn.Conv2d(1, 64, 4, 2, 1), nn.SiLU()),
        *(nn.Conv2d(64, 176, 4, 2, 1), nn.SiLU()),
        *(nn.Conv2d(176, 208, 3, 2, 1), nn.SiLU()),
        *(nn.ConvTranspose2d(208, 176, 3, 2, 1), nn.SiLU()),
        *(nn.ConvTranspose2d(176, 64, 4, 2, 1), nn.SiLU()),
        nn.ConvTranspose2d(64, 1, 4, 2, 1),
    )
    return net, torch.rand(_ROWS, 1, 28, 28)


NETS = {"mlp autoencoder": _mlp, "convolutional autoencoder": _conv}


def _measure(name: str, steps: int) -> None:
    """In a process of its own: parameters, and MB beyond what the data and imports took."""
    torch.manual_seed(0)
    net, x = NETS[name]()
    before = peak_megabytes()
    problem = Problem(net, x, p=1.0, regularizer=Ridge(1e-3))
    minimize(problem, max_seconds=None, max_iter=steps)
    print(problem.layout.size, peak_megabytes() - before)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--net", choices=NETS, help="measure one in this process")
    options = parser.parse_args(arguments)
    if options.net:
        _measure(options.net, options.steps)
        return
    table = Table(title=f"Peak memory of {options.steps} steps of probed, data apart")
    for heading in ("net", "parameters", "MB", "bar"):
        table.add_column(heading, justify="right")
    for name in NETS:
        command = [sys.executable, "-m", "benchmarks.memory", "--net", name]
        command += ["--steps", str(options.steps)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        parameters, megabytes = told.stdout.split()
        bar = verdict(float(megabytes), _BAR)
        table.add_row(name, f"{int(parameters):,}", f"{float(megabytes):.0f}", bar)
    Console().print(table)


if __name__ == "__main__":
    main()
