"""Let a net be an image: from places to brightness, while 30 % of the pixels are noise.

    python examples/implicit_image.py [folder for the picture]

A net learns the brightness of a photograph from the coordinates of its pixels. Squared errors blur
it towards the noise; absolute errors do not see the noise. PROXLIN_QUICK=1 makes it short.
"""

import math
import os
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image
from torch import Tensor, nn

from proxlin import Problem, minimize

SECONDS = 1.0 if os.environ.get("PROXLIN_QUICK") else 12.0
SIDE = 64


def photograph() -> Tensor:
    """A grey picture of SIDE x SIDE pixels in [0, 1]."""
    colours = torch.tensor(load_sample_image("flower.jpg").copy(), dtype=torch.float32)
    grey = colours.mean(2)[40:400, 140:500] / 255
    return nn.functional.interpolate(grey[None, None], (SIDE, SIDE), mode="area")[0, 0]


def waves(places: Tensor, frequencies: int = 6) -> Tensor:
    """Sines and cosines of the coordinates, so that a net can draw edges."""
    scaled = places[:, :, None] * math.pi * 2.0 ** torch.arange(-1, frequencies - 1)
    return torch.cat([scaled.sin(), scaled.cos()], dim=2).flatten(1)


def main(folder: Path) -> None:
    """Train with two losses, print the errors against the clean picture, save both."""
    torch.manual_seed(0)
    clean = photograph()
    noisy = torch.where(
        torch.rand(clean.shape) < 0.3, (torch.rand(clean.shape) < 0.7).float(), clean
    )
    axis = torch.linspace(-1, 1, SIDE)
    x = waves(torch.cartesian_prod(axis, axis))
    images = {"photograph": clean, "learned from": noisy}
    for name, p in (("squared errors", "mse"), ("absolute errors", 1.0)):
        torch.manual_seed(1)
        net = nn.Sequential(
            nn.Linear(x.shape[1], 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1)
        )
        minimize(Problem(net, (x, noisy.reshape(-1, 1)), p=p), max_seconds=SECONDS)
        images[name] = net(x).detach().reshape(SIDE, SIDE)
        print(f"{name}: {(images[name] - clean).abs().mean():.3f} off on average")
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    for axes, (name, image) in zip(figure.subplots(1, 4), images.items(), strict=True):
        axes.imshow(image, cmap="gray", vmin=0, vmax=1)
        axes.set(title=name, xticks=[], yticks=[])
    figure.savefig(folder / "images.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
