"""Take what moves out of a video: the background is of low rank, people are gross errors.

    python examples/video_background.py [folder for the picture]

Every frame is a row of a table. Something bright walks through, the light changes, and the camera
loses a few pixels. RobustFactorization finds the background; a truncated SVD smears the walker.
PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
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


def main(folder: Path) -> None:
    """Find the background twice, print how far off it is, save one frame."""
    clean, filmed = video()
    filled = np.where(np.isnan(filmed), np.nanmedian(filmed, axis=0), filmed)
    svd = TruncatedSVD(2, random_state=0)
    robust = RobustFactorization(2, p=1, random_state=0).fit(filmed)
    found = {
        "filmed": filmed,
        "truncated SVD": svd.inverse_transform(svd.fit_transform(filled)),
        "RobustFactorization": robust.inverse_transform(robust.transform(filmed)),
    }
    found["what moves"] = np.abs(filmed - found["RobustFactorization"])
    for name in ("truncated SVD", "RobustFactorization"):
        print(f"{name}: background {np.abs(found[name] - clean).mean():.4f} off on average")
    figure = Figure(figsize=(10, 2.2), layout="constrained")
    for axes, (name, frames) in zip(figure.subplots(1, 4), found.items(), strict=True):
        axes.imshow(frames[FRAMES // 2].reshape(HEIGHT, WIDTH), cmap="gray", vmin=0, vmax=1)
        axes.set(title=name, xticks=[], yticks=[])
    figure.savefig(folder / "frame.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
