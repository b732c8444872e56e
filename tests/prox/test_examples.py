import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["norms", "proximal", "simplex"])
def test_examples_in_docstrings(name: str) -> None:
    outcome = doctest.testmod(import_module(f"proxlin.prox.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
