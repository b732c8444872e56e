"""Missing cells filled in tables with wrong ones: ours, medians, neighbours, ridge, SVD, NMF.

    python -m benchmarks.imputation            all tables and settings
    python -m benchmarks.imputation --quick    one table, 200 rows, few settings

Cells are hidden at random, others are replaced by errors; the error is the mean absolute one over
the hidden cells in standard deviations of their columns. Everybody keeps one setting. Runs are
saved one by one, and a call goes on where the last one ended; `--renew NAME` runs an imputer again.
Tables are those of scikit-learn and statsmodels, noise of which nothing can be known, and the
numbers in the files tables/*.csv.gz of the folder PROXLIN_DATA where that is set. Printed and
saved: table by table the error of each imputer over that of the medians.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.decomposition import NMF
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import BayesianRidge

from benchmarks.runs import Runs, markdown
from proxlin import RobustImputer

Matrix = NDArray[np.float64]
OURS = "RobustImputer"
RANK = 8
MISSING = (0.1, 0.3, 0.5)
WRONG = ((0.0, 0.0), (0.05, 10.0), (0.1, 1e3), (0.2, 10.0), (0.2, 1e6))
COLUMNS = ("table", "missing", "wrong", "size", "imputer", "error", "seconds")


def iterative_svd(x: Matrix) -> Matrix:
    """Fill by a truncated SVD of what was filled before, from medians on."""
    missing, rank = np.isnan(x), min(RANK, x.shape[1] // 2)
    filled = np.where(missing, np.nanmedian(x, axis=0), x)
    for _ in range(50):
        mean = filled.mean(axis=0)
        u, s, v = np.linalg.svd(filled - mean, full_matrices=False)
        filled = np.where(missing, (u[:, :rank] * s[:rank]) @ v[:rank] + mean, x)
    return filled


def iterative_nmf(x: Matrix) -> Matrix:
    """Fill by a non-negative factorisation of what was filled before, from medians on."""
    missing, least = np.isnan(x), np.nanmin(x, axis=0)
    filled = np.where(missing, np.nanmedian(x, axis=0), x)
    for _ in range(10):
        model = NMF(min(RANK, x.shape[1] // 2), init="nndsvda", max_iter=200)
        parts = model.fit_transform(filled - least)
        filled = np.where(missing, parts @ model.components_ + least, x)
    return filled


IMPUTERS: dict[str, Callable[[Matrix], Matrix]] = {
    OURS: lambda x: RobustImputer().fit_transform(x),
    "median": lambda x: np.where(np.isnan(x), np.nanmedian(x, axis=0), x),
    "neighbours": lambda x: _unscaled(x, lambda z: KNNImputer().fit_transform(z)),
    "chained ridge": lambda x: IterativeImputer(BayesianRidge(), max_iter=5).fit_transform(x),
    "iterative SVD": lambda x: _unscaled(x, iterative_svd),
    "iterative NMF": lambda x: _unscaled(x, iterative_nmf),
}


def _unscaled(x: Matrix, fill: Callable[[Matrix], Matrix]) -> Matrix:
    """What fills columns of unit standard deviation, in the units of x."""
    center, scale = np.nanmean(x, axis=0), np.maximum(np.nanstd(x, axis=0), 1e-9)
    filled: Matrix = fill((x - center) / scale) * scale + center
    return filled


def tables(rows: int) -> dict[str, Matrix]:
    """Columns of numbers that are not constant, the first so many rows."""
    rng = np.random.default_rng(0)
    found = {
        "digits": datasets.load_digits(return_X_y=True)[0],
        "breast cancer": datasets.load_breast_cancer(return_X_y=True)[0],
        "wine": datasets.load_wine(return_X_y=True)[0],
        "diabetes": datasets.load_diabetes(return_X_y=True)[0],
        "noise": rng.normal(size=(rows, 10)),
        "skewed noise": np.exp(rng.normal(size=(rows, 10))),
    }
    try:
        from statsmodels import datasets as stats  # noqa: PLC0415  an extra

        found["star98"] = stats.star98.load_pandas().data.to_numpy(np.float64)
        found["modechoice"] = stats.modechoice.load_pandas().data.to_numpy(np.float64)
        found["rand health"] = stats.randhie.load_pandas().data.to_numpy(np.float64)
    except ImportError:
        pass
    if "PROXLIN_DATA" in os.environ:
        for path in sorted((Path(os.environ["PROXLIN_DATA"]) / "tables").glob("*.csv.gz")):
            frame = pd.read_csv(path).select_dtypes("number").dropna()
            if frame.shape[1] >= 5:
                found[path.name.split(".")[0].split("-")[1]] = frame.to_numpy(np.float64)
    return {name: _usable(np.asarray(table), rows) for name, table in found.items()}


def _usable(table: Matrix, rows: int) -> Matrix:
    chosen = np.random.default_rng(0).permutation(len(table))[:rows]
    some = table[np.sort(chosen)]
    changing = np.array([len(np.unique(column)) > 4 for column in some.T])
    return some[:, changing]


def run(rows: int, names: list[str], missing: tuple[float, ...], runs: Runs) -> None:
    """One line for each table, setting and imputer; those that are saved are not run again."""
    for (name, clean), hidden_share, (wrong_share, size) in itertools.product(
        tables(rows).items(), missing, WRONG
    ):
        if names and name not in names:
            continue
        rng = np.random.default_rng(0)
        spread = np.maximum(clean.std(axis=0), 1e-9)
        bad = rng.random(clean.shape) < wrong_share
        dirty = np.where(bad, clean + size * spread * rng.random(clean.shape), clean)
        hidden = rng.random(clean.shape) < hidden_share
        x = np.where(hidden, np.nan, dirty)
        errors = {}
        for imputer, fill in IMPUTERS.items():
            setting = (name, hidden_share, wrong_share, size, imputer)
            if setting in runs:
                continue
            started = time.process_time()
            try:
                errors[imputer] = float((np.abs(fill(x) - clean) / spread)[hidden].mean())
            except (ValueError, np.linalg.LinAlgError) as error:
                print(imputer, error)
                errors[imputer] = float("nan")
            runs.add(*setting, errors[imputer], round(time.process_time() - started, 3))
        shown = {imputer: round(error, 3) for imputer, error in errors.items()}
        print(name, clean.shape, hidden_share, wrong_share, size, shown, flush=True)


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over the settings of error / error of the medians, by table and cleanness."""
    wide = runs.pivot_table(
        index=["table", "missing", "wrong", "size"], columns="imputer", values="error"
    )
    shares = wide.div(wide["median"], axis=0).apply(np.log).reset_index()
    shares["cells"] = np.where(shares["wrong"] > 0, "wrong cells", "clean")
    means = shares.groupby(["table", "cells"])[[name for name in IMPUTERS if name in wide]].mean()
    return means.apply(np.exp)


def verdict(runs: pd.DataFrame) -> str:
    """How often ours is within 5 % of the best, and how often worse than medians."""
    wide = runs.pivot_table(
        index=["table", "missing", "wrong", "size"], columns="imputer", values="error"
    )
    rivals = wide.drop(columns=OURS).min(axis=1)
    dirty = wide.index.get_level_values("wrong") > 0
    lines = []
    for label, some in (("wrong cells", dirty), ("clean", ~dirty)):
        ratio = wide[OURS][some] / rivals[some]
        against = wide[OURS][some] / wide["median"][some]
        lines.append(
            f"{label}: {len(ratio)} settings, best in {(ratio <= 1).sum()}, within 5 % in"
            f" {(ratio <= 1.05).sum()}, worst {ratio.max():.2f} times the best; worse than medians"
            f" in {(against > 1).sum()}, at most by {max(0.0, against.max() - 1):.1%}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--tables", nargs="*", default=[])
    parser.add_argument("--renew", nargs="*", default=[], help="imputers to run again")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    name = "imputation-quick.csv" if arguments.quick else "imputation.csv"
    runs = Runs(arguments.out / name, COLUMNS, key=5, renew=arguments.renew)
    if arguments.quick:
        run(200, arguments.tables or ["breast cancer"], (0.2,), runs)
    else:
        run(arguments.rows, arguments.tables, MISSING, runs)
    frame = summary(runs.frame())
    print(frame.round(3).to_string(), verdict(runs.frame()), sep="\n")
    print(runs.frame().groupby("imputer")["seconds"].mean().round(2).to_string())
    if not arguments.quick:
        table = frame.set_axis([", ".join(index) for index in frame.index])
        text = f"{verdict(runs.frame())}\n\n{markdown(table, 'error / error of the medians')}"
        (arguments.out / "imputation.md").write_text(text)


if __name__ == "__main__":
    main()
