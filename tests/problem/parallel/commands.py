"""Commands as several processes carry them out; started by test_commands.py."""

import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

from proxlin import Checkpoints, Probed
from proxlin.app.cli.main import main
from proxlin.errors import NonFiniteError
from proxlin.paper import reproduction
from proxlin.problem.parallel import SharedClock


def command(*arguments):
    sys.argv = ["proxlin", *map(str, arguments)]
    main()


def often_kept(*arguments):
    """The command as it is, but for checkpoints every 50 ms instead of every minute."""
    Checkpoints.__init__.__kwdefaults__["every_seconds"] = 0.05
    command(*arguments)


def pressed(*arguments, interrupts=SharedClock.interrupts):
    """Ctrl-C on rank 1 alone, as training begins."""

    @contextmanager
    def press(clock):
        with interrupts(clock):
            if os.environ["RANK"] == "1":
                signal.raise_signal(signal.SIGINT)
            yield

    SharedClock.interrupts = press
    command(*arguments)


def pressed_twice(*arguments, step=Probed.step):
    """Ctrl-C twice on rank 1 alone, in the middle of a step."""

    def press(*of_step):
        if os.environ["RANK"] == "1":
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return step(*of_step)

    Probed.step = press
    command(*arguments)


def failing(tries, *arguments, run_cell=reproduction.run_cell):
    """Cells of one learning rate fail on every process, which notes that it tried."""

    def fail(cell, callbacks):
        if "0.003" in cell.method:
            with Path(tries).open("a") as file:
                file.write(f"{cell.name} {os.environ['RANK']}\n")
            raise NonFiniteError("the loss is infinite.")
        return run_cell(cell, callbacks)

    reproduction.run_cell = fail
    command(*arguments)
