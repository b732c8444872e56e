"""Fit a line while a fifth of the rows has wrong features, which no loss alone withstands.

    python examples/wrong_features.py [folder for the picture]

A row whose feature lies far out pulls every line towards itself: least squares, Huber's loss and
absolute errors alike. RobustRegressor looks for the bulk of the features first.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import HuberRegressor, LinearRegression, QuantileRegressor

from proxlin import RobustRegressor


def main(folder: Path) -> None:
    """Fit four lines, print their slopes, save the picture."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = 2 * x + 0.3 * rng.normal(size=200)
    x[:40] = 12 + rng.normal(size=40)  # a fifth of the features is wrong, the targets are right
    rows = x[:, None]
    models = {
        "least squares": LinearRegression(),
        "Huber": HuberRegressor(max_iter=1000),
        "absolute errors": QuantileRegressor(alpha=0),
        "RobustRegressor": RobustRegressor(),
    }
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(x, y, s=10, color="0.6")
    grid = np.array([[-3.0], [14.0]])
    for name, model in models.items():
        slope = float(np.ravel(model.fit(rows, y).coef_)[0])
        print(f"{name}: slope {slope:.2f}, the right one is 2")
        axes.plot(grid, model.predict(grid), lw=2, label=f"{name}, slope {slope:.2f}")
    flagged = models["RobustRegressor"].outliers_
    print(
        f"flagged: {flagged[:40].mean():.0%} of the wrong rows, {flagged[40:].mean():.1%} of others"
    )
    axes.set(xlabel="feature", ylabel="target", ylim=(-8, 12))
    axes.legend()
    figure.savefig(folder / "lines.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
