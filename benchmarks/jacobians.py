"""Dense Jacobian rows: ours against vmap(jacrev), time and memory for each image."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.profiler import ProfilerActivity, profile

from benchmarks.timing import threads
from proxlin.linearize import linearize
from proxlin.models import conv_autoencoder, mlp_regressor, paper_autoencoder, paper_regressor
from proxlin.problem import Problem

BAR = 10.0  # times faster than vmap(jacrev) for each image of the paper's autoencoder


@dataclass(frozen=True)
class Case:
    """One module with inputs of one shape."""

    name: str
    network: nn.Module
    shape: tuple[int, ...]
    rows: int  # the batch of ours
    rows_of_theirs: int  # the batch of vmap(jacrev), which is slow


def cases() -> list[Case]:
    """The paper's nets first, then larger and strided ones."""
    strided = conv_autoencoder((1, 8, 8), kernel=4, stride=2)
    wide = conv_autoencoder((1, 16, 16))
    return [
        Case("paper autoencoder, 28 x 28", paper_autoencoder(), (1, 28, 28), 8, 2),
        Case("the same, 8 x 8 images", paper_autoencoder(), (1, 8, 8), 64, 16),
        Case("16 channels, 28 x 28", wide, (1, 28, 28), 4, 1),
        Case("strided, 30 x 30", strided, (1, 30, 30), 8, 2),
        Case("paper regressor, 280 features", paper_regressor(), (280,), 64, 64),
        Case("mlp 20-64-64-5", mlp_regressor(20, 5), (20,), 64, 64),
    ]


def theirs(network: nn.Module, x: Tensor) -> Tensor:
    """(B, N, d) by vmap(jacrev)."""
    parameters = {name: tensor.detach() for name, tensor in network.named_parameters()}

    def single(values: dict[str, Tensor], sample: Tensor) -> Tensor:
        output: Tensor = functional_call(network, values, (sample.unsqueeze(0),))
        return output.flatten()

    blocks: dict[str, Tensor] = vmap(jacrev(single), in_dims=(None, 0))(parameters, x)
    return torch.cat([blocks[name].flatten(2) for name in parameters], dim=2)


def seconds(work: Callable[[], object], budget: float) -> float:
    """The shortest of as many runs as fit the budget, three at least."""
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 3 or spent < budget:
        start = time.perf_counter()
        work()
        took = time.perf_counter() - start
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


def peak(work: Callable[[], object]) -> int:
    """The most bytes that tensors made by `work` hold at one time, its result among them."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    held = most = 0
    assert record.profiler is not None
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def table(count: int = 1, budget: float = 0.5) -> Table:
    """Milliseconds and mebibytes for each image on `count` threads, and the ratio of the times."""
    result = Table(title=f"Jacobian rows (float32), each image, {count} thread(s)")
    result.add_column("module")
    for column in ("N", "d", "jacrev ms", "ours ms", "ratio", "same memory ms"):
        result.add_column(column, justify="right")
    for column in ("jacrev MiB", "ours MiB", "rows MiB"):
        result.add_column(column, justify="right")
    torch.manual_seed(0)
    with threads(count):
        for case in cases():
            result.add_row(case.name, *_figures(case, budget))
    result.caption = f"bar for the paper's autoencoder: ratio >= {BAR:.0f}"
    return result


def _figures(case: Case, budget: float) -> list[str]:
    x = torch.rand(case.rows, *case.shape)
    few = x[: case.rows_of_theirs]
    with torch.no_grad():
        y = case.network(x)
    problem = Problem(case.network, (x, y))
    theta = problem.theta()

    def jacrevs() -> Tensor:
        return theirs(case.network, few)

    def ours(out: Tensor | None = None) -> Tensor:
        return linearize(problem, theta, (x, y)).rows(out)

    rows = ours()
    torch.testing.assert_close(rows[: len(few)], jacrevs(), rtol=1e-3, atol=1e-4)
    slow = 1e3 * seconds(jacrevs, budget) / len(few)
    fast = 1e3 * seconds(ours, budget) / len(x)
    again = 1e3 * seconds(lambda: ours(rows), budget) / len(x)
    sizes = (peak(jacrevs) / len(few), peak(ours) / len(x), rows[0].nbytes)
    return [
        *(f"{n:,}" for n in rows.shape[1:]),
        *(f"{ms:.2f}" for ms in (slow, fast)),
        f"{slow / fast:.1f}",
        f"{again:.2f}",
        *(f"{size / 2**20:.2f}" for size in sizes),
    ]


def main(_arguments: list[str] | None = None) -> None:
    """Print the table, on one thread and on all."""
    for count in sorted({1, torch.get_num_threads()}):
        Console().print(table(count))


if __name__ == "__main__":
    main()
