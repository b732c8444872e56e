"""Callbacks to watch a run and to end it: one line on the screen, TensorBoard, early stopping."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from proxlin._checks import check_count, check_non_negative
from proxlin.errors import InvalidInputError
from proxlin.run.result import Progress

_LINES = 10  # where a line cannot be written anew: a line for each tenth of the budget


class ProgressLine:
    """One line with objective, share of the budget and time left, on the standard error.

    Terminals and notebooks see it change in its place; a file gets a line for each tenth of the
    budget.
    """

    def __init__(self, name: str = "minimize", stream: TextIO | None = None) -> None:
        self.name = name
        self._stream = stream
        self._tenths = -1
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        """Show where the run is."""
        self.show(self.describe(progress), progress.share)

    def show(self, words: str, share: float) -> None:
        """Show these words; `share` of the work is done."""
        stream = self._stream or sys.stderr
        text = f"{self.name}: {words}"
        if _changes_in_place(stream):
            stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif int(_LINES * share) > self._tenths:
            self._tenths = int(_LINES * share)
            stream.write(text + "\n")
        stream.flush()

    def describe(self, progress: Progress) -> str:
        """The words of the line."""
        parts = [f"objective {progress.best:.6g}", f"step {progress.iteration:,}"]
        if progress.certificate is not None:
            parts.append(f"{progress.certificate.kind} {progress.certificate.value:.2g}")
        parts.append(f"{progress.seconds:.0f} s")
        if progress.share > 0:
            left = progress.seconds * (1 - progress.share) / progress.share
            parts.append(f"{progress.share:.0%} of the budget, {left:.0f} s left at most")
        return ", ".join(parts)

    def close(self, words: str) -> None:
        """End the line with what came out."""
        stream = self._stream or sys.stderr
        text = f"{self.name}: {words}"
        begin = "\r" if _changes_in_place(stream) else ""
        stream.write(begin + text.ljust(self._width) + "\n")
        stream.flush()


@dataclass
class EarlyStopping:
    """End a run whose best objective has not fallen by a share for some evaluations.

    Nets that could learn outliers by heart are better ended by `minimize(held_out=...)`.

    >>> stop = EarlyStopping(patience=3, min_decrease=1e-2)
    """

    patience: int = 5  # evaluations without progress
    min_decrease: float = 1e-3  # of the best objective, that counts as progress
    _mark: float = field(default=float("inf"), init=False, repr=False)
    _stale: int = field(default=0, init=False, repr=False)
    _latest: int = field(default=0, init=False, repr=False)  # step that was seen

    def __post_init__(self) -> None:
        check_count("EarlyStopping(patience=...)", self.patience)
        check_non_negative("EarlyStopping(min_decrease=...)", self.min_decrease)

    def __call__(self, progress: Progress) -> bool:
        """Whether to stop."""
        if progress.iteration == 0 or progress.iteration < self._latest:
            self._mark, self._stale = float("inf"), 0  # a new run
        self._latest = progress.iteration
        if progress.best < self._mark - self.min_decrease * abs(self._mark) or (
            self._mark == float("inf")
        ):
            self._mark, self._stale = progress.best, 0
        else:
            self._stale += 1
        return self._stale >= self.patience


class TensorBoard:
    """Write objective, best so far and certificate of each evaluation for TensorBoard.

    Needs `pip install tensorboard`; `tensorboard --logdir FOLDER` shows the curves.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  an extra
        except ImportError as missing:
            raise InvalidInputError(
                "TensorBoard(...) needs tensorboard: pip install tensorboard."
            ) from missing
        self._writer: Any = SummaryWriter(str(Path(folder)))

    def __call__(self, progress: Progress) -> None:
        """Write one point of each curve."""
        values = {"objective": progress.objective, "best": progress.best}
        if progress.certificate is not None:
            values[progress.certificate.kind.replace(" ", "_")] = progress.certificate.value
        for name, value in values.items():
            self._writer.add_scalar(name, value, progress.iteration)
        self._writer.flush()

    def close(self) -> None:
        """Close the file; a run writes every point at once, so that nothing is lost without it."""
        self._writer.close()


def _changes_in_place(stream: TextIO) -> bool:
    """Whether a carriage return brings the writing back to the beginning of the line."""
    return stream.isatty() or "ipykernel" in type(stream).__module__
