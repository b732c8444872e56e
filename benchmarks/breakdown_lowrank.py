"""Low rank over the size of the errors: rows, columns and cells, by the defaults of each estimator.

    python -m benchmarks.breakdown_lowrank --seeds 5
    python -m benchmarks.breakdown_lowrank --only RobustPCA    some cases; others keep their record

Printed and saved: the median error over the seeds at each size of the errors, the largest of these
over that at size 10, the same of the seed for which it is largest, and processor seconds of a fit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from proxlin import RobustAutoencoder, RobustFactorization, RobustNMF, RobustPCA

Matrix = NDArray[np.float64]
SIZES = (1e1, 1e3, 1e5, 1e12)


def relative(found: Matrix, clean: Matrix) -> float:
    """||found - clean|| / ||clean||."""
    return float(np.linalg.norm(found - clean) / np.linalg.norm(clean))


def plane(seed: int, *, rank: int, columns: int, noise: float, n: int = 200) -> Matrix:
    """Rows of low rank, with noise."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, columns))
    return low + noise * rng.normal(size=low.shape)


def factorization_rows(size: float, seed: int, share: float = 0.2) -> float:
    """Relative error on clean rows, a share of the others wrong as a whole."""
    return _rows(lambda x: _through(RobustFactorization(2, random_state=0), x), size, seed, share)


def pca_rows(size: float, seed: int, share: float = 0.2) -> float:
    """The same of RobustPCA."""
    return _rows(lambda x: _through(RobustPCA(2), x), size, seed, share)


def autoencoder_rows(size: float, seed: int, share: float = 0.2) -> float:
    """The same of a linear RobustAutoencoder."""

    def estimate(x: Matrix) -> Matrix:
        return RobustAutoencoder(2, hidden=(), random_state=0).fit(x).reconstruct(x)

    return _rows(estimate, size, seed, share)


def net_rows(size: float, seed: int, share: float = 0.2) -> float:
    """The same of a default RobustAutoencoder, of rows enough for a hidden layer."""

    def estimate(x: Matrix) -> Matrix:
        return RobustAutoencoder(2, random_state=0).fit(x).reconstruct(x)

    return _rows(estimate, size, seed, share, n=800)


def net_cells(size: float, seed: int) -> float:
    """The same, a tenth of the cells wrong: on the rows that have none of them."""
    clean = plane(seed, rank=2, columns=12, noise=0.03, n=800)
    rng = np.random.default_rng(seed + 100)
    wrong = rng.random(clean.shape) < 0.1
    x = clean + size * wrong * np.abs(rng.normal(size=clean.shape))
    good = ~wrong.any(axis=1)
    found = RobustAutoencoder(2, random_state=0).fit(x).reconstruct(x)
    return relative(found[good], clean[good])


def factorization_cells(size: float, seed: int) -> float:
    """Median absolute error of an exact rank 3, a tenth of the cells wrong and a tenth missing."""
    clean = plane(seed, rank=3, columns=30, noise=0.0)
    return _cells(lambda x: _through(RobustFactorization(3, random_state=0), x), clean, size, seed)


def pca_cells(size: float, seed: int) -> float:
    """Relative error of clean rows by the plane of others in which a tenth of the cells is wrong.

    In 30 columns nearly every row has such a cell.
    """
    clean = plane(seed, rank=3, columns=30, noise=0.03)
    rng = np.random.default_rng(seed + 100)
    wrong = rng.random(clean.shape) < 0.1
    model = RobustPCA(3).fit(clean + size * wrong * np.abs(rng.normal(size=clean.shape)))
    away = clean - model.mean_
    return relative(model.mean_ + away @ model.components_.T @ model.components_, clean)


def nmf_cells(size: float, seed: int) -> float:
    """The same of RobustNMF, parts with many zeros."""
    rng = np.random.default_rng(seed)
    parts = rng.exponential(size=(3, 30)) * (rng.random((3, 30)) < 0.5)
    clean = rng.exponential(size=(200, 3)) @ parts
    return _cells(lambda x: _through(RobustNMF(3, random_state=0), x), clean, size, seed)


def factorization_columns(size: float, seed: int) -> float:
    """Relative error on clean columns, a fifth of the columns wrong as a whole."""
    x = plane(seed, rank=3, columns=30, noise=0.03)
    clean, bad = x.copy(), np.arange(30) < 6
    x[:, bad] += size * np.random.default_rng(seed + 100).normal(size=(len(x), 6))
    model = RobustFactorization(3, robust="columns", p=2, random_state=0)
    return relative(_through(model, x)[:, ~bad], clean[:, ~bad])


def _rows(
    estimate: Callable[[Matrix], Matrix], size: float, seed: int, share: float, n: int = 200
) -> float:
    x = plane(seed, rank=2, columns=12, noise=0.03, n=n)
    clean, bad = x.copy(), np.arange(len(x)) < share * len(x)
    x[bad] += size * np.random.default_rng(seed + 100).normal(size=(int(bad.sum()), 12))
    return relative(estimate(x)[~bad], clean[~bad])


def _cells(estimate: Callable[[Matrix], Matrix], clean: Matrix, size: float, seed: int) -> float:
    rng = np.random.default_rng(seed + 100)
    wrong, missing = rng.random(clean.shape) < 0.1, rng.random(clean.shape) < 0.1
    x = np.where(wrong, size * np.abs(rng.normal(size=clean.shape)), clean)
    return float(np.median(np.abs(estimate(np.where(missing, np.nan, x)) - clean)))


def _through(model: RobustFactorization | RobustPCA, x: Matrix) -> Matrix:
    found: Matrix = model.fit(x).inverse_transform(model.transform(x))
    return found


CASES: dict[str, Callable[[float, int], float]] = {
    **{
        f"{name}, {share:.0%} of the rows".replace("%", " %"): partial(error, share=share)
        for name, error in (
            ("RobustFactorization", factorization_rows),
            ("RobustPCA", pca_rows),
            ("RobustAutoencoder, linear", autoencoder_rows),
            ("RobustAutoencoder", net_rows),
        )
        for share in (0.1, 0.2, 0.3)
    },
    "RobustFactorization, 10 % of the cells": factorization_cells,
    "RobustPCA, 10 % of the cells": pca_cells,
    "RobustFactorization, 20 % of the columns": factorization_columns,
    "RobustNMF, 10 % of the cells": nmf_cells,
    "RobustAutoencoder, 10 % of the cells": net_cells,
}


def save(lines: pd.DataFrame, folder: Path) -> None:
    """Put these lines in place of those of the same cases; others stay as they were recorded."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "breakdown-lowrank.csv"
    if path.exists():
        recorded = pd.read_csv(path, index_col=0)
        lines = pd.concat([lines, recorded[~recorded.index.isin(lines.index)]])
    lines.loc[[name for name in CASES if name in lines.index]].to_csv(path)


def main() -> None:
    """Run, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    lines = {}
    for name, error in CASES.items():
        if not name.startswith(arguments.only):
            continue
        started = time.process_time()
        errors = [[error(size, seed) for seed in range(arguments.seeds)] for size in SIZES]
        seconds = (time.process_time() - started) / (len(SIZES) * arguments.seeds)
        table = np.array(errors)  # (sizes, seeds)
        medians = np.median(table, axis=1)
        worst = float((table.max(axis=0) / table[0]).max())
        lines[name] = [*medians, medians.max() / medians[0], worst, seconds]
        print(name, *(f"{value:.3g}" for value in lines[name]), flush=True)
    columns = [*(f"{size:g}" for size in SIZES), "largest over first", "worst seed", "seconds"]
    save(pd.DataFrame.from_dict(lines, orient="index", columns=columns), arguments.out)


if __name__ == "__main__":
    main()
