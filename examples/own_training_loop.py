"""Keep your own training loop and take robust steps in it, with no learning rate to choose.

    python examples/own_training_loop.py [folder for the picture]

The same loop over a DataLoader with AdamW on absolute errors and with proxlin.optim.Probed, whose
closure returns the residual rows. PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from proxlin.optim import Probed

EPOCHS = 2 if os.environ.get("PROXLIN_QUICK") else 20


def main(folder: Path) -> None:
    """Train twice, print and draw the error on clean rows after each epoch."""
    torch.manual_seed(0)
    x = torch.randn(4096, 10)
    clean = torch.sin(x[:, :3])
    y = clean.clone()
    y[::5] += 20 * torch.randn(820, 3)  # a fifth of the rows is wrong
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name in ("AdamW", "Probed"):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 3))
        loader = DataLoader(TensorDataset(x, y), batch_size=256, shuffle=True)
        if name == "AdamW":
            adam = torch.optim.AdamW(net.parameters(), lr=3e-3)
        else:
            robust = Probed(net.named_parameters(), p=1, total_steps=EPOCHS * len(loader))
        course = []
        for _ in range(EPOCHS):
            for inputs, targets in loader:
                if name == "AdamW":
                    adam.zero_grad()
                    (net(inputs) - targets).abs().sum(1).mean().backward()
                    adam.step()
                else:
                    robust.step(lambda a=inputs, b=targets: net(a) - b)  # noqa: B023  called at once
            with torch.no_grad():
                course.append(float((net(x) - clean).abs().mean()))
        print(f"{name}: {course[-1]:.4f} from the clean targets after {EPOCHS} epochs")
        axes.plot(range(1, EPOCHS + 1), course, marker=".", label=name)
    axes.set(xlabel="epoch", ylabel="error on clean rows", yscale="log")
    axes.legend()
    figure.savefig(folder / "loop.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
