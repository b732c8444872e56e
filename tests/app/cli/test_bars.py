import io
import json
import time
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from proxlin.app.cli import bars
from proxlin.run.result import Progress


@pytest.fixture
def screen(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(bars, "console", Console(file=text, force_terminal=True, width=120))
    return text


JOB = SimpleNamespace(name="digits_p1_probed")


def test_a_terminal_sees_objective_best_and_count(screen):
    with bars.Bars(show=True) as shown:
        shown.begin("training", 2)
        (callback,) = shown.callbacks(JOB)
        callback(Progress(5, 1.0, 3.25, 2.5, None, 0.5, torch.empty(0)))
        shown._progress.refresh()
        assert "digits_p1_probed" in screen.getvalue()
        assert "objective 3.25, best 2.5" in screen.getvalue()
        shown.finished(JOB, {"a": "record"})
        shown.finished(JOB, None)
        shown._progress.refresh()
    assert "1 of 2" in screen.getvalue() or "2 of 2, one failed" in screen.getvalue()


def test_jobs_without_bars_of_their_own_move_that_of_their_stage(screen):
    with bars.Bars(show=True) as shown:
        shown.begin("other shares", 2)
        assert shown.next_job("first") == shown.next_job("second") == ()
        (task,) = shown._progress.tasks
        assert (task.completed, task.total, task.fields["detail"]) == (1, 2, "second")


def test_notes_of_other_processes_move_the_bars(screen, monkeypatch):
    monkeypatch.setattr(bars, "_POLL", 0.01)
    with bars.Bars(show=True) as shown:
        shown.begin("training", 1)
        folder = shown.folder
        (folder / "half.json").write_text('{"share": 0.')
        (folder / "other.json").write_text(
            json.dumps({"share": 0.25, "objective": 7.5, "best": 6.5})
        )
        deadline = time.monotonic() + 20
        while "other" not in shown._tasks and time.monotonic() < deadline:
            time.sleep(0.01)
        shown._progress.refresh()
        assert "objective 7.5, best 6.5" in screen.getvalue()
        shown.finished(SimpleNamespace(name="other"), {})
        assert not (folder / "other.json").exists()
    assert not folder.exists()


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_is_shown_when_quiet_or_not_a_terminal(monkeypatch, terminal):
    text = io.StringIO()
    monkeypatch.setattr(bars, "console", Console(file=text, force_terminal=terminal))
    with bars.Bars(show=not terminal) as shown:
        shown.begin("training", 1)
        assert shown.callbacks(JOB) == ()
        assert shown.folder is None
        shown.finished(JOB, {})
    assert text.getvalue() == ""
