"""RobustPCA beside R's PcaHubert, PcaGrid and covMcd, beside plain PCA, and a million rows.

    python -m benchmarks.components            R's answers anew, if there is an Rscript
    python -m benchmarks.components --recorded those that the tests keep

Tables are those of rrcov and robustbase, columns divided by their MAD, and planted ones, 200 x 10
of rank 3 (`benchmarks/r/rrcov_tables.R`). Printed: the largest angle in degrees between planes,
planted ones against plain PCA of the good rows, others against each of R's methods, beside the
largest angle between two of those, and the rows that are flagged; how far RobustPCA is from plain
PCA on clean Gaussian rows; angle, variances and seconds of `--rows` rows learned in 50 chunks.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from benchmarks.runs import markdown
from proxlin import RobustPCA

Matrix = NDArray[np.float64]
METHODS = ("covMcd", "PcaHubert", "PcaGrid")
RECORDED = Path(__file__).parents[1] / "tests" / "estimators" / "low_rank" / "rrcov"
PLANTED = {"planted00": 0, "shifted10": 20, "scattered10": 20, "shifted30": 60, "scattered30": 60}
CLEAN = ((200, 5), (1000, 10), (20_000, 20))
CHUNKS, COLUMNS = 50, 20


def degrees(a: Matrix, b: Matrix) -> float:
    """The largest angle between the planes of two orthonormal sets of rows."""
    return float(np.degrees(np.arcsin(min(1.0, float(np.linalg.norm(a - a @ b.T @ b, 2))))))


@contextmanager
def r_answers(recorded: bool) -> Iterator[Path]:
    """A folder with tables and R's answers."""
    if recorded or shutil.which("Rscript") is None:
        yield RECORDED
        return
    with tempfile.TemporaryDirectory() as name:
        script = Path(__file__).parent / "r" / "rrcov_tables.R"
        subprocess.run(["Rscript", str(script), name], check=True, capture_output=True)
        yield Path(name)


def beside_r(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Angles to the good rows' plane (planted tables), and to R's planes with flags (others)."""
    answers = pd.read_csv(folder / "answers.csv")
    planted, others = {}, {}
    for name, of_table in answers.groupby("table"):
        x = np.loadtxt(folder / f"{name}.csv", delimiter=",")
        axes, flags = {}, {}
        for method, lines in of_table.groupby("method"):
            loadings = lines[lines.kind == "loading"]
            axes[method] = loadings.pivot_table(index="i", columns="j", values="value").to_numpy()
            flags[method] = int((lines.kind == "flag").sum())
        known = [method for method in METHODS if method in axes]
        model = RobustPCA(len(axes[known[0]])).fit(x)
        if name in PLANTED:
            good = PCA(3).fit(x[PLANTED[str(name)] :]).components_
            angles = {method: degrees(axes[method], good) for method in known}
            planted[name] = {"RobustPCA": degrees(model.components_, good), **angles}
            continue
        apart = max(degrees(axes[a], axes[b]) for a, b in combinations(known, 2))
        angles = {f"to {method}": degrees(model.components_, axes[method]) for method in known}
        counts = "/".join(str(flags.get(method, "-")) for method in METHODS)
        row = {"rows": len(x), **angles, "R's apart": apart}
        others[name] = {**row, "flags": int(model.outliers_.sum()), "R's flags": counts}
    order = ["rows", *(f"to {method}" for method in METHODS), "R's apart", "flags", "R's flags"]
    return pd.DataFrame(planted).T, pd.DataFrame(others).T[order]


def beside_plain(seeds: int) -> pd.DataFrame:
    """Clean Gaussian rows of slowly falling variances: angles, errors and rows left out."""
    found = {}
    for n, m in CLEAN:
        runs = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            turned = np.linalg.qr(rng.normal(size=(m, m)))[0]
            x = rng.normal(size=(n, m)) * np.geomspace(4, 1, m) @ turned
            robust, plain = RobustPCA(3).fit(x), PCA(3).fit(x)
            errors = [
                float(np.linalg.norm(x - model.inverse_transform(model.transform(x))))
                for model in (robust, plain)
            ]
            angle = degrees(robust.components_, plain.components_)
            ratio = float((robust.explained_variance_ / plain.explained_variance_).min())
            runs.append((angle, errors[0] / errors[1], ratio, float(robust.outliers_.mean())))
        names = ("largest angle", "error over PCA's", "least variance over PCA's", "left out")
        table = np.array(runs)
        largest = [*table[:, :2].max(0), table[:, 2].min(), table[:, 3].max()]
        found[f"{n} x {m}"] = dict(zip(names, map(float, largest), strict=True))
    return pd.DataFrame(found).T


def in_chunks(rows: int) -> dict[str, str]:
    """A fifth of the rows of each chunk moved by a million."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(COLUMNS, 3)))[0].T
    model, seconds = RobustPCA(3), 0.0
    for _ in range(CHUNKS):
        n = rows // CHUNKS
        x = (rng.normal(size=(n, 3)) * [5, 3, 2]) @ axes + 0.3 * rng.normal(size=(n, COLUMNS))
        x[: n // 5] += 1e6
        started = time.process_time()
        model.partial_fit(x)
        seconds += time.process_time() - started
    return {
        "rows": f"{rows:,} x {COLUMNS} in {CHUNKS} chunks",
        "degrees": f"{degrees(model.components_, axes):.3f}",
        "variances": ", ".join(f"{value:.2f}" for value in model.explained_variance_),
        "true": ", ".join(f"{value + 0.09:.2f}" for value in (25, 9, 4)),
        "seconds": f"{seconds:.1f}",
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--recorded", action="store_true", help="take R's answers from the tests")
    parser.add_argument("--rows", type=int, default=1_000_000, help="that are learned in chunks")
    parser.add_argument("--seeds", type=int, default=3, help="of clean tables")
    arguments = parser.parse_args()
    with r_answers(arguments.recorded) as folder:
        planted, others = beside_r(folder)
    print(markdown(planted.astype(float), "planted"), markdown(others, "table"), sep="\n")
    print(markdown(beside_plain(arguments.seeds), "clean rows"))
    for name, text in in_chunks(arguments.rows).items():
        print(f"{name}: {text}")


if __name__ == "__main__":
    main()
