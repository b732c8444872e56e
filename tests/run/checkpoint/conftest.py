from contextlib import contextmanager

import pytest

from proxlin.run.checkpoint import CheckpointWriter


@contextmanager
def waiting():
    """Every checkpoint is on the disk before the next step, however slow the disk is."""
    real = CheckpointWriter.keep
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointWriter, "keep", lambda *given, wait=False: real(*given, wait=True))
        yield


@pytest.fixture
def in_turn():
    with waiting():
        yield
