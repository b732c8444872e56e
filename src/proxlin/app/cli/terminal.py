"""What the commands say on a terminal: sentences, and the stage that is going on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from proxlin.run.result import Progress as TrainingProgress

console = Console()
_LONGEST = 600  # characters of an error: about eight lines of a terminal


def say(text: str) -> None:
    """Print a sentence or a path as it is, in one piece."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def printable(text: str) -> str:
    """The text without characters that would move the cursor or change colours."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def brief(error: Exception) -> str:
    """What an error says, in a few lines whatever the names in it are, and without escape codes."""
    text = printable(str(error))
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


class Stages:
    """Shows the present stage on a terminal, and how far a training has come; nothing elsewhere."""

    def __init__(self, *, show: bool) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (show and console.is_terminal),
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Stages:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._progress.disable:  # rich before 14.1 prints an empty line even then
            self._progress.stop()

    def __call__(self, stage: str) -> None:
        """End the stage that went on and begin this one."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(stage, total=None, detail="")

    def training(self, state: TrainingProgress) -> None:
        """Show the objective, the best so far and, by the budget used, the time left."""
        if self._task is not None:
            text = f"objective {state.objective:.4g}, best {state.best:.4g}"
            self._progress.update(self._task, total=1.0, completed=state.share, detail=text)
