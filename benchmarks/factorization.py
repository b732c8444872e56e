"""Robust factorisation against scikit-learn: seconds, recovery, and a million rows in chunks.

Tables are planted: 20 % of the cells missing, 10 % grossly wrong. scikit-learn's methods get the
medians of the columns in place of missing cells.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import NMF, TruncatedSVD
from sklearn.impute import SimpleImputer

from benchmarks.peak import peak_megabytes
from benchmarks.timing import verdict
from proxlin import RobustFactorization, RobustNMF

Array = NDArray[np.float32]

ROWS, COLUMNS, RANK = 10_000, 500, 20
STREAM_ROWS, STREAM_COLUMNS, STREAM_RANK, CHUNK = 1_000_000, 50, 5, 20_000
BAR_SECONDS, BAR_ERROR, BAR_MEGABYTES = 60.0, 0.05, 1000.0


def planted(n: int, right: Array, rng: np.random.Generator, *, non_negative: bool = False) -> Array:
    """n rows of a random left factor times `right`, with noise, gross cells and missing ones."""
    left = rng.normal(size=(n, len(right))).astype(np.float32)
    x = (np.abs(left) if non_negative else left) @ right
    size = x.std()
    x += 0.05 * size * rng.normal(size=x.shape).astype(np.float32)
    gross = 20 * size * rng.random(x.shape, dtype=np.float32)
    if not non_negative:
        gross *= rng.choice(np.array([-1, 1], np.float32), x.shape)
    x = np.where(rng.random(x.shape) < 0.1, gross, x)
    x = np.maximum(x, 0) if non_negative else x
    missing: Array = np.where(rng.random(x.shape) < 0.2, np.float32(np.nan), x)
    return missing


def planted_basis(
    rank: int, columns: int, rng: np.random.Generator, *, non_negative: bool
) -> Array:
    """Gaussian rows; for parts their absolute values with four in ten entries 0."""
    right = rng.normal(size=(rank, columns)).astype(np.float32)
    return np.abs(right) * (rng.random(right.shape) < 0.6) if non_negative else right


def subspace_error(found: Array, right: Array) -> float:
    """Sine of the largest angle between the planted and the found row space."""
    a, b = np.linalg.qr(found.T.astype(float))[0], np.linalg.qr(right.T.astype(float))[0]
    return float(np.linalg.norm(b - a @ (a.T @ b), 2))


def table(rows: int) -> Table:
    """Seconds and errors of both libraries on one planted table of each kind."""
    result = Table(title=f"{rows:,} x {COLUMNS}, rank {RANK}, 20 % missing, 10 % gross cells")
    for heading in ("method", "seconds", "bar", "sine of the largest angle", "bar", "sweeps"):
        result.add_column(heading, justify="right")
    for non_negative in (False, True):
        rng = np.random.default_rng(0)
        right = planted_basis(RANK, COLUMNS, rng, non_negative=non_negative)
        x = planted(rows, right, rng, non_negative=non_negative)
        filled = SimpleImputer(strategy="median").fit_transform(x)
        kind = RobustNMF if non_negative else RobustFactorization
        peer = NMF(RANK, random_state=0) if non_negative else TruncatedSVD(RANK, random_state=0)
        for model, data in ((kind(RANK, random_state=0), x), (peer, filled)):
            start = time.perf_counter()
            model.fit(data)
            seconds = time.perf_counter() - start
            error = subspace_error(model.components_, right)
            ours = model is not peer
            result.add_row(
                type(model).__name__,
                f"{seconds:.1f}",
                verdict(seconds, BAR_SECONDS if ours else None),
                f"{error:.2g}",
                verdict(error, BAR_ERROR if ours else None),
                str(model.n_iter_) if hasattr(model, "n_iter_") else "",
            )
    return result


def chunks(rows: int, right: Array) -> Iterator[Array]:
    """The rows of the stream, made as they are asked for."""
    for number in range(rows // CHUNK):
        yield planted(CHUNK, right, np.random.default_rng(number + 1))


def run_stream(rows: int) -> tuple[float, float, float, float]:
    """(seconds of learning, error, megabytes above the start, megabytes of all rows)."""
    right = planted_basis(STREAM_RANK, STREAM_COLUMNS, np.random.default_rng(0), non_negative=False)
    before = peak_megabytes()
    model, seconds = RobustFactorization(STREAM_RANK, random_state=0), 0.0
    for x in chunks(rows, right):
        start = time.perf_counter()
        model.partial_fit(x)
        seconds += time.perf_counter() - start
    error = subspace_error(model.components_, right)
    return seconds, error, peak_megabytes() - before, rows * STREAM_COLUMNS * 4 / 2**20


def stream_table(rows: int) -> Table:
    """Learning from chunks, in a process of its own so that its peak of memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seconds, error, used, whole = pool.apply(run_stream, (rows,))
    result = Table(title=f"{rows:,} x {STREAM_COLUMNS}, rank {STREAM_RANK}, chunks of {CHUNK:,}")
    for heading in ("seconds", "rows a second", "sine", "bar", "peak MB", "bar", "MB of all rows"):
        result.add_column(heading, justify="right")
    result.add_row(
        f"{seconds:.1f}",
        f"{rows / seconds:,.0f}",
        f"{error:.2g}",
        verdict(error, BAR_ERROR),
        f"{used:.0f}",
        verdict(used, BAR_MEGABYTES),
        f"{whole:.0f}",
    )
    return result


def main(arguments: list[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--stream-rows", type=int, default=STREAM_ROWS)
    options = parser.parse_args(arguments)
    console = Console()
    console.print(table(options.rows))
    console.print(stream_table(options.stream_rows))


if __name__ == "__main__":
    main()
