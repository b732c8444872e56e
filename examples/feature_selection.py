"""Find the three features that matter while a fifth of the targets follow another one.

    python examples/feature_selection.py [folder for the picture]

The path of RobustFeatureSelector over the strength of its regulariser beside the path of
scikit-learn's multi-task lasso, which squares the errors. PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import MultiTaskLasso

from proxlin import RobustFeatureSelector

ROWS, POINTS = (150, 6) if os.environ.get("PROXLIN_QUICK") else (400, 20)
PLANTED = (2, 5, 9)
MISLEADING = 0


def make_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Twelve features, two targets from three of them, and every fifth row misled by another."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(ROWS, 12))
    y = x[:, PLANTED] @ generator.choice([-1.0, 1.0], size=(3, 2))
    y += 0.3 * generator.normal(size=y.shape)
    y[::5] = 10 * x[::5, [MISLEADING]] + generator.normal(size=(len(x[::5]), 2))
    return x, y


def main(folder: Path) -> None:
    """Select, print what was kept, save the picture."""
    x, y = make_rows()
    selector = RobustFeatureSelector(3, n_alphas=POINTS)
    kept = selector.fit(x, y).get_support(indices=True)
    path = selector.path(x, y)
    squared = np.stack([squared_norms(x, y, alpha) for alpha in strengths(x, y)])
    first = squared[np.argmax((squared > 0).sum(1) >= 3)].argsort()[::-1][:3]
    print(f"planted {list(PLANTED)}, misleading {MISLEADING}")
    print(f"norms, not squared: keeps {sorted(kept.tolist())}")
    print(f"squared errors (multi-task lasso): keeps {sorted(first.tolist())}")
    draw(path.alphas, path.importances, strengths(x, y), squared).savefig(
        folder / "feature-selection.png", dpi=110
    )


def strengths(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """From the strength that keeps nothing to a thousandth of it, for squared errors."""
    centred = y - y.mean(0)
    largest = np.linalg.norm((x - x.mean(0)).T @ centred, axis=1).max() / len(x)
    return np.geomspace(largest, 1e-3 * largest, POINTS)


def squared_norms(x: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """||B_j||_2 of each feature by the multi-task lasso."""
    return np.linalg.norm(MultiTaskLasso(alpha=alpha).fit(x, y).coef_, axis=0)


def draw(alphas: np.ndarray, robust: np.ndarray, others: np.ndarray, squared: np.ndarray) -> Figure:
    """Both paths side by side, planted and misleading features in colour."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = (("norms, not squared", alphas, robust), ("squared errors", others, squared))
    for axis, (title, points, norms) in zip(figure.subplots(1, 2), panels, strict=True):
        for feature, line in enumerate(norms.T):
            colour, label = "lightgray", None
            if feature in PLANTED:
                colour, label = "tab:blue", "planted" if feature == PLANTED[0] else None
            if feature == MISLEADING:
                colour, label = "tab:red", "misleading"
            axis.plot(points / points[0], line, color=colour, label=label)
        axis.set_xscale("log")
        axis.invert_xaxis()
        axis.set_title(title)
        axis.set_xlabel("strength, relative to the largest")
        axis.set_ylabel("importance of each feature")
        axis.legend()
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
