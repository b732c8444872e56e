"""Say how sure a prediction is: quantiles that never cross, and the interval between two of them.

    python examples/quantiles_and_intervals.py [folder for the picture]

The noise grows with the feature. Five quantiles are fitted, each proven optimal; the 5 % and 95 %
lines hold nine of ten rows between them wherever one looks.
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

from proxlin.exact.linear import solve_quantiles

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def main(folder: Path) -> None:
    """Fit, print coverage and certificates, save the picture."""
    torch.manual_seed(0)
    x = 10 * torch.rand(2000, 1, dtype=torch.float64)
    y = 3 + 0.5 * x + 0.3 * x * torch.randn_like(x)
    fits = solve_quantiles(x, y, LEVELS)
    lines = torch.cat([x @ fit.coef + fit.intercept for fit in fits], dim=1)
    for level, fit, line in zip(LEVELS, fits, lines.T, strict=True):
        below = (y[:, 0] <= line).double().mean()
        print(f"quantile {level:.2f}: {below:.3f} of the rows lie below; {fit.certificate}")
    inside = (y[:, 0] >= lines[:, 0]) & (y[:, 0] <= lines[:, -1])
    for low, high in ((0, 3), (3, 7), (7, 10)):
        chosen = (x[:, 0] >= low) & (x[:, 0] < high)
        print(f"x in [{low}, {high}): {inside[chosen].double().mean():.0%} between 5 % and 95 %")
    print(f"crossings: {int((lines.diff(dim=1) < -1e-9).sum())}")

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(x, y, s=4, color="0.7")
    grid = torch.tensor([[0.0], [10.0]], dtype=torch.float64)
    ends = [grid @ fit.coef + fit.intercept for fit in fits]
    axes.fill_between(grid[:, 0], ends[0][:, 0], ends[-1][:, 0], alpha=0.2, label="90 % interval")
    for level, end in zip(LEVELS, ends, strict=True):
        axes.plot(grid, end, lw=1.5, label=f"{level:.0%}")
    axes.set(xlabel="feature", ylabel="target")
    axes.legend(ncols=2)
    figure.savefig(folder / "quantiles.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
