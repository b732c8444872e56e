"""Learn a code of digits from images of which a fifth are rubbish, and find the rubbish.

    python examples/autoencoder_outliers.py [folder for the picture]

The same linear net is trained with squared errors, which makes it a principal component analysis,
and with unsquared ones. Then both see digits that they never saw. PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

from proxlin import RobustAutoencoder
from proxlin.data import add_outliers, load_dataset

STEPS = 10 if os.environ.get("PROXLIN_QUICK") else 400
LOSSES = {"squared error": "mse", "l2 norm": 2.0}


def main(folder: Path) -> None:
    """Train, print what was found, save the picture."""
    data = load_dataset("digits")
    dirty, is_outlier = add_outliers(data.x_train, 0.2, seed=0)
    rows, fresh = dirty.flatten(1).numpy(), data.x_test.flatten(1).numpy()
    nets, bad = {}, is_outlier.numpy()
    for name, p in LOSSES.items():
        net = RobustAutoencoder(16, hidden=(), p=p, scaling=False, max_iter=STEPS, random_state=0)
        nets[name] = net.fit(rows)
        error = np.abs(nets[name].reconstruct(fresh) - fresh).mean()
        found = nets[name].outliers_
        print(
            f"{name}: pixels of new digits {error:.3f} off;"
            f" {found[bad].mean():.0%} of the outliers and {found[~bad].mean():.1%} of the digits"
            f" flagged; area under the ROC curve"
            f" {roc_auc_score(bad, nets[name].outlier_scores_):.3f}"
        )
    draw(nets, rows, bad, fresh[:10]).savefig(folder / "autoencoder.png", dpi=110)


def draw(nets: dict, dirty: np.ndarray, bad: np.ndarray, digits: np.ndarray) -> Figure:
    """Training images, new digits, their reconstructions; below, the scores of training rows."""
    strips = [("learned from", dirty[:10]), ("never seen", digits)]
    strips += [(name, net.reconstruct(digits)) for name, net in nets.items()]
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1.35, 1))
    axes = above.subplots(len(strips), 10)
    for row, (label, images) in zip(axes, strips, strict=True):
        for axis, image in zip(row, images, strict=True):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set_xticks([])
            axis.set_yticks([])
        row[0].set_ylabel(label, rotation=0, ha="right", va="center")
    for axis, (name, net) in zip(below.subplots(1, len(nets)), nets.items(), strict=True):
        edges = np.linspace(net.outlier_scores_.min(), net.outlier_scores_.max(), 60)
        axis.hist(net.outlier_scores_[~bad], edges, label="digits")
        axis.hist(net.outlier_scores_[bad], edges, label="outliers")
        axis.axvline(net.outlier_scale_.cutoff, color="black", linewidth=1, linestyle="--")
        axis.set_title(name)
        axis.set_xlabel("outlier score of training rows")
        axis.set_yscale("log")
        axis.legend()
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
