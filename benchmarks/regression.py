"""Linear regression with outliers: `solve_linear` against the robust regressors of other libraries.

    python -m benchmarks.regression [--quick]

10,000 rows x 10 features, a fifth of the targets far off: seconds, mean absolute residual over the
smallest of all, error of the coefficients. Then several targets at p = 2 against cvxpy, and a
million rows x 50 in a process of its own with its peak memory (left out with --quick).
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import cvxpy as cp
import numpy as np
import statsmodels.api as sm
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import (
    HuberRegressor,
    QuantileRegressor,
    RANSACRegressor,
    TheilSenRegressor,
)

from benchmarks.peak import peak_megabytes
from benchmarks.timing import best_of, verdict
from proxlin.exact.linear import solve_linear
from proxlin.prox import norm

Array = NDArray[np.float64]
Line = tuple[Array, float]  # coefficients and intercept

ROWS, FEATURES, OUTLIERS = 10_000, 10, 0.2
TARGETS, FEWER_ROWS = 5, 2_000
MANY_ROWS, MORE_FEATURES = 1_000_000, 50
BAR_SPEED, BAR_OBJECTIVE, BAR_GIGABYTES = 30.0, 1e-6, 4.0


def planted(n: int, m: int, t: int) -> tuple[Array, Array, Array]:
    """x, y and the coefficients behind them; the intercept is 1."""
    rng = np.random.default_rng(0)
    x, coef = rng.standard_normal((n, m)), rng.standard_normal((m, t))
    y = x @ coef + 1.0
    y += 0.5 * rng.standard_normal((n, t))
    far = int(OUTLIERS * n)
    y[:far] += 50.0 * rng.standard_normal((far, t))
    return x, y, coef


def _ours(x: Array, y: Array) -> Line:
    line = solve_linear(torch.from_numpy(x), torch.from_numpy(y), p=1)
    return line.coef[:, 0].numpy(), float(line.intercept)


def _theirs(model: object) -> Callable[[Array, Array], Line]:
    def fit(x: Array, y: Array) -> Line:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about iterations that were too few
            fitted = model.fit(x, y)  # type: ignore[attr-defined]
        line = getattr(fitted, "estimator_", fitted)
        return np.ravel(line.coef_), float(line.intercept_)

    return fit


def _statsmodels(x: Array, y: Array) -> Line:
    fitted = sm.RLM(y, sm.add_constant(x)).fit()
    return np.asarray(fitted.params[1:]), float(fitted.params[0])


PEERS: dict[str, tuple[Callable[[Array, Array], Line], int]] = {  # and how often they are timed
    "proxlin solve_linear, p = 1": (_ours, 5),
    "QuantileRegressor (highs)": (_theirs(QuantileRegressor(alpha=0, solver="highs")), 1),
    "HuberRegressor": (_theirs(HuberRegressor()), 3),
    "TheilSenRegressor": (_theirs(TheilSenRegressor(random_state=0)), 1),
    "RANSACRegressor": (_theirs(RANSACRegressor(random_state=0)), 3),
    "statsmodels RLM (Huber)": (_statsmodels, 3),
}


def one_target() -> Table:
    """All peers on one target."""
    x, y, coef = planted(ROWS, FEATURES, 1)
    seconds, lines = {}, {}
    for name, (fit, repeats) in PEERS.items():
        lines[name] = fit(x, y[:, 0])
        seconds[name] = best_of(lambda fit=fit: fit(x, y[:, 0]), repeats)  # type: ignore[misc]
    losses = {name: float(np.abs(x @ b + a - y[:, 0]).mean()) for name, (b, a) in lines.items()}
    ours, least = next(iter(PEERS)), min(losses.values())
    result = Table(title=f"{ROWS:,} x {FEATURES}, {OUTLIERS:.0%} of the targets far off")
    for heading in ("", "seconds", "over ours", "mean |r| over least - 1", "error of coefficients"):
        result.add_column(heading, justify="left" if not heading else "right")
    for name, (b, _) in lines.items():
        ratio, excess = seconds[name] / seconds[ours], losses[name] / least - 1.0
        shown = f"{ratio:.1f}"
        if name.startswith("Quantile"):
            shown = verdict(-ratio, -BAR_SPEED, text=shown)
        loss = verdict(excess, BAR_OBJECTIVE if name == ours else None, text=f"{excess:.1e}")
        error = float(np.linalg.norm(b - coef[:, 0]))
        result.add_row(name, f"{seconds[name]:.4f}", shown, loss, f"{error:.4f}")
    result.caption = (
        f"bars: QuantileRegressor >= {BAR_SPEED:g} x ours, our objective <= {BAR_OBJECTIVE:g} above"
    )
    return result


def several_targets() -> Table:
    """Euclidean rows of several targets against cvxpy's conic solver."""
    x, y, _ = planted(FEWER_ROWS, FEATURES, TARGETS)
    inputs = torch.from_numpy(x), torch.from_numpy(y)
    ours = solve_linear(*inputs, p=2)
    seconds = best_of(lambda: solve_linear(*inputs, p=2), 5)
    b, a = cp.Variable((FEATURES, TARGETS)), cp.Variable((1, TARGETS))
    residual = x @ b + np.ones((FEWER_ROWS, 1)) @ a - y
    rows = cp.norm(residual, 2, axis=1)  # type: ignore[attr-defined]
    problem = cp.Problem(cp.Minimize(cp.sum(rows) / FEWER_ROWS))  # type: ignore[attr-defined]
    start = time.perf_counter()
    problem.solve(solver=cp.CLARABEL)  # type: ignore[no-untyped-call]
    theirs = time.perf_counter() - start
    point = torch.from_numpy(b.value), torch.from_numpy(a.value)
    value = float(norm(inputs[0] @ point[0] + point[1] - inputs[1], p=2).mean())
    difference = abs(ours.objective / value - 1.0)
    result = Table(title=f"p = 2, {FEWER_ROWS:,} x {FEATURES}, {TARGETS} targets")
    for heading in ("", "seconds", "over ours", "objective", "gap"):
        result.add_column(heading, justify="left" if not heading else "right")
    gap = math.nan if ours.certificate is None else ours.certificate.value
    result.add_row("proxlin", f"{seconds:.4f}", "1.0", f"{ours.objective:.9f}", f"{gap:.1e}")
    result.add_row("cvxpy", f"{theirs:.4f}", f"{theirs / seconds:.1f}", f"{value:.9f}", "")
    text = verdict(difference, BAR_OBJECTIVE, text=f"{difference:.1e}")
    result.caption = f"relative difference of the objectives {text}, bar {BAR_OBJECTIVE:g}"
    return result


def measure_many_rows() -> dict[str, float | str]:
    """A million rows in this process: seconds, gap, peak memory in GB."""
    x, y, coef = planted(MANY_ROWS, MORE_FEATURES, 1)
    line = solve_linear(torch.from_numpy(x), torch.from_numpy(y), p=1)
    return {
        "seconds": line.seconds,
        "gap": math.nan if line.certificate is None else line.certificate.value,
        "steps": line.iterations,
        "status": line.status.name,
        "error": float(np.linalg.norm(line.coef.numpy() - coef)),
        "gigabytes": peak_megabytes() / 1e3,
    }


def many_rows() -> Table:
    """The same from a fresh process, so that the peak is its own."""
    code = (
        "import json; from benchmarks.regression import measure_many_rows as measure;"
        " print(json.dumps(measure()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    result = Table(title=f"p = 1, {MANY_ROWS:,} x {MORE_FEATURES}")
    for heading in ("seconds", "Newton steps", "gap", "status", "error of coefficients", "peak GB"):
        result.add_column(heading, justify="right")
    peak = float(found["gigabytes"])
    result.add_row(
        f"{found['seconds']:.1f}",
        f"{found['steps']}",
        f"{found['gap']:.1e}",
        found["status"],
        f"{found['error']:.4f}",
        verdict(peak, BAR_GIGABYTES, text=f"{peak:.2f}"),
    )
    result.caption = f"peak memory of the whole process, data and libraries; bar {BAR_GIGABYTES:g}"
    return result


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    console = Console(width=110)
    console.print(one_target())
    console.print(several_targets())
    if "--quick" not in (sys.argv[1:] if arguments is None else arguments):
        console.print(many_rows())


if __name__ == "__main__":
    main()
