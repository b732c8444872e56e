"""`prox_norm` on 10,000 x 784 numbers, against one `torch.pow` over the same tensor.

The yardstick is |v| ** 1.5 for every row: torch has shortcuts for the powers 1, 2 and 3.
"""

from __future__ import annotations

import math
import os

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.timing import Work, best_of_each, threads, verdict
from proxlin.prox import dual_exponent, norm, norm_subgradient, prox_norm

ROWS, SIZE = 10_000, 784
EXPONENTS = (1.0, 1.3, 1.5, 2.0, 3.0, math.inf)
BARS = {1.3: 40.0, 1.5: 15.0}  # times torch.pow
RESIDUALS = {torch.float32: 1e-5, torch.float64: 1e-10}
FRACTIONS = (0.1, 0.5)  # of the step that makes a vector zero


def optimality_residual(v: Tensor, u: Tensor, *, p: float, step: Tensor) -> float:
    """max |v - u - step * d||u||_p| over max |v|: what is missing from the optimality condition."""
    v, u, t = v.double(), u.double(), step.double().unsqueeze(-1)
    y = v - u
    if p == 1:
        missing = torch.where(u == 0, (y.abs() - t).clamp(min=0), (y - t * u.sign()).abs())
    elif p == math.inf:
        # Only largest entries may differ from v, in their own direction, by step in all.
        largest = u.abs() == u.abs().amax(-1, keepdim=True)
        allowed = torch.where(largest, (y * u.sign()).clamp(min=0) * u.sign(), 0.0)
        in_all = (allowed.abs().sum(-1, keepdim=True) - t).abs() * _flatness(v)
        missing = torch.maximum((y - allowed).abs(), in_all)
    else:
        missing = (y - t * norm_subgradient(u, p=p)).abs()
    return float((missing.amax(-1) / v.abs().amax(-1)).max())


def _flatness(v: Tensor) -> Tensor:
    """||v||_inf / ||v||_1: turns an error of a sum into one of its largest term."""
    return v.abs().amax(-1, keepdim=True) / v.abs().sum(-1, keepdim=True)


def typical_step(v: Tensor, *, p: float, fraction: float) -> Tensor:
    """One step per vector: a fraction of ||v||_q, from where on the answer is 0."""
    return fraction * norm(v, p=dual_exponent(p))


def table(repeats: int = 7) -> Table:
    """Ratios with one thread and with all, residuals in both precisions."""
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(ROWS, SIZE, generator=generator)
    few = v[:500].double()
    cases = [(p, fraction) for p in EXPONENTS for fraction in FRACTIONS]
    steps = {case: typical_step(v, p=case[0], fraction=case[1]) for case in cases}
    counts = sorted({1, os.cpu_count() or 1})
    ratios = {count: _ratios(v, steps, count, repeats) for count in counts}

    result = Table(title=f"prox_norm, {ROWS:,} x {SIZE} float32: time over one torch.pow")
    for heading in ("p", "step/zero", *(f"{count} thread(s)" for count in counts), "bar"):
        result.add_column(heading, justify="right")
    for heading in ("residual 32", "residual 64"):
        result.add_column(heading, justify="right")
    for p, fraction in cases:
        cells = [f"{p:g}", f"{fraction:g}"]
        cells += [f"{ratios[count][p, fraction]:.2f}" for count in counts]
        cells.append(verdict(ratios[1][p, fraction], BARS.get(p)))
        for sample in (v, few):
            step = steps[p, fraction][: len(sample)].to(sample.dtype)
            u = prox_norm(sample, p=p, step=step)
            residual = optimality_residual(sample, u, p=p, step=step)
            cells.append(verdict(residual, RESIDUALS[sample.dtype], text=f"{residual:.1e}"))
        result.add_row(*cells)
    bars = ", ".join(f"{dtype} <= {bar:g}" for dtype, bar in RESIDUALS.items())
    result.caption = f"residual of the optimality condition: {bars}"
    return result


def _ratios(
    v: Tensor, steps: dict[tuple[float, float], Tensor], count: int, repeats: int
) -> dict[tuple[float, float], float]:
    magnitude = v.abs()
    yardstick = (math.nan, math.nan)
    works = {case: _work(v, case[0], step) for case, step in steps.items()}
    with threads(count):
        best = best_of_each({yardstick: lambda: magnitude**1.5, **works}, repeats)
    return {case: best[case] / best[yardstick] for case in steps}


def _work(v: Tensor, p: float, step: Tensor) -> Work:
    return lambda: prox_norm(v, p=p, step=step)


def main(_arguments: list[str] | None = None) -> None:
    """Print the table."""
    Console().print(table())


if __name__ == "__main__":
    main()
