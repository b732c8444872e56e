import signal
from contextlib import suppress

import pytest

from proxlin.app.cli.session import Interrupts


def press():
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_raises_and_the_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interrupts():
        press()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_turned_into_another_error_is_an_interrupt():
    def turn():
        try:
            press()
        except KeyboardInterrupt as cause:
            raise SystemError("returned a result with an exception set") from cause

    with pytest.raises(KeyboardInterrupt), Interrupts():
        turn()


def test_an_interrupt_that_was_dropped_is_found_at_the_next_look():
    with Interrupts() as interrupts:
        interrupts.check()
        with suppress(KeyboardInterrupt):
            press()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), Interrupts():
        _ = 1 / 0
