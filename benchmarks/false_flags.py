"""Share of good rows that RobustRegressor flags, over rows and features.

    python -m benchmarks.false_flags                          the grid: about half an hour
    python -m benchmarks.false_flags --cells 20x6,20x10 --rows 40000

Standard normal features, coefficients and noise, nothing wrong; 0.6 % of the rows are documented
to be flagged, whatever the number of rows and features. A cell has as many tables as make up
`--rows` rows, 2 at least and 400 at most. The error is the standard error over tables.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from proxlin import RobustRegressor

ROWS = (20, 30, 50, 100, 300, 1000, 10_000)
LARGEST = 3e6  # numbers in a table
MOST_TABLES = 400


def grid() -> list[tuple[int, int]]:
    """(rows, features): 1, 3, n/10, n/4 and n/2 features, as far as tables stay small."""
    return [
        (n, d) for n in ROWS for d in sorted({1, 3, n // 10, n // 4, n // 2}) if n * d <= LARGEST
    ]


def flagged(n: int, features: int, tables: int) -> tuple[float, float]:
    """Mean share of flagged rows over clean tables, and its standard error."""
    shares = np.empty(tables)
    for seed in range(tables):
        generator = np.random.default_rng([seed, n, features])
        x = generator.normal(size=(n, features))
        y = x @ generator.normal(size=features) + generator.normal(size=n)
        shares[seed] = RobustRegressor().fit(x, y).outliers_.mean()
    return float(shares.mean()), float(shares.std(ddof=1) / np.sqrt(tables))


def main(arguments: list[str] | None = None) -> None:
    """Fit and print one line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cells", default="", help="rows x features between commas: 20x6,40x20")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of all tables of a cell")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cells = [tuple(map(int, cell.split("x"))) for cell in options.cells.split(",") if cell]
    print("rows x features  tables  flagged %  error")
    for n, features in cells or grid():
        tables = int(np.clip(options.rows // n, 2, MOST_TABLES))
        share, error = flagged(n, features, tables)
        name = f"{n} x {features}"
        print(f"{name:15s}{tables:8d}{100 * share:11.2f}{100 * error:7.2f}", flush=True)


if __name__ == "__main__":
    main()
