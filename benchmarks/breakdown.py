"""Error on clean rows over the size and the share of wrong rows: ours against others.

    python -m benchmarks.breakdown                  tables, and docs/images/breakdown.png
    python -m benchmarks.breakdown --quick          two seeds, few sizes, no picture

Planted linear tables: standard normal features, coefficients and noise. A share of the rows is
wrong: scattered (targets moved by +-size), clustered (targets at size), or bad leverage (features
at 10 + noise, targets off by size). The error is the mean |prediction - truth| over 1,000 clean new
rows, in standard deviations of the noise, the median over seeds. Everybody runs by one setting for
all tables. R's robustbase is run through Rscript where there is one.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import (
    HuberRegressor,
    QuantileRegressor,
    RANSACRegressor,
    RidgeCV,
    TheilSenRegressor,
)

from proxlin import RobustRegressor

Array = NDArray[np.float64]
Predictor = Callable[[Array], Array]

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "breakdown.png"
RESULTS = Path(__file__).parent / "results"
FIT_IN_R = Path(__file__).parent / "r" / "fit.R"
SIZES = (1e1, 1e2, 1e3, 1e5, 1e7, 1e9, 1e12)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45)


def planted(
    shape: tuple[int, int], share: float, kind: str, size: float, seed: int
) -> tuple[Array, Array, Array, Array]:
    """Training features and targets, clean new features and their true targets."""
    generator = np.random.default_rng(seed)
    n, features = shape
    coef = generator.normal(size=features)
    x, new = generator.normal(size=(n, features)), generator.normal(size=(1000, features))
    y = x @ coef + generator.normal(size=n)
    wrong = np.arange(n) < share * n
    count = int(wrong.sum())
    if kind == "scattered":
        y[wrong] += size * generator.normal(size=count)
    elif kind == "clustered":
        y[wrong] = size + generator.normal(size=count)
    else:
        x[wrong] = 10.0 + 0.5 * generator.normal(size=(count, features))
        y[wrong] = x[wrong] @ coef + size + generator.normal(size=count)
    return x, y, new, new @ coef


def in_scikit_learn(model: Any) -> Callable[[Array, Array], Predictor]:
    """Fit a model that has fit and predict."""
    return lambda x, y: model().fit(x, y).predict


def in_r(method: str) -> Callable[[Array, Array], Predictor]:
    """Fit in R's robustbase, in a process of its own."""

    def fit(x: Array, y: Array) -> Predictor:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.savetxt(folder / "table.csv", np.column_stack([x, y]), delimiter=",", fmt="%.17g")
            command = ["Rscript", FIT_IN_R, folder / "table.csv", folder / "answer.csv", method]
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
            line = (folder / "answer.csv").read_text().strip().split(",")
        values = np.array([np.nan if v == "NA" else float(v) for v in line[2:]])
        return lambda new: values[0] + new @ values[1:]

    return fit


def contestants() -> dict[str, Callable[[Array, Array], Predictor]]:
    """Name -> what fits; those of R only where Rscript is found."""
    methods = {
        "proxlin": in_scikit_learn(RobustRegressor),
        "Huber": in_scikit_learn(lambda: HuberRegressor(max_iter=1000)),
        "quantile": in_scikit_learn(lambda: QuantileRegressor(quantile=0.5, alpha=0.0)),
        "Theil–Sen": in_scikit_learn(
            lambda: TheilSenRegressor(max_subpopulation=500, random_state=0)
        ),
        "RANSAC": in_scikit_learn(lambda: RANSACRegressor(random_state=0)),
        "ridge": in_scikit_learn(lambda: RidgeCV(np.logspace(-3, 3, 13))),
        "boosting ℓ1": in_scikit_learn(
            lambda: GradientBoostingRegressor(loss="absolute_error", random_state=0)
        ),
    }
    if shutil.which("Rscript"):
        methods |= {"R MM": in_r("KS2014"), "R LTS": in_r("LTS")}
    return methods


def measure(
    shape: tuple[int, int], kind: str, cells: list[tuple[float, float]], seeds: int
) -> pd.DataFrame:
    """One row for each (share, size), one column for each method."""
    methods = contestants()
    records = []
    for share, size in cells:
        errors: dict[str, list[float]] = {name: [] for name in methods}
        for seed in range(seeds):
            x, y, new, truth = planted(shape, share, kind, size, seed)
            for name, fit in methods.items():
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        miss = float(np.abs(fit(x, y)(new) - truth).mean())
                except Exception:  # others' code: more features than rows, overflow, ...
                    miss = np.nan
                errors[name].append(miss)
        medians = {name: float(np.median(values)) for name, values in errors.items()}
        records.append({"share": share, "size": size, **medians})
    return pd.DataFrame(records)


def draw(over_size: pd.DataFrame, over_share: pd.DataFrame, path: Path) -> None:
    """Error over size at 30 %, and over share at one size; ours in front."""
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    for ax, table, column in ((axes[0], over_size, "size"), (axes[1], over_share, "share")):
        for name in table.columns[2:]:
            ours = name == "proxlin"
            ax.plot(
                table[column], table[name].clip(upper=1e4), label=name, zorder=3 if ours else 2,
                linewidth=3.0 if ours else 1.2, color="#c44e52" if ours else None,
            )  # fmt: skip
        ax.set_yscale("log")
        ax.grid(alpha=0.3)
    axes[0].set_xscale("log")
    axes[0].set_xlabel("size of the errors, 30 % of the rows clustered")
    axes[1].set_xlabel("share of wrong rows, errors of size 1,000 clustered")
    axes[0].set_ylabel("error on clean rows, in deviations of the noise")
    axes[1].legend(loc="upper left", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, save, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="two seeds, few sizes, no picture")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    seeds = 2 if options.quick else options.seeds
    sizes = SIZES[::3] if options.quick else SIZES
    console = Console(width=140)
    if not shutil.which("Rscript"):
        console.print("Rscript was not found: R's robustbase is left out.")
    tables: dict[str, pd.DataFrame] = {}
    for shape in ((200, 5), (60, 20), (60, 120)):
        for kind in ("scattered", "clustered", "leverage"):
            share = 0.3 if shape[0] > 5 * shape[1] else 0.2
            name = f"{shape[0]}x{shape[1]}-{kind}"
            cells = [(share, size) for size in sizes] + [(share, 1e3) for share in SHARES]
            tables[name] = measure(shape, kind, cells, seeds)
            console.print(f"{shape[0]} x {shape[1]}, {kind}", highlight=False)
            console.print(tables[name].round(3).to_string(index=False), highlight=False)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        whole = pd.concat(tables, names=["table"]).reset_index(level=0)
        whole.to_csv(RESULTS / "breakdown.csv", index=False)
        first = tables["200x5-clustered"]
        draw(first.iloc[: len(sizes)], first.iloc[len(sizes) :], PICTURE)
        console.print(f"drawn: {PICTURE}", highlight=False)


if __name__ == "__main__":
    main()
