"""Watching a run and ending it."""

from __future__ import annotations

import io

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from proxlin import EarlyStopping, Problem, ProgressLine, TensorBoard, minimize
from proxlin.errors import InvalidInputError
from proxlin.methods.contract import Status
from proxlin.run.result import Certificate, Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def progress(iteration=10, seconds=2.0, best=3.0, share=0.25):
    certificate = Certificate("duality gap", 1e-3, "the objective", 100)
    return Progress(iteration, seconds, best, best, certificate, share, torch.zeros(1))


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=generator)
    torch.manual_seed(0)
    return Problem(nn.Linear(3, 1), (x, x.sum(1, keepdim=True)), p=1)


def test_a_terminal_sees_one_line_that_changes():
    stream = Terminal()
    line = ProgressLine("fit", stream)
    line(progress())
    line(progress(seconds=4.0, share=0.5))
    line.close("done")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.count("\r") == 3
    assert "25% of the budget, 6 s left" in text  # 2 s for a quarter: three times as much is left
    assert "50% of the budget, 4 s left" in text
    assert "duality gap 0.001" in text
    assert text.endswith("\n")


def test_a_file_gets_a_line_for_each_tenth():
    stream = io.StringIO()
    line = ProgressLine(stream=stream)
    for step in range(101):
        line(progress(iteration=step, share=step / 100))
    assert stream.getvalue().count("\n") == 11
    assert "\r" not in stream.getvalue()


def test_minimize_shows_its_progress_on_the_standard_error(problem, capsys):
    result = minimize(problem, max_iter=20, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith(f"minimize: {result}\n")
    assert "objective" in shown.err.splitlines()[0]
    with pytest.raises(InvalidInputError, match="progress must be True or False"):
        minimize(problem, max_iter=1, progress="yes")


def test_progress_does_not_change_the_run(problem):
    start = problem.theta()
    quiet = minimize(problem, max_iter=20)
    problem.assign(start)
    shown = minimize(problem, max_iter=20, progress=True)
    assert torch.equal(quiet.theta, shown.theta)


def test_early_stopping_waits_for_its_patience_and_begins_anew():
    values = [10.0, 8.0, 7.9, 7.5, 7.4]
    for first in (0, 3):  # a long pass over all rows is not spent on the start
        stop = EarlyStopping(patience=2, min_decrease=0.1)
        for _ in range(2):  # the second run knows nothing of the first
            steps = enumerate(values, first)
            stops = [stop(progress(iteration=step, best=best)) for step, best in steps]
            assert stops == [False, False, False, True, True]
    with pytest.raises(InvalidInputError, match="patience"):
        EarlyStopping(patience=0)


def test_early_stopping_ends_a_run_that_is_as_good_as_done(problem):
    result = minimize(problem, max_iter=5000, callbacks=[EarlyStopping(2, min_decrease=0.9)])
    assert result.status is Status.STOPPED
    assert result.iterations < 5000


def test_tensorboard_gets_every_evaluation(problem, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = TensorBoard(tmp_path)
    result = minimize(problem, max_iter=20, callbacks=[board])
    board.close()
    written = events.EventAccumulator(str(tmp_path)).Reload()
    seen = [event.step for event in written.Scalars("objective")]
    course = result.history.frame()
    assert seen == course["iteration"].tolist()[-len(seen) :]
    assert len(seen) >= len(course) - 1


def test_a_result_is_short_in_words_and_whole_in_a_notebook(problem):
    result = minimize(problem, max_iter=30)
    assert len(repr(result)) < 300
    assert len(repr(result.history)) < 100
    page = result._repr_html_()
    assert str(result.status) in page
    assert f"{result.objective:.6g}" in page


def test_a_result_draws_its_course(problem):
    result = minimize(problem, max_iter=30)
    axes = Figure().subplots()
    assert result.plot(ax=axes) is axes
    drawn = axes.lines[0].get_ydata()
    assert list(drawn) == result.history.frame()["objective"].tolist()
