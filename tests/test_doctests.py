"""Every example in a docstring does what it says."""

import doctest
import importlib
import pkgutil

import pytest

import proxlin

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(proxlin.__path__, "proxlin.")
    if module.name != "proxlin.__main__"  # runs the command line
)


@pytest.mark.parametrize("name", ["proxlin", *MODULES])
def test_examples(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0, f"{found.failed} of {found.attempted} examples"


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    with_examples = [
        name
        for name in MODULES
        if any(test.examples for test in finder.find(importlib.import_module(name)))
    ]
    assert {
        "proxlin.problem.problem",
        "proxlin.terms.layout",
        "proxlin.methods.subproblem.metric",
    } <= set(with_examples)
