"""Rows per second with several processes, what a step costs, and training from a file.

python -m benchmarks.scaling                     by 1, 2 and 4 processes; a file of 20 GB
python -m benchmarks.scaling --gigabytes 0       without the file
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.step_costs import NETS, RANKS, Costs, measure
from benchmarks.timing import verdict

_BAR = 1.7  # times the rows per second of one process, by two on cores of their own
_MEMORY_BAR = 3_000.0  # MB of a process that trains from a file
_READ_OUT = (64, 1024)
_MANY_ROWS = 10**9


def launch(ranks: int, *arguments: str, times: int = 1) -> list[dict[str, Any]]:
    """What rank 0 of a measurement in this module prints, so many measurements at once.

    One thread a process.
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [sys.executable, *torchrun, "-m", "benchmarks.scaling", *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(times)
    ]
    told = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit(f"{shlex.join(command)} failed.")
    return [json.loads(text.strip().split("\n")[-1]) for text in told]


@dataclass
class Measured:
    """What was found for one net, the fastest of several launches taken in turns."""

    costs: dict[int, Costs]  # by the number of processes
    apart: float  # steps a second of two processes that share nothing, added up

    @classmethod
    def of(cls, net: str, ranks: tuple[int, ...], steps: int, repeats: int) -> Measured:
        """Measure with each number of processes in turn."""
        work = ("--work", net, "--steps", str(steps))
        found = cls({}, 0.0)
        for _ in range(repeats):
            for count in ranks:
                costs = Costs(**launch(count, *work)[0])
                if count not in found.costs or costs.step < found.costs[count].step:
                    found.costs[count] = costs
            rates = [1 / told["step"] for told in launch(1, *work, times=2)]
            found.apart = max(found.apart, sum(rates))
        return found


@dataclass(frozen=True)
class Network:
    """What lies between the processes: those of a measurement, or of machines that are assumed."""

    hop: float  # seconds
    bandwidth: float  # bytes a second

    @classmethod
    def of(cls, costs: dict[int, Costs]) -> Network:
        """The slowest that was measured."""
        several = [cost for count, cost in costs.items() if count > 1]
        return cls(
            max((cost.latency_a_hop for cost in several), default=0.0),
            min((cost.bytes_a_second for cost in several), default=float("inf")),
        )


def speed_table(net: str, found: Measured) -> Table:
    """Rows per second, as measured and as the model of docs/scaling.md has it."""
    costs = found.costs
    one, here, cores = costs[1], Network.of(costs), len(os.sched_getaffinity(0))
    table = Table(title=f"{net}: {one.parameters:,} parameters, batches of {one.batch:,} rows")
    for heading in ("processes", "rows/s", "ratio", "bar", "model rows/s", "sums, ms a step"):
        table.add_column(heading, justify="right")
    for count, cost in sorted(costs.items()):
        ratio = one.step / cost.step
        table.add_row(
            str(count),
            f"{one.batch / cost.step:,.0f}",
            f"{ratio:.2f}",
            verdict(-ratio, -_BAR, text=f">= {_BAR}") if count == 2 else "",
            f"{one.batch / one.predicted(count, here.hop, here.bandwidth, cores):,.0f}",
            f"{1e3 * cost.sums:.2f}",
        )
    table.caption = (
        f"one row {1e6 * one.row:.1f} us, the rest of a step {1e3 * one.rest:.2f} ms,"
        f" {one.bytes / 1e6:.3f} MB summed a step, {1e6 * here.hop:.0f} us a hop,"
        f" {here.bandwidth / 1e6:,.0f} MB/s; two processes that share nothing make"
        f" {found.apart * one.step:.2f} times the steps of one"
    )
    return table


def read_out(costs: dict[str, Costs], network: Network) -> Table:
    """The model for many processes: batches of the same size, and such that grow with them."""
    table = Table(
        title=f"By the model, {1e6 * network.hop:.0f} us a hop, {network.bandwidth / 1e9:.2g} GB/s"
    )
    heads = ("net", "processes", "rows/s", "rows a grown batch", "rows/s", "1e9 rows, h", "ideal")
    for heading in heads:
        table.add_column(heading, justify="right")
    for net, one in costs.items():
        for count in _READ_OUT:
            many = one.grown(count)
            steps = [each.predicted(count, network.hop, network.bandwidth) for each in (one, many)]
            hours = _MANY_ROWS / many.batch * steps[1] / 3600
            ideal = one.row * _MANY_ROWS / count / 3600
            table.add_row(
                net,
                str(count),
                f"{one.batch / steps[0]:,.0f}",
                f"{many.batch:,}",
                f"{many.batch / steps[1]:,.0f}",
                f"{hours:.2f}",
                f"{ideal / hours:.0%}",
            )
    return table


def file_table(told: dict[str, float]) -> Table:
    """What training from a file took."""
    table = Table(title=f"Training from a file of {told['gigabytes']:.1f} GB")
    for heading in ("rows", "steps", "seconds", "objective", "at the start", "peak MB", "bar"):
        table.add_column(heading, justify="right")
    table.add_row(
        f"{told['rows']:,.0f}",
        f"{told['steps']:.0f}",
        f"{told['seconds']:.0f}",
        f"{told['objective']:.4g}",
        f"{told['start']:.4g}",
        f"{told['peak']:,.0f}",
        verdict(told["peak"], _MEMORY_BAR),
    )
    return table


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default=",".join(map(str, RANKS)))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--hop", type=float, default=30.0, help="microseconds, to read out")
    parser.add_argument("--bandwidth", type=float, default=1.2, help="GB a second, to read out")
    parser.add_argument(
        "--gigabytes",
        type=float,
        default=20.0,
        help="of the file, at most two fifths of the free disk; 0 for none",
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="of training from the file")
    parser.add_argument("--folder", type=Path, default=Path("."), help="where the file is put")
    parser.add_argument("--work", choices=NETS, help="measure one net in this process")
    options = parser.parse_args(arguments)
    if options.work:
        measure(options.work, options.steps)
        return
    ranks = tuple(int(text) for text in options.ranks.split(","))
    console = Console()
    found = {}
    for net in NETS:
        found[net] = Measured.of(net, ranks, options.steps, options.repeats)
        console.print(speed_table(net, found[net]))
    assumed = Network(1e-6 * options.hop, 1e9 * options.bandwidth)
    console.print(read_out({net: each.costs[1] for net, each in found.items()}, assumed))
    room = 0.4 * shutil.disk_usage(options.folder).free / 1e9
    if gigabytes := min(options.gigabytes, room):
        command = [sys.executable, "-m", "benchmarks.out_of_core", "--folder", str(options.folder)]
        command += ["--gigabytes", str(gigabytes), "--seconds", str(options.seconds)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        console.print(file_table(json.loads(told.stdout)))


if __name__ == "__main__":
    main()
