"""Missing cells filled in tables with wrong ones: ours, medians, neighbours, ridge, SVD, NMF.

    python -m benchmarks.imputation            digits and a medical table, all settings
    python -m benchmarks.imputation --quick    200 rows, few settings

Cells are hidden at random, others are replaced by errors; the error is the mean absolute one over
the hidden cells in robust standard deviations of their columns. Everybody keeps one setting.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import NMF
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import BayesianRidge

from proxlin import RobustFactorization, RobustOutlierDetector

Matrix = NDArray[np.float64]
RANK = 8


def iterative_svd(x: Matrix) -> Matrix:
    """Fill by a truncated SVD of what was filled before, from medians on."""
    missing = np.isnan(x)
    filled = np.where(missing, np.nanmedian(x, axis=0), x)
    for _ in range(50):
        mean = filled.mean(axis=0)
        u, s, v = np.linalg.svd(filled - mean, full_matrices=False)
        filled = np.where(missing, (u[:, :RANK] * s[:RANK]) @ v[:RANK] + mean, x)
    return filled


def iterative_nmf(x: Matrix) -> Matrix:
    """Fill by a non-negative factorisation of what was filled before, from medians on."""
    missing, least = np.isnan(x), np.nanmin(x)
    filled = np.where(missing, np.nanmedian(x, axis=0), x)
    for _ in range(10):
        model = NMF(RANK, init="nndsvda", max_iter=200)
        parts = model.fit_transform(filled - least)
        filled = np.where(missing, parts @ model.components_ + least, x)
    return filled


IMPUTERS: dict[str, Callable[[Matrix], Matrix]] = {
    "RobustFactorization": lambda x: RobustFactorization(RANK, random_state=0).fit(x).impute(x),
    "RobustOutlierDetector": lambda x: np.where(
        np.isnan(x), RobustOutlierDetector().fit(x).expected(x), x
    ),
    "median": lambda x: np.where(np.isnan(x), np.nanmedian(x, axis=0), x),
    "neighbours": lambda x: KNNImputer().fit_transform(x),
    "chained ridge": lambda x: IterativeImputer(BayesianRidge(), max_iter=5).fit_transform(x),
    "iterative SVD": iterative_svd,
    "iterative NMF": iterative_nmf,
}


def tables(rows: int) -> dict[str, Matrix]:
    """Digits without empty columns, and the breast cancer table."""
    digits = load_digits(return_X_y=True)[0]
    digits = digits[:, digits.std(axis=0) > 1]
    return {"digits": digits[:rows], "medical": load_breast_cancer(return_X_y=True)[0][:rows]}


def run(rows: int, missing: list[float], wrong: list[float], sizes: list[float]) -> pd.DataFrame:
    """One line for each table, setting and imputer."""
    lines = []
    for (name, clean), hidden_share, wrong_share, size in itertools.product(
        tables(rows).items(), missing, wrong, sizes
    ):
        if not wrong_share and size != sizes[0]:
            continue
        rng = np.random.default_rng(0)
        spread = np.maximum(clean.std(axis=0), 1e-9)
        bad = rng.random(clean.shape) < wrong_share
        dirty = np.where(bad, clean + size * spread * rng.random(clean.shape), clean)
        hidden = rng.random(clean.shape) < hidden_share
        hidden[:, np.isnan(np.where(hidden, np.nan, clean)).all(axis=0)] = False
        x = np.where(hidden, np.nan, dirty)
        for imputer, fill in IMPUTERS.items():
            started = time.process_time()
            try:
                error = float((np.abs(fill(x) - clean) / spread)[hidden].mean())
            except (ValueError, np.linalg.LinAlgError):
                error = float("nan")
            seconds = time.process_time() - started
            setting = (name, hidden_share, wrong_share, size if wrong_share else 0.0)
            lines.append((*setting, imputer, error, seconds))
        print(*lines[-1][:4], {line[4]: round(line[5], 3) for line in lines[-len(IMPUTERS) :]})
    columns = ["table", "missing", "wrong", "size", "imputer", "error", "seconds"]
    return pd.DataFrame(lines, columns=columns)


def main() -> None:
    """Run, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    if arguments.quick:
        runs = run(200, [0.2], [0.0, 0.1], [10.0, 1e6])
    else:
        runs = run(600, [0.1, 0.3, 0.5], [0.0, 0.05, 0.2], [10.0, 1e3, 1e6])
    keys = ["table", "missing", "wrong", "size"]
    wide = runs.pivot_table(index=keys, columns="imputer", values="error")
    print(wide.round(3).to_string())
    print(runs.groupby("imputer")["seconds"].mean().round(2).to_string())
    arguments.out.mkdir(parents=True, exist_ok=True)
    runs.to_csv(arguments.out / "imputation.csv", index=False)


if __name__ == "__main__":
    main()
