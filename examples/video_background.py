"""Take what moves out of a video: the background is of low rank, people are gross errors.

    python examples/video_background.py [folder for the picture]

Every frame is a row of a table. Something bright walks through, the light changes, and the camera
loses a few pixels. A truncated SVD smears the walker. Principal component pursuit, the convex way
to low rank plus sparse, is quick and shrinks the light; RobustFactorization is nearest.
PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import TruncatedSVD

from proxlin import RobustFactorization

FRAMES = 30 if os.environ.get("PROXLIN_QUICK") else 80
HEIGHT, WIDTH = 24, 40


def video() -> tuple[np.ndarray, np.ndarray]:
    """(frames as they should be without the walker, frames as filmed; NaN is a lost pixel)."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    room = 0.4 + 0.2 * np.sin(x / 4) * np.cos(y / 5) + 0.2 * (y > 16)
    window = np.exp(-((x - 30) ** 2 + (y - 6) ** 2) / 40)
    light = 0.3 + 0.3 * np.sin(np.linspace(0, 5, FRAMES))
    clean = room[None] + light[:, None, None] * window
    filmed = clean + 0.01 * rng.normal(size=clean.shape)
    for number in range(FRAMES):
        centre = WIDTH * number / FRAMES
        filmed[number][(np.abs(x - centre) < 3) & (y > 6) & (y < 20)] = 1.0
    filmed[rng.random(filmed.shape) < 0.05] = np.nan
    return clean.reshape(FRAMES, -1), filmed.reshape(FRAMES, -1)


def by_svd(filmed: np.ndarray) -> np.ndarray:
    """The nearest frames of rank 2, lost pixels at their medians."""
    svd = TruncatedSVD(2, random_state=0)
    filled = np.where(np.isnan(filmed), np.nanmedian(filmed, axis=0), filmed)
    return svd.inverse_transform(svd.fit_transform(filled))


def by_pursuit(filmed: np.ndarray) -> np.ndarray:
    """min ||L||_* + ||S||_1 / sqrt(pixels) over L + S = filmed in known pixels.

    By augmented Lagrangians with a rising penalty (Candes, Li, Ma and Wright 2011; Lin, Chen and Ma
    2010).
    """
    known = ~np.isnan(filmed)
    x = np.where(known, filmed, 0.0)
    weight, norm = 1 / np.sqrt(max(x.shape)), np.linalg.norm(x, 2)
    dual = x / max(norm, np.abs(x).max() / weight)
    penalty, sparse, low = 1.25 / norm, np.zeros_like(x), np.zeros_like(x)
    for _ in range(500):
        u, s, v = np.linalg.svd(x - sparse + dual / penalty, full_matrices=False)
        low = (u * np.maximum(s - 1 / penalty, 0)) @ v
        left = x - low + dual / penalty
        shrunk = np.sign(left) * np.maximum(np.abs(left) - weight / penalty, 0)
        sparse = np.where(known, shrunk, left)  # a lost pixel may be off by anything
        gap = x - low - sparse
        dual += penalty * gap
        penalty = min(1.5 * penalty, 1e7 / norm)
        if np.linalg.norm(gap) < 1e-7 * np.linalg.norm(x):
            break
    return low


def by_factorization(filmed: np.ndarray) -> np.ndarray:
    """RobustFactorization of rank 2."""
    model = RobustFactorization(2, p=1, alpha=0, random_state=0).fit(filmed)
    return model.inverse_transform(model.transform(filmed))


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "truncated SVD": by_svd,
    "component pursuit": by_pursuit,
    "RobustFactorization": by_factorization,
}


def main(folder: Path) -> None:
    """Find the background by each way, print how far off it is and how long it took, draw it."""
    clean, filmed = video()
    found = {"filmed": filmed}
    for name, background in WAYS.items():
        started = time.process_time()
        found[name] = background(filmed)
        seconds, error = time.process_time() - started, np.abs(found[name] - clean).mean()
        print(f"{name}: background {error:.4f} off on average, {seconds:.1f} s")
    found["what moves"] = np.abs(filmed - found["RobustFactorization"])
    figure = Figure(figsize=(12, 2.2), layout="constrained")
    for axes, (name, frames) in zip(figure.subplots(1, 5), found.items(), strict=True):
        axes.imshow(frames[FRAMES // 2].reshape(HEIGHT, WIDTH), cmap="gray", vmin=0, vmax=1)
        axes.set(title=name, xticks=[], yticks=[])
    figure.savefig(folder / "frame.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
