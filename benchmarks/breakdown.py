"""Error on clean rows over the size and the share of wrong rows: ours against others.

    python -m benchmarks.breakdown                  what is missing; tables and the picture
    python -m benchmarks.breakdown --anew proxlin   fit one method again

Planted tables: standard normal features and noise; the truth is linear (200 x 5, and 60 x 120 with
fewer rows than features) or, for nets, sums of sines (500 x 4). A share of the rows is wrong:
scattered (targets moved by size N(0, 1)), clustered (targets at size), or features (those of a row
at 10 + noise, its target off by size). Size varies at 30 % wrong rows, the share at size 1,000.
The error is the mean |prediction - truth| over 1,000 clean new rows, in standard deviations of the
noise, the median over seeds. Everybody runs by one setting for all tables. R's robustbase is run
through Rscript where there is one. Every fit is kept in benchmarks/results/breakdown.csv.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
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
from torch import nn

from benchmarks.robustbase import available, fit_in_r
from proxlin import RobustRegressor

Array = NDArray[np.float64]
Fit = Callable[[Array, Array], Callable[[Array], Array]]

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "breakdown.png"
RESULTS = Path(__file__).parent / "results"
IN_R = {"R MM": "KS2014", "R LTS": "LTS"}
SIZES = (1e0, 1e1, 1e2, 1e3, 1e6, 1e9, 1e12)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45)
SHARE, SIZE = 0.3, 1e3  # while the other varies
TABLES = {"linear": (200, 5), "few rows": (60, 120), "net": (500, 4)}
KINDS = ("scattered", "clustered", "features")
NOISE = 0.3  # of the tables for nets, whose truth has a deviation of about 1


@dataclass(frozen=True)
class Cell:
    """One corrupted table."""

    table: str
    kind: str
    share: float
    size: float
    seed: int

    def draw(self) -> tuple[Array, Array, Array, Array]:
        """Training features and targets, clean new features and their true targets."""
        generator = np.random.default_rng(self.seed)
        n, features = TABLES[self.table]
        coef = generator.normal(size=features)
        noise = NOISE if self.table == "net" else 1.0

        def truth(x: Array) -> Array:
            return (np.sin(2.0 * x) if self.table == "net" else x) @ coef

        x, new = generator.normal(size=(n, features)), generator.normal(size=(1000, features))
        y = truth(x) + noise * generator.normal(size=n)
        wrong = np.arange(n) < round(self.share * n)
        count = int(wrong.sum())
        if self.kind == "scattered":
            y[wrong] += noise * self.size * generator.normal(size=count)
        elif self.kind == "clustered":
            y[wrong] = noise * (self.size + generator.normal(size=count))
        else:
            x[wrong] = 10.0 + 0.5 * generator.normal(size=(count, features))
            y[wrong] = truth(x[wrong]) + noise * (self.size + generator.normal(size=count))
        return x, y / noise, new, truth(new) / noise


def cells(table: str, kind: str, seeds: int) -> list[Cell]:
    """Sizes at one share, then shares at one size."""
    pairs = [(SHARE, size) for size in SIZES] + [(share, SIZE) for share in SHARES]
    return [
        Cell(table, kind, *pair, seed) for pair in dict.fromkeys(pairs) for seed in range(seeds)
    ]


def _estimator(model: Callable[[], Any]) -> Fit:
    return lambda x, y: model().fit(x, y).predict


def _l1_net(x: Array, y: Array) -> Callable[[Array], Array]:
    """An MLP by Adam on mean |residual|: 300 rounds, batches of 64, targets scaled by quartiles."""
    low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
    scale = float(high - low) or 1.0
    inputs = torch.tensor(x, dtype=torch.float32)
    targets = torch.tensor((y - middle) / scale, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(x.shape[1], 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1)
    )
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(300):
        for rows in torch.split(torch.randperm(len(x), generator=generator), 64):
            adam.zero_grad()
            (net(inputs[rows])[:, 0] - targets[rows]).abs().mean().backward()
            adam.step()

    def predict(new: Array) -> Array:
        with torch.no_grad():
            scaled = net(torch.tensor(new, dtype=torch.float32))[:, 0].double().numpy()
        predicted: Array = scaled * scale + middle
        return predicted

    return predict


def contestants(table: str) -> dict[str, Fit]:
    """Name -> what fits; R's are run apart."""
    boosting = _estimator(partial(GradientBoostingRegressor, loss="absolute_error", random_state=0))
    if table == "net":
        net = partial(RobustRegressor, hidden=(64, 64), random_state=0)
        return {"proxlin": _estimator(net), "boosting ℓ1": boosting, "MLP ℓ1, Adam": _l1_net}
    return {
        "proxlin": _estimator(RobustRegressor),
        "Huber": _estimator(partial(HuberRegressor, max_iter=1000)),
        "quantile": _estimator(partial(QuantileRegressor, quantile=0.5, alpha=0.0)),
        "Theil–Sen": _estimator(partial(TheilSenRegressor, max_subpopulation=500, random_state=0)),
        "RANSAC": _estimator(partial(RANSACRegressor, random_state=0)),
        "ridge": _estimator(partial(RidgeCV, np.logspace(-3, 3, 13))),
        "boosting ℓ1": boosting,
        "MLP ℓ1, Adam": _l1_net,
    }


def missed(fit: Fit, cell: Cell) -> float:
    """The error of one fit; NaN where it fails: more features than rows, overflow, ..."""
    x, y, new, truth = cell.draw()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(np.abs(fit(x, y)(new) - truth).mean())
    except Exception:  # others' code
        return np.nan


def missed_in_r(group: list[Cell]) -> dict[tuple[Cell, str], float]:
    """The errors of R's fits, all tables in one process."""
    drawn = {f"{number:04d}": cell.draw() for number, cell in enumerate(group)}
    answers = fit_in_r({k: (x, y) for k, (x, y, _, _) in drawn.items()}, list(IN_R.values()))
    names = {method: name for name, method in IN_R.items()}
    errors = {}
    for (key, method), (values, _) in answers.items():
        _, _, new, truth = drawn[key]
        miss = float(np.abs(values[0] + new @ values[1:] - truth).mean())
        errors[group[int(key)], names[method]] = miss
    return errors


def medians(records: pd.DataFrame, table: str, kind: str) -> pd.DataFrame:
    """One row for each (share, size), one column for each method."""
    part = records[(records["table"] == table) & (records["kind"] == kind)]
    wide = part.pivot_table(
        index=["share", "size"], columns="method", values="error", aggfunc="median", dropna=False
    )
    order = [*contestants(table), *IN_R]
    return wide.reindex(columns=[name for name in order if name in wide]).dropna(how="all")


def draw(records: pd.DataFrame, path: Path) -> None:
    """Error over size and over share for wrong targets, over size for nets; ours in front."""
    from matplotlib import pyplot  # noqa: PLC0415

    linear = medians(records, "linear", "scattered")
    panels = [
        (linear.xs(SHARE, level="share"), "lines: size of the errors, 30 % of the targets wrong"),
        (linear.xs(SIZE, level="size"), "lines: share of wrong targets, errors of 1,000"),
    ]
    nets = medians(records, "net", "scattered")
    if len(nets):
        panels.append((nets.xs(SHARE, level="share"), "nets: size of the errors, 30 % wrong"))
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(4.5 * len(panels), 4.6), sharey=True, layout="constrained"
    )
    others = [*contestants("linear"), *IN_R][1:]
    palette = {name: f"C{number}" for number, name in enumerate(others)}
    for ax, (table, label) in zip(axes, panels, strict=True):
        for name in table.columns:
            ours = name == "proxlin"
            ax.plot(
                table.index, table[name].clip(upper=1e4), label=name, zorder=3 if ours else 2,
                linewidth=4.0 if ours else 1.3, color="black" if ours else palette[name],
            )  # fmt: skip
        ax.set_yscale("log")
        ax.set_ylim(0.05, 1e4)
        ax.set_xscale("log" if "size" in label else "linear")
        ax.set_xlabel(label)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("error on clean rows, in deviations of the noise")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Measure what is missing, print, save, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", default=",".join(TABLES), help="names between commas")
    parser.add_argument("--anew", default="", help="a method to fit again")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    path = options.out / "breakdown.csv"
    console = Console(width=160)
    columns = ["table", "kind", "share", "size", "seed", "method", "error"]
    kept = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=columns)
    kept = kept[(kept["method"] != options.anew) | ~kept["table"].isin(options.tables.split(","))]
    known = {
        (Cell(*row[:5]), row[5]): row[6] for row in kept[columns].itertuples(index=False, name=None)
    }
    if not available():
        console.print("Rscript was not found: R's robustbase is left out.")

    def save() -> pd.DataFrame:
        frame = pd.DataFrame(
            [(c.table, c.kind, c.share, c.size, c.seed, m, e) for (c, m), e in known.items()],
            columns=columns,
        )
        options.out.mkdir(exist_ok=True)
        frame.to_csv(path, index=False)
        return frame

    for table in options.tables.split(","):
        for kind in KINDS:
            group = cells(table, kind, 2 if table == "net" else options.seeds)
            for cell in group:
                for name, fit in contestants(table).items():
                    if (cell, name) not in known:
                        known[cell, name] = missed(fit, cell)
                save()
            left = [cell for cell in group if (cell, "R MM") not in known]
            if available() and table == "linear" and left:
                known |= missed_in_r(left)
            records = save()
            console.print(f"{table}, {kind}", highlight=False)
            console.print(medians(records, table, kind).round(3).to_string(), highlight=False)
    if options.out == RESULTS:
        draw(save(), PICTURE)
        console.print(f"drawn: {PICTURE}", highlight=False)


if __name__ == "__main__":
    main()
