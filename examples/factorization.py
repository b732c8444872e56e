"""Find the shapes that small pictures are made of, with pixels missing and grossly wrong.

    python examples/factorization.py [folder for the picture]

Pictures are sums of five shapes; a fifth of the pixels is missing, a tenth wrong. RobustNMF beside
scikit-learn's NMF of the imputed table, and what robustness costs where nothing is wrong.
PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import NMF, TruncatedSVD
from sklearn.impute import SimpleImputer

from proxlin import RobustFactorization, RobustNMF

SIDE = 12
ROWS = 80 if os.environ.get("PROXLIN_QUICK") else 500


def shapes() -> np.ndarray:
    """Five non-negative pictures of SIDE x SIDE pixels, one a row."""
    y, x = np.mgrid[:SIDE, :SIDE]
    middle = (SIDE - 1) / 2
    ring = np.abs(np.hypot(x - middle, y - middle) - 4.5) < 0.8
    bar = np.abs(x - 2) < 1
    beam = np.abs(y - 9) < 1
    corner = (x > 7) & (y < 4)
    cross = (np.abs(x - y) < 1.1) & (x > 2) & (x < 10)
    return np.stack([part.ravel().astype(float) for part in (ring, bar, beam, corner, cross)])


def make_pictures(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(pictures without noise, the same with Gaussian noise)."""
    amounts = rng.exponential(size=(ROWS, 5)) * (rng.random((ROWS, 5)) < 0.6)
    clean = amounts @ shapes()
    return clean, clean + 0.1 * rng.normal(size=clean.shape)


def matched(components: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The found part nearest to each shape, and the cosines between them."""
    unit = components / np.linalg.norm(components, axis=1, keepdims=True).clip(1e-12)
    planted = shapes() / np.linalg.norm(shapes(), axis=1, keepdims=True)
    cosines = planted @ unit.T
    return components[cosines.argmax(1)], cosines.max(1)


def error(model: RobustFactorization | TruncatedSVD, x: np.ndarray, clean: np.ndarray) -> float:
    """Root mean square error of the pictures that the factors give."""
    found = model.inverse_transform(model.fit_transform(x))
    return float(np.sqrt(np.mean((found - clean) ** 2)))


def main(folder: Path) -> None:
    """Factorise, print how near both come, save the picture."""
    rng = np.random.default_rng(0)
    clean, noisy = make_pictures(rng)
    wrong = np.where(rng.random(noisy.shape) < 0.1, rng.uniform(0, 15, noisy.shape), noisy)
    x = np.where(rng.random(wrong.shape) < 0.2, np.nan, np.maximum(wrong, 0))
    robust = RobustNMF(5, random_state=0).fit(x)
    plain = NMF(5, random_state=0, max_iter=2000).fit(SimpleImputer().fit_transform(x))
    found, near = matched(robust.components_)
    other, far = matched(plain.components_)
    print(f"worst cosine with a shape: RobustNMF {near.min():.3f}, NMF {far.min():.3f}")
    filled = np.abs(robust.impute(x) - clean)[np.isnan(x)]
    print(f"median error of the missing pixels, filled: {np.median(filled):.3f}")
    costs = [error(RobustFactorization(5, p=p, random_state=0), noisy, clean) for p in (1, 2)]
    least = error(TruncatedSVD(5, random_state=0), noisy, clean)
    print(f"Gaussian noise only: error p=1 {costs[0]:.4f}, p=2 {costs[1]:.4f}, SVD {least:.4f}")
    draw(found, other).savefig(folder / "factorization.png", dpi=110)


def draw(found: np.ndarray, other: np.ndarray) -> Figure:
    """Shapes, and the nearest parts of both methods below them."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots(3, 5)
    rows = (("true shapes", shapes()), ("RobustNMF", found), ("NMF, imputed", other))
    for line, (name, parts) in zip(axes, rows, strict=True):
        for ax, part in zip(line, parts, strict=True):
            ax.imshow(part.reshape(SIDE, SIDE), cmap="gray_r", vmin=0)
            ax.set(xticks=[], yticks=[])
        line[0].set_ylabel(name)
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
