"""Fit several targets at once while a part of the rows is wrong, and what that costs on clean data.

    python examples/robust_regression.py [folder for the picture]

Prints the error of the coefficients over repeated tables, with and without bad rows, and draws one
table: least squares beside RobustRegressor. PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LinearRegression

from proxlin import RobustRegressor

REPEATS = 2 if os.environ.get("PROXLIN_QUICK") else 20
CASES = (("Gaussian", 0.0), ("Student t(2)", 0.0), ("Gaussian", 0.2), ("Gaussian", 0.4))
PLAIN = {"reweight": False, "leverage": False, "regularizer": None}
MODELS = {
    "least squares": LinearRegression(),
    "p = 1, plain": RobustRegressor(p=1, **PLAIN),
    "p = 2, plain": RobustRegressor(p=2, **PLAIN),
    "RobustRegressor()": RobustRegressor(),
}


def make_table(rows: int, noise: str, share: float, seed: int) -> tuple[np.ndarray, ...]:
    """Features, targets of which a share is replaced on one side, coefficients, which are bad."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5))
    coef = rng.normal(size=(2, 5))
    error = rng.normal(size=(rows, 2)) if noise == "Gaussian" else rng.standard_t(2, (rows, 2))
    y = x @ coef.T + 0.5 * error
    bad = rng.random(rows) < share
    y[bad] = 6.0 + rng.normal(size=(int(bad.sum()), 2))
    return x, y, coef, bad


def coefficient_error(model: LinearRegression | RobustRegressor, noise: str, share: float) -> float:
    """Root mean squared error of the coefficients over repeated tables."""
    errors = []
    for seed in range(REPEATS):
        x, y, coef, _ = make_table(200, noise, share, seed)
        errors.append(np.square(model.fit(x, y).coef_ - coef).mean())
    return float(np.sqrt(np.mean(errors)))


def main(folder: Path) -> None:
    """Print the errors of the coefficients, save the picture."""
    print("| noise, rows replaced | " + " | ".join(MODELS) + " |")
    print("| --- |" + " --- |" * len(MODELS))
    for noise, share in CASES:
        cells = [f"{coefficient_error(model, noise, share):.3f}" for model in MODELS.values()]
        print(f"| {noise}, {share:.0%} | " + " | ".join(cells) + " |")
    x, y, _, bad = make_table(300, "Gaussian", 0.25, 0)
    draw(x, y, bad).savefig(folder / "regression.png", dpi=110)


def draw(x: np.ndarray, y: np.ndarray, bad: np.ndarray) -> Figure:
    """Predictions of both fits over the first target; beside them, the outlier scores."""
    robust = RobustRegressor().fit(x, y)
    plain = LinearRegression().fit(x, y)
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    fits = ((left, plain, "least squares"), (middle, robust, "RobustRegressor"))
    for axis, fitted, title in fits:
        first = fitted.predict(x)[:, 0]
        axis.scatter(y[~bad, 0], first[~bad], s=8, label="good rows")
        axis.scatter(y[bad, 0], first[bad], s=12, marker="x", color="C3", label="bad")
        axis.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
        axis.set(title=title, xlabel="first target", ylabel="predicted")
    left.legend(fontsize="small")
    robust.plot(ax=right)
    right.set_title(f"flagged: {int(robust.outliers_[bad].sum())} of {int(bad.sum())} bad rows")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
