import re
import signal
import sys
from itertools import count

import pytest
from hypothesis import settings

from proxlin.app.cli import main as cli

# A shell that starts tests in the background lets them ignore Ctrl-C, which some of them press.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, but for `make test-long`; no test looks at the clock.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("repeatable")

_BY_FIXTURE = {"browser": pytest.mark.browser, "visit": pytest.mark.browser}


def pytest_collection_modifyitems(items):
    """Mark what opens a browser, wherever it stands."""
    for item in items:
        for fixture, mark in _BY_FIXTURE.items():
            if fixture in item.fixturenames:
                item.add_marker(mark)


@pytest.fixture
def ticking_clock(monkeypatch):
    """Each look at the clock of a run takes 10 ms: budgets of time, on any machine alike."""
    ticks = count()
    monkeypatch.setattr(
        sys.modules["proxlin.run.minimize"], "clock_of", lambda _: lambda: 0.01 * next(ticks)
    )


@pytest.fixture
def run(monkeypatch, capsys):
    """Call the command line in this process: exit code, standard output, standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["proxlin", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        # Some machines that run tests ask for colours.
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capsys.readouterr()]
        return ended.value.code or 0, *plain

    return call
