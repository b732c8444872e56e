"""Ctrl-C and SIGTERM between two steps: the run is kept, and the signal is not lost."""

import signal
import threading

import pytest
import torch

from proxlin import Checkpoints, Status, minimize
from proxlin.app.cli.session import Interrupts
from proxlin.run.checkpoint.folder import CheckpointFolder
from tests.run.checkpoint.runs import CASES, problem, run, timeless

ONLY_THE_LAST = {"every_seconds": None, "every_steps": None}


def sent(folder, *signals, at=20):
    """A run whose evaluation at step `at` is when the signals come."""
    method, terms = CASES["probed layered"]

    def strike(told):
        if told.iteration == at:
            for number in signals:
                signal.raise_signal(number)

    return minimize(
        problem(**terms), method, max_seconds=None, max_iter=40, callbacks=[strike],
        checkpoint=Checkpoints(folder, **ONLY_THE_LAST),
    )  # fmt: skip


def is_whole(found):
    whole = run("probed layered")
    return torch.equal(found.theta, whole.theta) and timeless(found) == timeless(whole)


def test_ctrl_c_keeps_the_run_and_returns_the_best_so_far(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    found = sent(tmp_path, signal.SIGINT)
    assert found.status is Status.INTERRUPTED
    assert found.iterations == 20
    assert signal.getsignal(signal.SIGINT) is before
    assert is_whole(run("probed layered", checkpoint=tmp_path))


def test_the_second_ctrl_c_does_not_wait_and_keeps_nothing_half_done(tmp_path):
    found = sent(tmp_path, signal.SIGINT, signal.SIGINT)
    assert found.status is Status.INTERRUPTED
    assert CheckpointFolder(tmp_path).numbers() == []


def test_sigterm_reaches_the_handler_that_was_there(tmp_path):
    seen = []

    def handler(number, _frame):
        seen.append((number, CheckpointFolder(tmp_path).numbers()))

    before = signal.signal(signal.SIGTERM, handler)
    try:
        found = sent(tmp_path, signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [(signal.SIGTERM, [1])]  # after the checkpoint, and once
    assert found.status is Status.INTERRUPTED
    assert is_whole(run("probed layered", checkpoint=tmp_path))


def test_sigterm_after_ctrl_c_is_not_swallowed(tmp_path):
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        result = sent(tmp_path, signal.SIGINT, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert result.status is Status.INTERRUPTED
    assert seen == [signal.SIGTERM]


def test_ctrl_c_reaches_the_command_that_waits_for_it(tmp_path):
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        sent(tmp_path, signal.SIGINT)
    assert interrupts.hit
    assert CheckpointFolder(tmp_path).numbers() == [1]
    assert is_whole(run("probed layered", checkpoint=tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ignored_signals_stay_ignored(number, tmp_path):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        assert sent(tmp_path, number).status is Status.ITERATIONS
    finally:
        signal.signal(number, before)


def test_handlers_come_back_after_an_error(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def fail(_told):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        minimize(problem(), "adam", max_iter=5, callbacks=[fail], checkpoint=tmp_path)
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_a_run_in_another_thread_leaves_signals_alone_and_is_kept(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(run("adam", checkpoint=tmp_path)))
    thread.start()
    thread.join()
    assert torch.equal(found[0].theta, run("adam").theta)
    assert CheckpointFolder(tmp_path).numbers()
