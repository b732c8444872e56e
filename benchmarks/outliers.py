"""Outliers among training rows, and among rows never seen: area under the ROC curve of each method.

    python -m benchmarks.outliers --steps 100

Nobody says which rows are bad: every method learns from the dirty rows. Each autoencoder has the
same net and takes the same number of steps, the losses differ. PCA keeps as many components as the
code has. What is printed is saved as CSV and Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxlin import RobustAutoencoder
from proxlin.data import add_outliers, load_dataset
from proxlin.errors import DataError
from proxlin.problem.loss import Exponent

Rows = NDArray[np.float32]
Scores = NDArray[np.float64]
Scorer = Callable[[Rows], Scores]  # higher is more of an outlier

LOSSES: dict[str, Exponent] = {"l2 norm": 2.0, "l1 norm": 1.0, "squared": "mse"}

_IMAGES = 1500  # images to learn from, and as many never seen


@dataclass(frozen=True)
class Case:
    """Rows to learn from and rows never seen, and which of them are outliers."""

    name: str
    train: Rows
    train_bad: NDArray[np.bool_]
    test: Rows
    test_bad: NDArray[np.bool_]


def cases(ratio: float, seed: int, console: Console) -> Iterator[Case]:
    """Every case that has its data; one sentence for each that has not."""
    generator = np.random.default_rng(seed)
    yield _mixed("breast cancer: malignant among benign", *_cancer(), ratio, generator)
    for name in ("enb", "rf1"):
        try:
            x = load_dataset(name).x_train[:3000].numpy()
        except DataError as error:
            console.print(f"skipped: {error}", highlight=False)
            continue
        yield _mixed(
            f"{name}: rows of unrelated cells", x, _shuffled(x, generator), ratio, generator
        )
    yield _mixed("digits: nines among the others", *_digits(), ratio, generator)
    try:
        digits = load_dataset("mnist")
        clothes = load_dataset("fashion-mnist").x_train[: 2 * _IMAGES].numpy()
    except DataError as error:
        console.print(f"skipped: {error}", highlight=False)
        return
    images = digits.x_train[: 2 * _IMAGES]
    noise = add_outliers(images, 1.0, seed=seed)[0].numpy()
    yield _mixed("mnist: the paper's noise", images.numpy(), noise, ratio, generator)
    yield _mixed("mnist: clothes among digits", images.numpy(), clothes, ratio, generator)


def _cancer() -> tuple[Rows, Rows]:
    table = load_breast_cancer()
    x = table.data.astype(np.float32)
    return x[table.target == 1], x[table.target == 0]


def _digits() -> tuple[Rows, Rows]:
    data = load_dataset("digits")
    x = np.concatenate([data.x_train.numpy(), data.x_test.numpy()])
    y = np.concatenate([data.y_train.numpy(), data.y_test.numpy()])
    return x[y != 9], x[y == 9]


def _shuffled(x: Rows, generator: np.random.Generator) -> Rows:
    """Each column in an order of its own: the same values, no relation between them."""
    return np.stack([generator.permutation(column) for column in x.T], axis=1)


def _mixed(name: str, good: Rows, bad: Rows, ratio: float, generator: np.random.Generator) -> Case:
    """Two halves of the good rows, a share `ratio` of each replaced by bad ones."""
    half = len(good) // 2
    count = min(round(ratio * half), len(bad) // 2)
    rows = good[generator.permutation(len(good))[: 2 * half]].copy()
    mask = np.zeros(2 * half, dtype=bool)
    mask[:count] = mask[half : half + count] = True
    rows[mask] = bad[generator.permutation(len(bad))[: 2 * count]]
    return Case(f"{name}, {count / half:.0%}", rows[:half], mask[:half], rows[half:], mask[half:])


def scorers(case: Case, steps: int, seed: int) -> Iterator[tuple[str, Scorer]]:
    """Every method, trained on the case's rows."""
    code = 0
    for label, p in LOSSES.items():
        net = RobustAutoencoder(p=p, max_iter=steps, random_state=seed).fit(case.train)
        code = net.n_components_
        yield f"autoencoder, {label}", net.outlier_scores
    flat = _flat(case.train)
    pca = make_pipeline(StandardScaler(), PCA(min(code, *flat.shape))).fit(flat)
    yield "PCA", lambda x: _pca_error(pca, _flat(x))
    forest = IsolationForest(random_state=seed).fit(flat)
    yield "isolation forest", lambda x: -forest.score_samples(_flat(x))
    local = make_pipeline(StandardScaler(), LocalOutlierFactor(novelty=True)).fit(flat)
    yield "local outlier factor", lambda x: -local.score_samples(_flat(x))


def _flat(x: Rows) -> Rows:
    return x.reshape(len(x), -1)


def _pca_error(pca: Any, x: Rows) -> Scores:
    scaled = pca[0].transform(x)
    back = pca[1].inverse_transform(pca[1].transform(scaled))
    error: Scores = np.linalg.norm(back - scaled, axis=1)
    return error


def measure(
    ratios: list[float], steps: int, seed: int, console: Console
) -> Iterator[tuple[str, str, float, float]]:
    """For each case and method: the area for the training rows and for the new ones."""
    for ratio in ratios:
        for case in cases(ratio, seed, console):
            for method, score in scorers(case, steps, seed):
                with warnings.catch_warnings():
                    # The factor is meant for new rows; its answer for known ones is shown too.
                    warnings.simplefilter("ignore", UserWarning)
                    known = roc_auc_score(case.train_bad, score(case.train))
                    new = roc_auc_score(case.test_bad, score(case.test))
                yield case.name, method, float(known), float(new)


def save(frame: pd.DataFrame, folder: Path, note: str) -> None:
    """outliers.csv as it is, outliers.md with one column a method (training rows / new rows)."""
    folder.mkdir(parents=True, exist_ok=True)
    frame.round(4).to_csv(folder / "outliers.csv", index=False)
    methods = list(dict.fromkeys(frame["method"]))
    lines = [
        note,
        "",
        "| case | " + " | ".join(methods) + " |",
        "| --- " * (len(methods) + 1) + "|",
    ]
    lines += [f"| {name} | " + " | ".join(_cells(part)) + " |" for name, part in _grouped(frame)]
    (folder / "outliers.md").write_text("\n".join(lines) + "\n")


def _grouped(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(str(name), part) for name, part in frame.groupby("case", sort=False)]


def _cells(part: pd.DataFrame) -> list[str]:
    return [f"{a:.3f} / {b:.3f}" for a, b in part[["training rows", "new rows"]].to_numpy()]


def main(arguments: list[str] | None = None) -> None:
    """Run, print and save the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="of each autoencoder")
    parser.add_argument("--ratios", default="0.2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    console = Console()
    ratios = [float(ratio) for ratio in options.ratios.split(",")]
    note = (
        "Area under the ROC curve, training rows / new rows; autoencoders take"
        f" {options.steps} steps each, seed {options.seed}."
    )
    found: list[tuple[str, str, float, float]] = []
    frame = pd.DataFrame()
    for row in measure(ratios, options.steps, options.seed, console):
        found.append(row)
        frame = pd.DataFrame(found, columns=["case", "method", "training rows", "new rows"])
        save(frame, options.out, note)  # every time: a run that is cut short has not been in vain
    table = Table("case", *dict.fromkeys(frame["method"]), title=note)
    for name, part in _grouped(frame):
        table.add_row(name, *_cells(part))
    console.print(table)


if __name__ == "__main__":
    main()
