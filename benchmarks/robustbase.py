"""Fits by R's robustbase, many tables in one process of R."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SCRIPT = Path(__file__).parent / "r" / "fit.R"


def available() -> bool:
    """Whether there is an Rscript to call."""
    return shutil.which("Rscript") is not None


def fit_in_r(
    tables: Mapping[str, tuple[Array, Array]], methods: Sequence[str]
) -> dict[tuple[str, str], tuple[Array, float]]:
    """(table, method) -> intercept and slopes, CPU seconds; NaN where R failed.

    Methods are "MM" (lmrob), "KS2014" (lmrob with that setting), "LTS", "rlm" and "quantile".
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key, (x, y) in tables.items():
            np.savetxt(folder / f"{key}.csv", np.column_stack([x, y]), delimiter=",", fmt="%.17g")
        command = ["Rscript", str(_SCRIPT), name, ",".join(methods)]
        subprocess.run(command, check=True, capture_output=True)
        lines = [line.split(",") for line in (folder / "answers.txt").read_text().splitlines()]
    return {
        (table, method): (
            np.array([np.nan if value == "NA" else float(value) for value in values]),
            float(seconds),
        )
        for table, method, seconds, *values in lines
    }
