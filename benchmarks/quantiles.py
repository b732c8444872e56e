"""Linear quantiles: `solve_linear(loss=Pinball(tau))` beside scikit-learn's QuantileRegressor.

    python -m benchmarks.quantiles              30 random tables, then 10,000 x 10
    python -m benchmarks.quantiles --large      3,000,000 x 20 in this process: seconds, memory, gap

Objectives are compared at scikit-learn's own answer; seconds are of one core, in one run.
"""

from __future__ import annotations

import argparse
import math
import resource
import time

import numpy as np
import torch
from sklearn.linear_model import QuantileRegressor

from proxlin import Lasso, Pinball
from proxlin.exact.linear import solve_linear, solve_quantiles


def table(rows: int, features: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise that grows with the first feature, a tenth of the targets wrong by tens."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=generator, dtype=torch.float64)
    noise = torch.randn(rows, generator=generator, dtype=torch.float64) * (0.3 + x[:, 0].abs())
    y = x.sum(1) + noise
    y[: rows // 10] += 30 * torch.randn(rows // 10, generator=generator, dtype=torch.float64)
    return x, y


def peer_objective(
    x: torch.Tensor, y: torch.Tensor, tau: float, alpha: float
) -> tuple[float, float]:
    """scikit-learn's objective and its seconds of the processor."""
    started = time.process_time()
    peer = QuantileRegressor(quantile=tau, alpha=alpha).fit(x.numpy(), y.numpy())
    seconds = time.process_time() - started
    residual = torch.from_numpy(peer.predict(x.numpy())) - y
    return float(Pinball(tau)(residual[:, None]).mean()) + alpha * np.abs(peer.coef_).sum(), seconds


def small(tables: int) -> None:
    """The largest relative difference of objectives over random tables, levels and strengths."""
    rng = np.random.default_rng(0)
    differences, gaps = [], []
    for seed in range(tables):
        rows, features = int(rng.integers(20, 600)), int(rng.integers(1, 16))
        tau, alpha = float(rng.uniform(0.02, 0.98)), (0.0, 0.003, 0.05)[seed % 3]
        x, y = table(rows, features, seed)
        ours = solve_linear(x, y, loss=Pinball(tau), regularizer=Lasso(alpha) if alpha else None)
        expected, _ = peer_objective(x, y, tau, alpha)
        differences.append((ours.objective - expected) / expected)
        gaps.append(math.nan if ours.certificate is None else ours.certificate.value)
    print(
        f"{tables} tables: objectives differ by {min(differences):.1e} to {max(differences):.1e},"
        f" largest gap {max(gaps):.1e}"
    )


def middle() -> None:
    """10,000 x 10: seconds of both."""
    x, y = table(10_000, 10, 0)
    solve_linear(x[:100], y[:100], loss=Pinball(0.9))  # the first call loads what it needs
    started = time.process_time()
    ours = solve_linear(x, y, loss=Pinball(0.9))
    seconds = time.process_time() - started
    expected, theirs = peer_objective(x, y, 0.9, 0.0)
    print(
        f"10,000 x 10, 0.9: {seconds:.3f} s here, {theirs:.2f} s there, {theirs / seconds:.0f}"
        f" times; objectives differ by {(ours.objective - expected) / expected:.1e}"
    )
    started = time.process_time()
    several = solve_quantiles(x, y, [0.1, 0.25, 0.5, 0.75, 0.9])
    fitted = torch.stack([(x @ fit.coef + fit.intercept)[:, 0] for fit in several], 1)
    print(
        f"five quantiles together: {time.process_time() - started:.3f} s, least distance of two"
        f" neighbours {float(fitted.diff(dim=1).min()):.1e}"
    )


def large() -> None:
    """3,000,000 x 20 in this process."""
    x, y = table(3_000_000, 20, 0)
    started, wall = time.process_time(), time.perf_counter()
    fit = solve_linear(x, y, loss=Pinball(0.9))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"3,000,000 x 20, 0.9: {time.process_time() - started:.0f} s of one core,"
        f" {time.perf_counter() - wall:.0f} s by the clock, {fit.iterations} Newton steps,"
        f" peak {peak:.2f} GB with the data, {fit.certificate}; {fit.status}"
    )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--tables", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.large:
        large()
    else:
        small(arguments.tables)
        middle()


if __name__ == "__main__":
    main()
