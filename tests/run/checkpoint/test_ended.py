"""Runs that are over, budgets that are raised, and how often a run is kept."""

import threading

import pytest
import torch

from proxlin import MBO, SADM, Adam, Checkpoints, Status, minimize
from proxlin.errors import CheckpointError, InvalidInputError
from proxlin.run.checkpoint.folder import CheckpointFolder
from proxlin.run.checkpoint.writer import CheckpointWriter
from tests.run.checkpoint.runs import CrashError, problem, run, timeless

_OVER = "The run in the checkpoint folder was over; its result was read from there."


def stored(folder, number=None):
    folder = CheckpointFolder(folder)
    return folder.read(number or folder.numbers()[-1])[0].tree["entries"]


class NoSteps(Adam):
    """Adam that may not move."""

    def step(self, problem, state, budget):
        pytest.fail("a step was taken")


def test_a_run_that_is_over_is_returned_as_it_was(tmp_path, monkeypatch):
    first = run("probed layered", checkpoint=tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.setattr("proxlin.methods.probed.method.Probed.step", NoSteps.step)
    again = run("probed layered", checkpoint=tmp_path)
    assert torch.equal(again.theta, first.theta)
    assert again.history.records == first.history.records
    assert again.remarks == (*first.remarks, _OVER)
    assert (again.status, again.seconds) == (first.status, pytest.approx(first.seconds, abs=0.5))
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_the_module_holds_the_stored_parameters(tmp_path):
    first = run("adam", checkpoint=tmp_path)
    task = problem()
    with torch.no_grad():
        task.module[0].weight.zero_()
    minimize(task, Adam(batch_size=32), max_iter=40, max_seconds=None, checkpoint=tmp_path)
    assert torch.equal(task.theta(), first.theta)


def test_a_run_whose_steps_were_used_up_goes_on_when_there_are_more(tmp_path):
    first = run("sgd", checkpoint=tmp_path, max_iter=25)
    further = run("sgd", checkpoint=tmp_path, max_iter=60)
    assert (first.iterations, further.iterations) == (25, 60)
    # A constant rate does not look at the budget: the points are those of one long run.
    assert torch.equal(further.theta, run("sgd", max_iter=60).theta)
    assert further.history.records[: len(first.history.records)] == first.history.records
    assert run("sgd", checkpoint=tmp_path, max_iter=30).iterations == 60  # fewer change nothing


def test_seconds_count_on(tmp_path, ticking_clock):
    first, again, more = (
        minimize(problem(), "adam", max_seconds=limit, checkpoint=tmp_path) for limit in (2, 2, 3)
    )
    assert first.status is again.status is more.status is Status.TIME
    assert again.iterations == first.iterations < more.iterations
    assert more.seconds == pytest.approx(3, abs=0.2)
    clock = [one["seconds"] for one in more.history.records]
    assert clock == sorted(clock)


def test_a_converged_run_goes_on_only_for_a_smaller_tolerance(tmp_path):
    def converge(tol):
        task = problem(width=2)
        options = {"max_seconds": None, "max_iter": 60, "checkpoint": tmp_path}
        return minimize(task, MBO(solver=SADM(max_steps=40, tolerance=10)), tol=tol, **options)

    first = converge(1e3)
    assert first.status is Status.CONVERGED
    assert converge(1e3).iterations == first.iterations
    assert converge(1e-9).iterations > first.iterations


def test_a_run_that_a_callback_stopped_is_over(tmp_path):
    def stop(told):
        return told.iteration >= 10

    options = {"max_seconds": None, "max_iter": 40, "checkpoint": tmp_path}
    first = minimize(problem(), "adam", callbacks=[stop], **options)
    assert minimize(problem(), "adam", **options).iterations == first.iterations == 10


def test_polishing_starts_again_from_the_stored_point(tmp_path):
    options = {"max_seconds": None, "max_iter": 10, "polish": 1}
    whole = minimize(problem(n=30, width=2), "adam", **options)
    for _ in range(2):
        found = minimize(problem(n=30, width=2), "adam", checkpoint=tmp_path, **options)
        assert torch.equal(found.theta, whole.theta)
        assert timeless(found) == timeless(whole)


def test_the_start_is_the_one_of_the_first_call(tmp_path):
    start = problem().theta()
    with pytest.raises(CrashError):
        run("adam", checkpoint=Checkpoints(tmp_path, every_steps=3), crash_at=10)
    task = problem()
    task.assign(torch.zeros_like(start))
    found = minimize(
        task, Adam(batch_size=32), max_seconds=None, max_iter=40, keep_start=True,
        checkpoint=tmp_path,
    )  # fmt: skip
    assert torch.equal(found.start, start)


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize("keep", [1, 2, 4])
def test_the_latest_are_kept_and_the_others_removed(keep, tmp_path):
    run("adam", checkpoint=Checkpoints(tmp_path, every_steps=1, keep=keep))
    numbers = CheckpointFolder(tmp_path).numbers()
    assert len(numbers) == keep
    assert numbers == CheckpointFolder(tmp_path).numbers("safetensors")
    assert stored(tmp_path)["used"][0] == 40
    assert stored(tmp_path)["status"] == "ITERATIONS"


@pytest.mark.usefixtures("in_turn")
def test_a_second_part_of_a_run_removes_those_of_the_first(tmp_path):
    kept = Checkpoints(tmp_path, every_steps=4)
    with pytest.raises(CrashError):
        run("adam", checkpoint=kept, crash_at=20)
    before = CheckpointFolder(tmp_path).numbers()
    run("adam", checkpoint=kept)
    assert len(CheckpointFolder(tmp_path).numbers()) == 2
    assert min(CheckpointFolder(tmp_path).numbers()) > max(before)


def test_intervals_of_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("proxlin.run.checkpoint.writer.time.monotonic", lambda: now[0])
    writer = CheckpointWriter(Checkpoints(tmp_path, every_seconds=30), {})
    with writer:
        writer.begin(0, {})
        assert not writer.due(1000)
        now[0] = 30.0
        assert writer.due(1)
        writer.keep(1, {}, wait=True)
        assert not writer.due(1000)


def test_never_two_at_once(tmp_path, monkeypatch):
    going, ended = threading.Event(), threading.Event()

    def slow(*_):
        going.set()
        assert ended.wait(60)

    monkeypatch.setattr(CheckpointFolder, "write", slow)
    with CheckpointWriter(Checkpoints(tmp_path, every_steps=1), {}) as writer:
        writer.keep(1, {})
        assert going.wait(60)
        assert not writer.due(100)  # the first is still being written
        ended.set()
        assert writer.wait() == []
        assert writer.due(100)


class Odd(Adam):
    """Adam with a memory that no checkpoint can keep."""

    def init(self, problem, theta, generator):
        state = super().init(problem, theta, generator)
        state.steps = {1, 2}
        return state


def test_a_memory_that_cannot_be_kept_is_refused_before_the_first_step(tmp_path):
    with pytest.raises(CheckpointError, match=r"state\.steps is a set"):
        minimize(problem(), Odd(), max_iter=10, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Checkpoints(""), "Checkpoints(folder=...) must be the path of a folder; got ''"),
        (lambda: Checkpoints(3), "got 3"),
        (lambda: Checkpoints("a", every_seconds=0), "Checkpoints(every_seconds=...) must be > 0"),
        (lambda: Checkpoints("a", every_steps=0), "Checkpoints(every_steps=...) must be a whole"),
        (lambda: Checkpoints("a", keep=0), "Checkpoints(keep=...) must be a whole number >= 1"),
        (lambda: run("adam", checkpoint=True), "checkpoint must be the path of a folder"),
        (lambda: run("adam", checkpoint=""), "checkpoint must be the path of a folder"),
        (lambda: run("adam", checkpoint="a\0b"), "checkpoint must be the path of a folder"),
        (lambda: run("adam", checkpoint=__file__), "cannot be kept in"),
    ],
)
def test_bad_settings_are_one_sentence(call, words):
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
