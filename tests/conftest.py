import re
import signal
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from proxlin.app.cli import main as cli
from tests.browser import browser

__all__ = ["browser"]  # one for all folders: a process cannot start two

# A shell that starts tests in the background lets them ignore Ctrl-C, which some of them press.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, but for `make test-long`; no test looks at the clock.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.register_profile("fuzz", deadline=None, print_blob=True, max_examples=200)
settings.load_profile("repeatable")

# Tests that take longer than this, as measured; `make test-times` writes the list anew.
SLOW = Path(__file__).with_name("slow_tests.txt")
_LONGEST = 0.3  # seconds
_seconds = {}  # of each test function, over its parameters


def pytest_addoption(parser):
    parser.addoption("--write-times", action="store_true", help=f"write {SLOW.name} anew")


def pytest_collection_modifyitems(items):
    """Mark what opens a browser, wherever it stands, and what is slow by measurement."""
    slow = set(SLOW.read_text().split())
    for item in items:
        if {"browser", "visit"} & set(item.fixturenames):
            item.add_marker(pytest.mark.browser)
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_logreport(report):
    name = report.nodeid.partition("[")[0]
    spent = _seconds.setdefault(name, {})
    spent[report.nodeid] = spent.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session):
    main_process = not hasattr(session.config, "workerinput")  # the one that hears every report
    if main_process and session.config.getoption("--write-times"):
        names = sorted(name for name, spent in _seconds.items() if max(spent.values()) > _LONGEST)
        SLOW.write_text("\n".join(names) + "\n")


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
