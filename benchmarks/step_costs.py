"""What one step of the default method costs a process, part by part."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor, nn

from proxlin import Probed, Problem, Ridge
from proxlin.methods.contract import Budget
from proxlin.methods.probed.batch_probe import HALVES
from proxlin.models import mlp_autoencoder, paper_autoencoder
from proxlin.problem.parallel import communicator

RANKS = (1, 2, 4)
_SMALL_SUMS = 2  # besides the large one: the mean residuals of the parts, and the clock
_ROWS = 16_384
_SETTLED = 60  # steps after which the curvature is renewed as rarely as it ever is
_FEW = 32  # a batch so many times smaller shows what a step costs apart from its rows
_LARGE = 2**20  # numbers of a sum that shows the bandwidth


def _images() -> Tensor:
    return torch.rand(_ROWS, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def _paper() -> tuple[nn.Module, Tensor, int]:
    return paper_autoencoder(), _images(), 512


def _mlp() -> tuple[nn.Module, Tensor, int]:
    return mlp_autoencoder((784, 128, 32)), _images().flatten(1), 8192


NETS: dict[str, Callable[[], tuple[nn.Module, Tensor, int]]] = {
    "convolutional autoencoder": _paper,
    "dense autoencoder": _mlp,
}


@dataclass(frozen=True)
class Costs:
    """Seconds and sizes of one step."""

    parameters: int
    batch: int  # rows of all processes together
    step: float  # seconds of a whole step
    row: float  # seconds of the processor for one row
    rest: float  # and for what every process does in a step, whatever its number of rows
    sums: float  # seconds of the sums of a step
    bytes: int  # that are summed in a step
    latency_a_hop: float  # seconds; a ring of R processes has 2 (R - 1) hops
    bytes_a_second: float  # of a large sum

    def predicted(
        self, ranks: int, latency: float, bandwidth: float, cores: int | None = None
    ) -> float:
        """Seconds of a step: T(R) = B c / R + s + 2 (R-1) k l + 2 (R-1)/R bytes / bandwidth.

        More processes than cores take turns: the work of a step then takes R / cores as long.
        """
        hops = 2 * (ranks - 1)
        sent = hops / ranks * self.bytes / bandwidth
        waits = (_SMALL_SUMS + 1) * hops * latency
        turns = max(1.0, ranks / (cores or ranks))
        return turns * (self.batch * self.row / ranks + self.rest) + waits + sent

    def grown(self, times: int) -> Costs:
        """The same with so many times the rows in a batch."""
        return replace(self, batch=self.batch * times)


def measure(net: str, steps: int) -> None:
    """Print the costs as rank 0 finds them; every process takes part."""
    torch.manual_seed(0)
    module, x, batch = NETS[net]()
    problem = Problem(module, x, p=1.0, regularizer=Ridge(1e-3))
    size, group = problem.layout.size, communicator()
    step, busy, numbers = _seconds_a_step(problem, batch, steps)
    row, rest = 0.0, 0.0
    if group.size == 1:
        few = batch // _FEW
        busy_with_few = _seconds_a_step(problem, few, steps)[1]
        row = max(0.0, busy - busy_with_few) / (batch - few)
        rest = max(0.0, busy_with_few - few * row)
    hops = 2 * (group.size - 1)
    small, large, wide = (_seconds_of_a_sum(problem, n) for n in (HALVES, numbers, _LARGE))
    found = Costs(
        parameters=size,
        batch=batch,
        step=step,
        row=row,
        rest=rest,
        sums=_SMALL_SUMS * small + large,
        bytes=4 * numbers,
        latency_a_hop=small / hops if hops else 0.0,
        bytes_a_second=hops / group.size * 4 * _LARGE / max(wide - small, 1e-9),
    )
    if group.leads:
        print(json.dumps(asdict(found)))


def _seconds_a_step(problem: Problem, batch: int, steps: int) -> tuple[float, float, int]:
    """Seconds, seconds of the processor, and numbers summed, for each step of a settled run."""
    method = Probed(batch_size=batch)
    budget = Budget(None, 10 * steps)
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    method.step(problem, state, budget)  # prepares
    state.steps = _SETTLED
    started, busy = time.perf_counter(), time.process_time()
    for _ in range(steps):
        method.step(problem, state, budget)
        budget.iteration += 1
    seconds, work = time.perf_counter() - started, time.process_time() - busy
    probing = 1 / (4 * method.renewal) if state.curvature.costly else 1.0  # share of the steps
    numbers = round(len(state.theta) * (1 + (HALVES + 1) * probing)) + 1
    return seconds / steps, work / steps, numbers


def _seconds_of_a_sum(problem: Problem, numbers: int, repeats: int = 30) -> float:
    group = problem.communicator
    tensor = torch.zeros(numbers)
    group.sum(tensor)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        group.sum(tensor)
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]
