"""Fit a physical law of your own, written as a torch module, to a signal with dropouts.

    python examples/own_module.py [folder for the picture]

A damped oscillation has four parameters. The sensor fails for a fifth of the samples and then reads
its upper end. Any module works: say what the residual of a row is, and which norm.
PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from proxlin import Problem, minimize

STEPS = 100 if os.environ.get("PROXLIN_QUICK") else 400


class Oscillation(nn.Module):
    """amplitude * exp(-decay t) * cos(frequency t + phase)."""

    def __init__(self) -> None:
        super().__init__()
        self.law = nn.Parameter(torch.tensor([1.0, 0.1, 2.2, 0.0]))

    def forward(self, t: Tensor) -> Tensor:
        """The signal at each time, (n, 1)."""
        amplitude, decay, frequency, phase = self.law
        return amplitude * torch.exp(-decay * t) * torch.cos(frequency * t + phase)


def main(folder: Path) -> None:
    """Fit with two losses, print the laws found, save the picture."""
    generator = torch.Generator().manual_seed(0)
    t = torch.linspace(0, 10, 400)[:, None]
    truth = 2.0 * torch.exp(-0.2 * t) * torch.cos(2.5 * t + 0.5)
    signal = truth + 0.05 * torch.randn(t.shape, generator=generator)
    failed = torch.rand(t.shape, generator=generator) < 0.2
    signal[failed] = 3.0

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(t, signal, s=6, color="0.6", label="readings")
    axes.plot(t, truth, "k--", label="the law")
    print("the law: 2.00 0.20 2.50 0.50 (amplitude, decay, frequency, phase)")
    for name, p in (("squared errors", "mse"), ("absolute errors", 1.0)):
        law = Oscillation()
        result = minimize(Problem(law, (t, signal), p=p), max_iter=STEPS)
        print(f"{name}:", " ".join(f"{value:.2f}" for value in law.law.tolist()))
        print("   ", result)
        axes.plot(t, law(t).detach(), lw=2, label=name)
    axes.set(xlabel="time", ylabel="signal")
    axes.legend(loc="upper right", ncols=2)
    figure.savefig(folder / "signal.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
