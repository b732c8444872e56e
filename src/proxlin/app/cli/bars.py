"""Bars for many runs: one for all of them, one for each that is going on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from proxlin.app.cli.terminal import console
from proxlin.paper.runner import Watch
from proxlin.run.result import Callback
from proxlin.run.result import Progress as TrainingProgress

_POLL = 0.5  # seconds between two looks at the notes of other processes


class Bars(Watch):
    """Shows objective, best so far and time left on a terminal; nothing elsewhere."""

    def __init__(self, *, show: bool, after_each: Callable[[], None] = lambda: None) -> None:
        self._after_each = after_each  # called when a job has ended
        self._show = show and console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not self._show,
        )
        self._stage: TaskID | None = None
        self._total = 0
        self._done = 0
        self._tasks: dict[str, TaskID] = {}
        self._ended = threading.Event()
        self._notes: TemporaryDirectory[str] | None = None
        self.folder: Path | None = None

    def __enter__(self) -> Bars:
        if self._show:
            self._notes = TemporaryDirectory(prefix="proxlin-", ignore_cleanup_errors=True)
            self.folder = Path(self._notes.name)
            threading.Thread(target=self._poll, daemon=True).start()
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._show:  # rich before 14.1 prints an empty line even where nothing was shown
            self._progress.stop()
        if self._notes is not None:
            self._notes.cleanup()

    def begin(self, stage: str, jobs: int) -> None:
        """A bar for all jobs of the stage, under those of earlier stages; 0 jobs: it only moves."""
        self._total, self._done = jobs, 0
        detail = f"0 of {jobs}" if jobs else ""
        self._stage = self._progress.add_task(stage, total=jobs or None, detail=detail)

    def callbacks(self, job: Any) -> tuple[Callback, ...]:
        """Move the bar of a job of this process."""
        return self.watch(job.name)

    def watch(self, name: str) -> tuple[Callback, ...]:
        """Callbacks that move a bar with this name."""
        if not self._show:
            return ()

        def update(state: TrainingProgress) -> None:
            self._move(name, state.share, state.objective, state.best)

        return (update,)

    def next_job(self, name: str) -> tuple[Callback, ...]:
        """Show which job of the stage has begun, without a bar of its own."""
        if self._stage is not None:
            self._progress.update(self._stage, completed=self._done, detail=name)
        self._done += 1
        return ()

    def finished(self, job: Any, record: Any) -> None:
        """Take the job's bar away and count it."""
        task = self._tasks.pop(job.name, None)
        if task is not None:
            self._progress.remove_task(task)
        if self.folder is not None:
            (self.folder / f"{job.name}.json").unlink(missing_ok=True)
        self._done += 1
        detail = f"{self._done} of {self._total}" + ("" if record is not None else ", one failed")
        if self._stage is not None:
            self._progress.update(self._stage, completed=self._done, detail=detail)
        self._after_each()

    def _move(self, name: str, share: float, objective: float, best: float) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=1.0, detail="")
        detail = f"objective {objective:.4g}, best {best:.4g}"
        self._progress.update(self._tasks[name], completed=share, detail=detail)

    def _poll(self) -> None:
        while not self._ended.wait(_POLL):
            for path in sorted(self.folder.glob("*.json")) if self.folder else ():
                try:
                    note = json.loads(path.read_text())
                except (OSError, ValueError):
                    continue  # being written, or just finished; the next look finds it
                self._move(path.stem, note["share"], note["objective"], note["best"])
