"""Race the paper's method against gradient methods and the default one, on embedded digits.

    python examples/paper_figure.py [folder for the picture]

The paper's second figure in small: the objective over time of an autoencoder at p = 1.
`proxlin reproduce fig2` draws it on the paper's data. PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

from proxlin import Problem, Ridge, minimize
from proxlin.data import add_outliers, load_dataset
from proxlin.models import mlp_autoencoder

SECONDS = 0.5 if os.environ.get("PROXLIN_QUICK") else 8.0
METHODS = ("probed", "mbo-sadm", "mbo-sgd", "sgd", "adam")


def main(folder: Path) -> None:
    """Run each method for the same time, print where it ends, save the curves."""
    images, _ = add_outliers(load_dataset("digits").x_train, 0.1)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for method in METHODS:
        torch.manual_seed(0)
        net = mlp_autoencoder((64, 16), image=(1, 8, 8))
        problem = Problem(net, images, p=1, regularizer=Ridge(1e-3))
        result = minimize(problem, method, max_seconds=SECONDS)
        course = result.history.frame()
        axes.step(course["seconds"], course["objective"].cummin(), where="post", label=method)
        print(f"{method}: objective {result.objective:.2f} after {result.iterations} steps")
    axes.set(xlabel="seconds", ylabel="lowest objective so far", yscale="log")
    axes.legend()
    figure.savefig(folder / "race.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
