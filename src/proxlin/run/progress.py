"""Progress: what a run tells those who watch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each evaluation of the full objective."""

    iteration: int
    seconds: float
    objective: float  # at the point just evaluated
    best: float  # lowest so far
    stationarity: float | None
    share: float  # of the budget used, in [0, 1]
    theta: Tensor  # (d,) the point just evaluated; do not change it


Callback = Callable[[Progress], bool | None]
