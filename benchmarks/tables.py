"""Median test error on tables with corrupted training targets or features, ours against others.

    python -m benchmarks.tables --sets enb,jura --ratios 0,0.2,0.4 --corrupt targets
    python -m benchmarks.tables --sets rf1 --methods "ours linear,Huber" --label=-rf1
    python -m benchmarks.tables --sets jura --splits 12

The error is the mean over `--seeds` draws of training rows and corruption, from `--seed` on. Of a
table with no more training rows than `--rows` all are drawn every time: with `--splits` such tables
are split anew into training and test rows, so many times.
Rows are replaced by N(2.5, 1) in all targets (or all features), as in the paper's experiment; the
test rows stay clean. The error is the median of |prediction - target| over all test cells, targets
standardised. Everybody runs at one setting for all sets; single-target methods get one model for
each target. Written as CSV and Markdown to benchmarks/results/, with the command that makes the
table again; a label keeps it beside earlier ones.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import (
    HuberRegressor,
    LinearRegression,
    QuantileRegressor,
    RANSACRegressor,
    RidgeCV,
    TheilSenRegressor,
)
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor

from proxlin import RobustRegressor
from proxlin.data import DataSet, add_outliers, load_dataset
from proxlin.errors import DataError

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results"
OURS = ("ours linear", "ours net")


class Statsmodels(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A robust linear model of statsmodels for one target, as a scikit-learn regressor.

    "M" is RLM with Tukey's bisquare; "MM" has a deterministic high-breakdown start.
    """

    def __init__(self, kind: str = "M") -> None:
        self.kind = kind

    def fit(self, X: Array, y: Array) -> Statsmodels:
        """Iteratively reweighted least squares."""
        robust = import_module("statsmodels.robust")
        design = np.column_stack([np.ones(len(X)), X])
        if self.kind == "M":
            model = import_module("statsmodels.robust.robust_linear_model").RLM
            self.params_ = model(y, design, M=robust.norms.TukeyBiweight()).fit().params
        else:
            model = import_module("statsmodels.robust.resistant_linear_model").RLMDetSMM
            # Its start divides by a robust scale, which is 0 in columns of few values.
            spread = [1 + i for i in range(X.shape[1]) if _spreads(X[:, i])]
            self.params_ = model(y, design, col_indices=spread).fit().params
        return self

    def predict(self, X: Array) -> Array:
        """The linear prediction."""
        found: Array = self.params_[0] + X @ self.params_[1:]
        return found


def _spreads(column: Array) -> bool:
    scale = import_module("statsmodels.robust.scale")
    return bool(scale.mad(column) > 0 and scale.qn_scale(column) > 0)


def contestants() -> dict[str, Callable[[], Any]]:
    """Name -> a fresh regressor; ours by their defaults."""
    each = MultiOutputRegressor
    return {
        "ours linear": lambda: RobustRegressor(random_state=0),
        "ours net": lambda: RobustRegressor(hidden=(64, 64), random_state=0),
        "ours p=1 plain": lambda: RobustRegressor(p=1, reweight=False, regularizer=None),
        "Huber": lambda: each(HuberRegressor(max_iter=1000)),
        "Quantile": lambda: each(QuantileRegressor(quantile=0.5, alpha=0.0)),
        "TheilSen": lambda: each(TheilSenRegressor(max_subpopulation=500, random_state=0)),
        "RANSAC": lambda: each(RANSACRegressor(LinearRegression(), random_state=0)),
        "RLM": lambda: each(Statsmodels("M")),
        "MM": lambda: each(Statsmodels("MM")),
        "ridge": lambda: RidgeCV(np.logspace(-3, 3, 13)),
        "MLP": lambda: MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=500, random_state=0),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run, print and save the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="enb,jura,atp1d,rf1")
    parser.add_argument("--ratios", default="0,0.1,0.2,0.3,0.4")
    parser.add_argument("--corrupt", default="targets", choices=("targets", "features"))
    parser.add_argument("--methods", default="", help="names between commas; all by default")
    parser.add_argument("--rows", type=int, default=1000, help="training rows at most")
    parser.add_argument("--seed", type=int, default=1, help="of the first draw")
    parser.add_argument("--seeds", type=int, default=1, help="number of draws")
    parser.add_argument("--splits", type=int, default=0, help="number of draws of small tables")
    parser.add_argument("--label", default="", help="ending of the names of the files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    console = Console()
    chosen = contestants()
    names = options.methods.split(",") if options.methods else list(chosen)
    records: list[dict[str, Any]] = []
    for name in options.sets.split(","):
        try:
            data = load_dataset(name)
        except DataError as error:
            console.print(f"skipped {name}: {error}", highlight=False)
            continue
        small = options.splits > 0 and len(data.x_train) <= options.rows
        draws = options.splits if small else options.seeds
        for ratio in map(float, options.ratios.split(",")):
            for seed in range(options.seed, options.seed + draws):
                part = _split_anew(data, seed) if small else data
                x, y = _corrupted(part, ratio, seed, options)
                for method in names:
                    cell = {"set": name, "ratio": ratio, "seed": seed, "method": method}
                    records.append(cell | _run(chosen[method](), x, y, part))
                _save(records, options, console, last=f"{name} {ratio:g} seed {seed}")
    if records:
        console.print(_pivot(pd.DataFrame(records)).to_string(), highlight=False)


def _split_anew(data: DataSet, seed: int) -> DataSet:
    """As many other rows for training."""
    x, y = torch.cat([data.x_train, data.x_test]), torch.cat([data.y_train, data.y_test])
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(order, [len(data.x_train)])
    return replace(data, x_train=x[train], y_train=y[train], x_test=x[test], y_test=y[test])


def _corrupted(
    data: Any, ratio: float, seed: int, options: argparse.Namespace
) -> tuple[Array, Array]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(data.x_train), generator=generator)[: options.rows]
    x, y = data.x_train[rows], data.y_train[rows]
    if options.corrupt == "targets":
        y, _ = add_outliers(y, ratio, seed=seed)
    else:
        x, _ = add_outliers(x, ratio, seed=seed)
    return x.double().numpy(), y.double().numpy()


def _run(model: Any, x: Array, y: Array, data: Any) -> dict[str, Any]:
    before = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peers that stop early say so
            model.fit(x, y)
    except Exception as error:  # others' code: more features than rows, discrete columns, ...
        return {"error": np.nan, "seconds": np.nan, "note": str(error).split("\n", maxsplit=1)[0]}
    seconds = time.perf_counter() - before
    miss = np.abs(model.predict(data.x_test.double().numpy()) - data.y_test.double().numpy())
    return {"error": float(np.median(miss)), "seconds": seconds, "note": ""}


def _pivot(table: pd.DataFrame) -> pd.DataFrame:
    order = list(dict.fromkeys(table["method"]))
    wide = table.pivot_table(
        index=["set", "ratio"], columns="method", values="error", aggfunc="mean", dropna=False
    )
    return wide.reindex(columns=order).dropna(how="all").round(3)


def _failures(table: pd.DataFrame) -> list[str]:
    """Who failed how often, and with which words."""
    failed = table[table["note"] != ""].groupby(["method", "set"])["note"]
    return [
        f"- {method} on {name} failed {len(notes)} times: {notes.iloc[0]}"
        for (method, name), notes in failed
    ]


def _command(options: argparse.Namespace) -> str:
    """What makes the same table again: every option but the folder."""
    given = {name: value for name, value in vars(options).items() if name != "out" and value != ""}
    return " ".join(
        ["python -m benchmarks.tables", *(f"--{n}={_quoted(v)}" for n, v in given.items())]
    )


def _quoted(value: object) -> str:
    return f'"{value}"' if " " in str(value) else str(value)


def _save(
    records: list[dict[str, Any]], options: argparse.Namespace, console: Console, last: str
) -> None:
    """Write what there is after every cell, so that nothing is lost."""
    options.out.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(records)
    table.to_csv(options.out / f"tables-{options.corrupt}{options.label}.csv", index=False)
    wide = _pivot(table).reset_index()
    lines = ["| " + " | ".join(map(str, wide.columns)) + " |", "|" + " --- |" * len(wide.columns)]
    for row in wide.itertuples(index=False):
        best = min((v for v in row[2:] if not np.isnan(v)), default=np.nan)
        cells = [
            "–" if np.isnan(cell) else f"**{cell:.3f}**" if cell == best else f"{cell:.3f}"
            for cell in row[2:]
        ]
        lines.append("| " + " | ".join([str(row[0]), f"{row[1]:.0%}", *cells]) + " |")
    text = (
        f"Median absolute test error, {options.corrupt} of the training rows corrupted, at most"
        f" {options.rows} training rows, mean over {options.seeds} draws"
        + (f" (small tables: {options.splits} splits)" if options.splits else "")
        + f" from seed {options.seed}."
        f" `{_command(options)}`\n\n"
    )
    (options.out / f"tables-{options.corrupt}{options.label}.md").write_text(
        text + "\n".join([*lines, "", *_failures(table)]).rstrip() + "\n"
    )
    done = {
        r["method"]: f"{r['error']:.3f} ({r['seconds']:.1f} s)"
        for r in records[-len(set(table["method"])) :]
    }
    console.print(last, done, highlight=False)


if __name__ == "__main__":
    main()
