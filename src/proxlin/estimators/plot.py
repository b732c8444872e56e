"""Residual plots with the outliers marked."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxlin.estimators.tables import Array

_GOOD, _BAD = "#4c72b0", "#c44e52"


def plot_scores(
    scores: Array, cutoff: float, *, place: Array | None = None, label: str = "row", ax: Any = None
) -> Any:
    """Draw each row's outlier score over `place` (by default its number); return the axes.

    Rows beyond the cut-off, which is drawn as a line, are red crosses.
    """
    if ax is None:
        # matplotlib takes long to import, and most fits draw nothing.
        from matplotlib import pyplot  # noqa: PLC0415

        _, ax = pyplot.subplots(figsize=(7.0, 3.5), layout="constrained")
    where = np.arange(len(scores)) if place is None else np.asarray(place)
    known = np.isfinite(scores)
    flagged = known & (scores > cutoff)
    good = known & ~flagged
    ax.scatter(where[good], scores[good], s=10, color=_GOOD, alpha=0.6, label="fits")
    ax.scatter(
        where[flagged], scores[flagged], s=24, color=_BAD, marker="x",
        label=f"outlier ({int(flagged.sum())} of {len(scores)})",
    )  # fmt: skip
    ax.axhline(cutoff, color=_BAD, linewidth=0.8, linestyle="--")
    # Gross outliers would press everything else onto one line.
    ax.set_yscale("symlog", linthresh=2 * cutoff)
    ax.set_xlabel(label)
    ax.set_ylabel("outlier score")
    ax.legend(loc="best", fontsize="small")
    return ax
