"""Robust regression with several targets: a picture, and what robustness costs on clean data.

python examples/robust_regression.py            writes docs/images/regression.png if it can
python examples/robust_regression.py FOLDER     writes FOLDER/regression.png
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import LinearRegression

from proxlin import RobustRegressor

QUICK = bool(os.environ.get("PROXLIN_QUICK"))


def table(rows: int, noise: str, share: float, seed: int):
    """Features, targets with noise and a share of them replaced on one side, coefficients, mask."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5))
    coef = rng.normal(size=(2, 5))
    error = rng.normal(size=(rows, 2)) if noise == "Gaussian" else rng.standard_t(2, (rows, 2))
    y = x @ coef.T + 0.5 * error
    bad = rng.random(rows) < share
    y[bad] = 6.0 + rng.normal(size=(int(bad.sum()), 2))
    return x, y, coef, bad


def error_of(model, noise: str, share: float, repeats: int) -> float:
    """Root mean squared error of the coefficients over repeated tables."""
    errors = []
    for seed in range(repeats):
        x, y, coef, _ = table(200, noise, share, seed)
        errors.append(np.square(model.fit(x, y).coef_ - coef).mean())
    return float(np.sqrt(np.mean(errors)))


def main() -> None:
    """Print the errors of the coefficients, and draw one table."""
    repeats = 3 if QUICK else 40
    models = {
        "least squares": LinearRegression(),
        "p = 1": RobustRegressor(p=1),
        "p = 2": RobustRegressor(p=2),
        "p = 2, reweight": RobustRegressor(p=2, reweight=True),
    }
    print("| noise, rows replaced | " + " | ".join(models) + " |")
    print("| --- |" + " --- |" * len(models))
    for noise, share in (
        ("Gaussian", 0.0),
        ("Student t(2)", 0.0),
        ("Gaussian", 0.2),
        ("Gaussian", 0.4),
    ):
        cells = [f"{error_of(model, noise, share, repeats):.3f}" for model in models.values()]
        print(f"| {noise}, {share:.0%} | " + " | ".join(cells) + " |")

    x, y, _, bad = table(300, "Gaussian", 0.25, 0)
    model = RobustRegressor(p=2, reweight=True).fit(x, y)
    plain = LinearRegression().fit(x, y)
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for ax, fitted, title in (
        (axes[0], plain, "least squares"),
        (axes[1], model, "RobustRegressor"),
    ):
        ax.scatter(y[~bad, 0], fitted.predict(x)[~bad, 0], s=8, label="good rows")
        ax.scatter(y[bad, 0], fitted.predict(x)[bad, 0], s=12, marker="x", color="C3", label="bad")
        ax.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
        ax.set(title=title, xlabel="first target", ylabel="predicted")
    axes[0].legend(fontsize="small")
    model.plot(ax=axes[2])
    axes[2].set_title(f"flagged: {int(model.outliers_[bad].sum())} of {int(bad.sum())} bad rows")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/images")
    if folder.is_dir():
        figure.savefig(folder / "regression.png", dpi=110)
        print(f"picture: {folder / 'regression.png'}")


if __name__ == "__main__":
    main()
