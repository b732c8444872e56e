import re
import signal
import sys

import pytest

from proxlin.app.cli import main as cli

# A shell that starts tests in the background lets them ignore Ctrl-C, which some of them press.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run(monkeypatch, capsys):
    """Call the command line in this process: exit code, standard output, standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["proxlin", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr()
        # Some machines that run tests ask for colours.
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", text) for text in told]
        return ended.value.code or 0, *plain

    return call
