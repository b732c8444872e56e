"""Outliers in public tables, found without labels: ours and PyOD's detectors in one protocol.

    PROXLIN_DATA=... python -m benchmarks.detection --rows 10000 --seeds 5

Every detector learns from the whole table, outliers included, and scores the same rows. Tables are
the files `outliers/*.npz` (X, y) of the folder PROXLIN_DATA, such as those of ADBench; of longer
ones, so many rows are drawn. Rivals see standardised columns and keep their defaults. A fit that
fails or takes longer than `--limit` processor seconds counts like chance, and so do rows whose
scores are all infinite; both are noted. Seeds are those of the detectors: one that does not draw
anything is run once. Runs are saved one by one, and a call goes on where the last one ended;
`--renew NAME` runs a detector again. Printed and saved: mean area under the ROC curve, average
precision, mean rank by each, processor seconds, seeds, what failed, and where some rival is ahead.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from benchmarks.runs import Runs, markdown
from proxlin.estimators.detection.outlier_detector import RobustOutlierDetector

OURS = "RobustOutlierDetector"
RIVALS = {  # class in PyOD: (module, whether it takes a seed)
    "IForest": ("iforest", True),
    "ECOD": ("ecod", False),
    "COPOD": ("copod", False),
    "KNN": ("knn", False),
    "LOF": ("lof", False),
    "PCA": ("pca", False),
    "MCD": ("mcd", True),
    "OCSVM": ("ocsvm", False),
    "AutoEncoder": ("auto_encoder", True),
    "VAE": ("vae", True),
}


def is_random(name: str) -> bool:
    """Whether the seed of a detector matters."""
    return name == OURS or RIVALS[name][1]


COLUMNS = ("rows", "table", "seed", "detector", "auc", "average_precision", "seconds", "note")


def tables(folder: Path, rows: int) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.intp]]]:
    """(name, X, y) of each table, at most so many rows, the same for everybody."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as arrays:
            x, y = arrays["X"].astype(np.float64), arrays["y"].ravel().astype(np.intp)
        if len(x) > rows:
            chosen = np.random.default_rng(0).permutation(len(x))[:rows]
            x, y = x[chosen], y[chosen]
        yield path.stem, x, y


def scores(name: str, x: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """The outlier scores of the training rows, higher for outliers."""
    if name == OURS:
        return RobustOutlierDetector(random_state=seed).fit(x).outlier_scores_
    module, seeded = RIVALS[name]
    arguments: dict[str, Any] = {"random_state": seed} if seeded else {}
    detector = getattr(importlib.import_module(f"pyod.models.{module}"), name)(**arguments)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        detector.fit(StandardScaler().fit_transform(x))
    found: NDArray[np.float64] = detector.decision_scores_
    return found


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block after so many processor seconds."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(
    folder: Path, runs: Runs, *, rows: int, seeds: int, detectors: list[str], limit: int
) -> pd.DataFrame:
    """One line for each table, seed and detector; those that are saved are not run again."""
    for seed in range(seeds):
        wanted = [name for name in detectors if seed == 0 or is_random(name)]
        for table, x, y in tables(folder, rows):
            if y.all() or not y.any():
                continue
            for name in wanted:
                if (rows, table, seed, name) in runs:
                    continue
                started, note = time.process_time(), ""
                try:
                    with time_limit(limit):
                        found = scores(name, x, seed)
                    if not np.isfinite(found).all():
                        note = f"{(~np.isfinite(found)).mean():.0%} of the scores not finite"
                    found = np.nan_to_num(found)
                    measured = roc_auc_score(y, found), average_precision_score(y, found)
                except Exception as error:  # a rival's failure is a result, not our end
                    measured, note = (0.5, y.mean()), f"{type(error).__name__}: {error}"[:60]
                seconds = time.process_time() - started
                runs.add(rows, table, seed, name, *measured, seconds, note)
                print(table, seed, name, round(measured[0], 3), round(seconds, 1), note, flush=True)
    chosen = runs.frame()
    return chosen[(chosen["rows"] == rows) & chosen["detector"].isin(detectors)]


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over tables and seeds, best first; ranks are taken table by table."""
    by_table = runs.groupby(["table", "detector"], as_index=False)[
        ["auc", "average_precision", "seconds"]
    ].mean()
    for measure in ("auc", "average_precision"):
        by_table[f"{measure}_rank"] = by_table.groupby("table")[measure].rank(ascending=False)
    order = ["auc", "average_precision", "auc_rank", "average_precision_rank", "seconds"]
    means = by_table.groupby("detector")[order].mean()
    means["seeds"] = runs.groupby("detector")["seed"].nunique()
    return means.sort_values("auc", ascending=False)


def losses(runs: pd.DataFrame) -> pd.DataFrame:
    """The tables on which some rival is ahead by more than 0.01 of the area, and by how much."""
    wide = runs.groupby(["table", "detector"])["auc"].mean().unstack()
    rivals = wide.drop(columns=OURS)
    best, who = rivals.max(axis="columns"), rivals.idxmax(axis="columns")
    frame = pd.DataFrame({"ours": wide[OURS], "best": best, "who": who})
    return frame[frame.best > frame.ours + 0.01]


def main() -> None:
    """Run, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=600, help="seconds that a fit may take")
    parser.add_argument("--detectors", nargs="*", default=[OURS, *RIVALS])
    parser.add_argument("--renew", nargs="*", default=[], help="detectors to run again")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    if "PROXLIN_DATA" not in os.environ:
        parser.error("set PROXLIN_DATA to a folder with outliers/*.npz (X, y)")
    folder = Path(os.environ["PROXLIN_DATA"]) / "outliers"
    warnings.filterwarnings("ignore")
    saved = Runs(arguments.out / "detection-runs.csv", COLUMNS, key=4, renew=arguments.renew)
    runs = run(
        folder,
        saved,
        rows=arguments.rows,
        seeds=arguments.seeds,
        detectors=arguments.detectors,
        limit=arguments.limit,
    )
    frame = summary(runs)
    print(frame.round(3).to_string())
    behind = ""
    if len(arguments.detectors) > 1 and OURS in arguments.detectors:
        behind = "\nSome rival is ahead by more than 0.01 of the area on\n\n"
        behind += markdown(losses(runs), "table")
        print(behind)
    notes = runs[runs.note != ""][["table", "detector", "note"]].drop_duplicates()
    failed = "\nWhat failed, and counts like chance\n\n" + markdown(
        notes.set_index("table"), "table"
    )
    print(failed if len(notes) else "")
    frame.to_csv(arguments.out / "detection.csv")
    text = f"At most {arguments.rows:,} rows.\n\n" + markdown(frame, "detector") + behind
    (arguments.out / "detection.md").write_text(text + (failed if len(notes) else ""))


if __name__ == "__main__":
    main()
