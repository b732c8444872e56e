"""Fit a curve by a net while a quarter of the targets is wrong, all on one side.

    python examples/curved_relation.py [folder for the picture]

Scikit-learn's MLPRegressor squares its errors and is drawn upwards. RobustRegressor trains a net of
the same size with absolute errors, takes the weight off rows that do not fit, and flags them.
PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.neural_network import MLPRegressor

from proxlin import RobustRegressor

STEPS = 15 if os.environ.get("PROXLIN_QUICK") else 150


def main(folder: Path) -> None:
    """Train both, print how far each is from the curve, save the picture."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 600)
    y = np.sin(2 * x) + 0.1 * rng.normal(size=600)
    bad = rng.random(600) < 0.25
    y[bad] += rng.exponential(4.0, bad.sum())
    rows, grid = x[:, None], np.linspace(-3, 3, 200)[:, None]

    squared = MLPRegressor(
        hidden_layer_sizes=(32, 32), max_iter=4 * STEPS, tol=0, n_iter_no_change=10**6
    )
    squared.set_params(random_state=0, early_stopping=False)
    nets = {
        "MLPRegressor": squared.fit(rows, y),
        "RobustRegressor": RobustRegressor(
            hidden=(32, 32), reweight=True, max_iter=STEPS, random_state=0
        ).fit(rows, y),
    }
    for name, net in nets.items():
        off = np.abs(net.predict(grid) - np.sin(2 * grid[:, 0])).mean()
        print(f"{name}: {off:.3f} from the curve on average")
    flagged = nets["RobustRegressor"].outliers_
    print(
        f"flagged: {flagged[bad].mean():.0%} of the wrong rows,"
        f" {flagged[~bad].mean():.1%} of others"
    )

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(x[~flagged], y[~flagged], s=8, color="0.6", label="rows")
    axes.scatter(x[flagged], y[flagged], s=8, color="tab:red", label="flagged")
    axes.plot(grid, np.sin(2 * grid), "k--", label="the curve")
    for name, net in nets.items():
        axes.plot(grid, net.predict(grid), lw=2, label=name)
    axes.set(xlabel="x", ylabel="y", ylim=(-2, 10))
    axes.legend()
    figure.savefig(folder / "curve.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
